"""Tells an owner: by Sentry, by a webhook that Slack and its like understand, by e-mail. Each route says whether it got rid of a message.

A message holds counts, causes and links, nothing about a caller. How it leaves without holding anybody up: bridge/watch/outbox.py.
"""

from __future__ import annotations

import http.client
import json
import logging
import smtplib
import socket
from base64 import b64encode
from dataclasses import dataclass
from email.message import EmailMessage
from email.policy import default
from email.utils import formatdate, make_msgid
from typing import Protocol
from urllib.parse import unquote, urlsplit

from requests.utils import requote_uri

from bridge.settings import Settings
from bridge.watch import alerts
from bridge.watch.deadline import Deadline, encrypted
from bridge.watch.standing import Kind

log = logging.getLogger(__name__)

TIMEOUT_S = 10.0  # for a whole sending by webhook or e-mail
# At the usual 78 a title that just does not fit behind "Subject:" leaves that line empty. RFC 5322 allows 998.
# An owner's name with an umlaut goes as quoted-printable: not every server takes 8-bit text (RFC 6152), and smtplib does not ask.
_UNFOLDED = default.clone(max_line_length=900, cte_type="7bit")
_ANSWER_BYTES = 4096  # of a webhook's answer that are read
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_SUBJECT = {Kind.OPEN: "", Kind.STILL: "still: ", Kind.OVER: "over: "}


@dataclass(frozen=True, slots=True)
class Message:
    """What an owner is told. `thread` is the same for all messages about one breach, from its beginning to its end."""

    kind: Kind
    process: str
    cause: str
    owner: str
    title: str
    lines: tuple[str, ...]
    link: str
    thread: str

    @property
    def headline(self) -> str:
        return f"Callbridge, {self.process}: {_SUBJECT[self.kind]}{self.title}"

    @property
    def below(self) -> tuple[str, ...]:
        """What stands below the title. The owner is a setting and no caller's datum, so an address or a number in it is shown."""
        return (*self.lines, f"Owner: {self.owner}")


class LostAnswerError(OSError):
    """The message left, and nobody said what became of it: it may have arrived."""


class Route(Protocol):
    """A way to an owner. Its lane has a thread of its own, so it may take time; SENDING_S is the limit."""

    @property
    def name(self) -> str: ...

    def send(self, message: Message) -> None:
        """Raises OSError or ValueError where the message did not get away, LostAnswerError where it may have."""


class ToSentry:
    """One issue for each cause and process."""

    name = "sentry"

    def send(self, message: Message) -> None:
        alerts.tell(
            message.headline,
            process=message.process,
            owner=message.owner,
            cause=message.cause,
            is_over=message.kind is Kind.OVER,
            more=" ".join(message.lines),
            link=message.link,
        )


class ToWebhook:
    """`{"text": …}`, https://api.slack.com/messaging/webhooks; Mattermost, Rocket.Chat and Google Chat take the same."""

    name = "webhook"

    def __init__(self, url: str) -> None:
        self._url = urlsplit(requote_uri(url))

    def send(self, message: Message) -> None:
        text = "\n".join([f"*{escape(message.headline)}*", *(escape(line) for line in message.below), message.link])
        with Deadline(TIMEOUT_S) as deadline:
            status, is_refusal = self._post(json.dumps({"text": text}).encode(), deadline)
        # A redirect is not followed: it would turn the POST into a GET, and nobody would be told.
        if not 200 <= status < 300:
            raise OSError(f"the webhook answered {status}; check ALERT_WEBHOOK_URL")
        if is_refusal:
            raise OSError(f"the webhook answered {status}, and that it did not take the message; check ALERT_WEBHOOK_URL")

    def _post(self, body: bytes, deadline: Deadline) -> tuple[int, bool]:
        """The status of the answer, and whether the rest of it says no."""
        is_tls, host = self._url.scheme == "https", self._url.hostname or ""
        connection = (http.client.HTTPSConnection if is_tls else http.client.HTTPConnection)(host, self._url.port)
        connection.sock = deadline.connect(host, connection.port, encrypted() if is_tls else None)
        try:
            path = (self._url.path or "/") + (f"?{self._url.query}" if self._url.query else "")
            connection.request("POST", path, body, self._headers())
            answer = connection.getresponse()
            return answer.status, _is_refusal(answer)
        except (OSError, http.client.HTTPException) as error:
            raise LostAnswerError(f"the webhook gave no answer ({type(error).__name__})") from None
        finally:
            connection.close()

    def _headers(self) -> dict[str, str]:
        headers = {"Content-Type": "application/json", "User-Agent": "callbridge"}
        if self._url.username:
            login = f"{unquote(self._url.username)}:{unquote(self._url.password or '')}"
            headers["Authorization"] = f"Basic {b64encode(login.encode()).decode()}"
        return headers


def _is_refusal(answer: http.client.HTTPResponse) -> bool:
    """Some say 200 to what they refuse: Slack's Web API `{"ok": false}` (https://docs.slack.dev/apis/web-api/), DingTalk an `errcode`.

    An answer that does not say where it ends is none of these, and is not waited for.
    """
    if answer.length is None and not answer.chunked:
        return False
    try:
        told = json.loads(answer.read(_ANSWER_BYTES))
    except (OSError, ValueError, RecursionError, http.client.HTTPException):
        return False
    return isinstance(told, dict) and (told.get("ok") is False or any(told.get(name) for name in ("error", "errcode")))


class ToEmail:
    """Plain text, one thread for each breach. `smtps` is encrypted from the start, `smtp` by STARTTLS, and on loopback not at all."""

    name = "email"

    def __init__(self, smtp_url: str, sender: str, receivers: tuple[str, ...]) -> None:
        self._server = urlsplit(smtp_url)
        self._sender = sender
        self._receivers = receivers

    def send(self, message: Message) -> None:
        with Deadline(TIMEOUT_S) as deadline:
            server = self._logged_in(deadline)
            try:
                refused = server.send_message(self._written(message), self._sender, list(self._receivers))
            finally:
                _leave(server)
        if refused:
            log.warning("the mail server refused %s of the addresses in ALERT_EMAIL_TO", len(refused))

    def try_out(self) -> None:
        """All but the mail. Raises OSError or ValueError where a mail would not get away."""
        with Deadline(TIMEOUT_S) as deadline:
            _leave(self._logged_in(deadline))

    def _logged_in(self, deadline: Deadline) -> _Smtp:
        host, is_tls = self._server.hostname or "", self._server.scheme == "smtps"
        server = _Smtp(host, self._server.port or (465 if is_tls else 587), deadline, is_tls=is_tls)
        try:
            if not is_tls and host not in _LOOPBACK:
                server.starttls(context=encrypted())
            if self._server.username:
                server.login(unquote(self._server.username), unquote(self._server.password or ""))
        except smtplib.SMTPNotSupportedError as error:
            server.close()
            if self._server.username and server.does_esmtp and (is_tls or host in _LOOPBACK or server.has_extn("starttls")):
                raise OSError(f"the mail server of SMTP_URL takes no login ({error})") from None
            raise OSError("the mail server of SMTP_URL offers no encryption (STARTTLS); use smtps:// or another server") from None
        except OSError:
            server.close()
            raise
        return server

    def _written(self, message: Message) -> EmailMessage:
        mail = EmailMessage(_UNFOLDED)
        mail["Subject"] = message.headline.replace("…", "...")  # as an encoded word some programs show it raw
        mail["From"] = self._sender
        mail["To"] = ", ".join(self._receivers)
        mail["Date"] = formatdate()
        mail["Auto-Submitted"] = "auto-generated"  # RFC 3834: no out-of-office answers, please
        domain = self._sender.rpartition("@")[2]
        thread = f"<{message.thread}@{domain}>"
        if message.kind is Kind.OPEN:
            mail["Message-ID"] = thread
        else:
            mail["Message-ID"] = make_msgid(domain=domain)
            mail["In-Reply-To"] = mail["References"] = thread
        mail.set_content("\n".join([message.title, "", *message.below, "", message.link, ""]))
        return mail


class _Smtp(smtplib.SMTP):
    """A conversation that ends at its deadline."""

    def __init__(self, host: str, port: int, deadline: Deadline, *, is_tls: bool) -> None:
        self._deadline = deadline
        self._is_tls = is_tls
        super().__init__(host, port)

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        """Where smtplib.SMTP_SSL makes its encrypted one as well."""
        del timeout
        return self._deadline.connect(host, port, encrypted() if self._is_tls else None)

    def data(self, msg: bytes | str) -> tuple[int, bytes]:  # type: ignore[override]  # the stub knows more kinds of buffer
        try:
            return super().data(msg)
        except smtplib.SMTPResponseException:
            raise
        except OSError as error:
            raise LostAnswerError(f"the mail server did not say whether it took the mail ({type(error).__name__})") from None


def _leave(server: smtplib.SMTP) -> None:
    """What the server says to this changes nothing: the mail is taken or refused by now."""
    try:
        server.quit()
    except OSError:
        server.close()


def routes(settings: Settings) -> tuple[Route, ...]:
    """The ways that are set up. Connects to nothing."""
    found: list[Route] = []
    if settings.sentry_dsn:
        found.append(ToSentry())
    if settings.alert_webhook_url:
        found.append(ToWebhook(settings.alert_webhook_url.get_secret_value()))
    if settings.smtp_url and settings.alert_email_from and settings.alert_email_to:
        found.append(ToEmail(settings.smtp_url.get_secret_value(), settings.alert_email_from, settings.alert_email_to))
    return tuple(found)


def reason(error: Exception) -> str:
    """Why something was not sent, in words of our own or as the error's name: a foreign message may quote the webhook's URL, a secret."""
    is_ours = type(error) in (OSError, LostAnswerError) and len(error.args) == 1
    return str(error) if is_ours else type(error).__name__


def escape(text: str) -> str:
    """Slack reads these three as markup (https://api.slack.com/reference/surfaces/formatting#escaping)."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")

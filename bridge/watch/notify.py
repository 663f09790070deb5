"""Tells an owner: by Sentry, by a webhook that Slack and its like understand, by e-mail. Each route says whether it got rid of a message.

A message holds counts, causes and links, nothing about a caller. Sending has its own thread and short time limits, so that whoever watches
is never held up by whoever is told.
"""

from __future__ import annotations

import logging
import smtplib
import ssl
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from email.message import EmailMessage
from email.utils import formatdate
from typing import Protocol
from urllib.parse import unquote, urlsplit

import requests

from bridge.settings import Settings
from bridge.watch import alerts
from bridge.watch.standing import Kind

log = logging.getLogger(__name__)

TIMEOUT_S = 5.0
STOP_WAIT_S = 3.0
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


class Route(Protocol):
    """A way to an owner."""

    @property
    def name(self) -> str: ...

    def send(self, message: Message) -> None:
        """Raises OSError or ValueError where the message did not get away."""


class ToSentry:
    """One issue for each cause and process. The SDK sends in the background and keeps its own account of what it could not."""

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
        self._url = url

    def send(self, message: Message) -> None:
        text = "\n".join([f"*{escape(message.headline)}*", *(escape(line) for line in message.lines), message.link])
        # A redirect would turn the POST into a GET, and nobody would be told.
        answer = requests.post(self._url, json={"text": text}, timeout=TIMEOUT_S, allow_redirects=False)
        if not 200 <= answer.status_code < 300:
            raise OSError(f"the webhook answered {answer.status_code}; check ALERT_WEBHOOK_URL")


class ToEmail:
    """Plain text, one thread for each breach. `smtps` is encrypted from the start, `smtp` by STARTTLS, and on loopback not at all."""

    name = "email"

    def __init__(self, smtp_url: str, sender: str, receivers: tuple[str, ...]) -> None:
        self._server = urlsplit(smtp_url)
        self._sender = sender
        self._receivers = receivers

    def send(self, message: Message) -> None:
        with self._connect() as server:
            if self._server.username:
                server.login(unquote(self._server.username), unquote(self._server.password or ""))
            refused = server.send_message(self._written(message), self._sender, list(self._receivers))
        if refused:
            log.warning("the mail server refused %s of the addresses in ALERT_EMAIL_TO", len(refused))

    def _connect(self) -> smtplib.SMTP:
        host, is_tls = self._server.hostname or "", self._server.scheme == "smtps"
        if is_tls:
            return smtplib.SMTP_SSL(host, self._server.port or 465, timeout=TIMEOUT_S, context=ssl.create_default_context())
        server = smtplib.SMTP(host, self._server.port or 587, timeout=TIMEOUT_S)
        if host not in _LOOPBACK:
            _encrypt(server)
        return server

    def _written(self, message: Message) -> EmailMessage:
        mail = EmailMessage()
        mail["Subject"] = message.headline
        mail["From"] = self._sender
        mail["To"] = ", ".join(self._receivers)
        mail["Date"] = formatdate()
        mail["Auto-Submitted"] = "auto-generated"  # RFC 3834: no out-of-office answers, please
        thread = f"<{message.thread}@{self._sender.rpartition('@')[2]}>"
        mail["Message-ID" if message.kind is Kind.OPEN else "In-Reply-To"] = thread
        mail.set_content("\n".join([message.title, "", *message.lines, "", message.link, ""]))
        return mail


def _encrypt(server: smtplib.SMTP) -> None:
    """With a context of our own: without one smtplib takes any certificate. Raises OSError where it can't be done."""
    try:
        server.starttls(context=ssl.create_default_context())
    except smtplib.SMTPNotSupportedError:
        server.close()
        raise OSError("the mail server of SMTP_URL offers no encryption (STARTTLS); use smtps:// or another server") from None
    except OSError:
        server.close()
        raise


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


def escape(text: str) -> str:
    """Slack reads these three as markup (https://api.slack.com/reference/surfaces/formatting#escaping)."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


Told = Callable[[bool], None]


class Outbox:
    """Sends in a thread that lives while there is something to send. `told(is sent)` is called there after each."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Route, Message, Told]] = deque()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def put(self, route: Route, message: Message, told: Told) -> None:
        """Returns at once."""
        with self._lock:
            self._waiting.append((route, message, told))
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._work_off, name="alerts", daemon=True)
                self._thread.start()

    def join(self, timeout_s: float = STOP_WAIT_S) -> None:
        """Wait for what is under way. What is not sent by then is due again for the next one who watches."""
        thread = self._thread
        if thread is not None:
            thread.join(timeout_s)

    def _work_off(self) -> None:
        while (item := self._next()) is not None:
            route, message, told = item
            told(_send(route, message))

    def _next(self) -> tuple[Route, Message, Told] | None:
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            self._thread = None
            return None


def _send(route: Route, message: Message) -> bool:
    try:
        route.send(message)
    except (OSError, ValueError) as error:
        # A foreign message may quote the webhook's URL, which is a secret.
        why = str(error) if type(error) is OSError else type(error).__name__
        log.warning("an alert could not be sent by %s (%s); it is tried again", route.name, why, extra={"cause": message.cause})
        return False
    log.info("an alert was sent by %s", route.name, extra={"cause": message.cause, "kind": message.kind.value})
    return True

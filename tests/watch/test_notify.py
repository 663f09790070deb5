"""The ways to an owner: a webhook and a mail server that take messages, and ones that don't."""

from __future__ import annotations

import base64
import json
import socketserver
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from bridge.errors import WrongSettings
from bridge.watch import notify
from bridge.watch.notify import Message, ToEmail, ToWebhook
from bridge.watch.outbox import Letter, Outbox
from bridge.watch.standing import Kind
from tests.support.builders import make_settings
from tests.watch.smtp import MailServer

SENDER, RECEIVERS = "bridge@ivr.example.com", ("ops@example.com", "boss@example.com")
OPEN = Message(
    Kind.OPEN,
    "calls",
    "promise.late",
    "anna@example.com",
    "2 calls wait.",
    ("2 callers are affected.", "What to do: look <there> & act."),
    "https://ivr.example.com/console",
    "callbridge.calls.promise.late.1768489445",
)
OVER = Message(Kind.OVER, "calls", "promise.late", "anna", "It is over.", (), OPEN.link, OPEN.thread)


class Chat:
    """A webhook that keeps what is posted to it and answers `status`."""

    def __init__(self) -> None:
        self.status = 200
        self.says = b""
        self.posts: list[tuple[str, dict]] = []
        self.logins: list[str | None] = []
        chat = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                chat.posts.append((self.path, json.loads(body)))
                chat.logins.append(self.headers["Authorization"])
                self.send_response(chat.status)
                self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", str(len(chat.says)))
                self.end_headers()
                self.wfile.write(chat.says)

            def log_message(self, *_args) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/services/T1/secret"


@pytest.fixture
def chat():
    chat = Chat()
    thread = threading.Thread(target=chat.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield chat
    chat.server.shutdown()
    chat.server.server_close()
    thread.join()


@pytest.fixture
def mail():
    with MailServer() as server:
        yield server


def sent_by(route, message=OPEN) -> bool | None:
    """Whether the outbox got rid of a message by this route; None where it may have."""
    told: list[bool | None] = []
    outbox = Outbox()
    outbox.put(route, Letter(message, told.append))
    outbox.join(10)
    [is_sent] = told
    return is_sent


def test_a_webhook_gets_text_that_slack_does_not_take_for_markup(chat: Chat) -> None:
    assert sent_by(ToWebhook(chat.url))
    [(path, posted)] = chat.posts
    assert path == "/services/T1/secret"
    assert posted["text"].splitlines() == [
        "*Callbridge, calls: 2 calls wait.*",
        "2 callers are affected.",
        "What to do: look &lt;there&gt; &amp; act.",
        "Owner: anna@example.com",
        "https://ivr.example.com/console",
    ]


def test_a_webhook_is_asked_at_its_whole_address_with_the_login_that_stands_in_it(chat: Chat) -> None:
    assert sent_by(ToWebhook(chat.url.replace("//", "//me%40x:p%3Aw@") + "/a b?key=ä"))
    assert chat.posts[0][0] == "/services/T1/secret/a%20b?key=%C3%A4"
    assert chat.logins == ["Basic " + base64.b64encode(b"me@x:p:w").decode()]


@pytest.mark.parametrize("status", [302, 404, 500])
def test_a_webhook_that_does_not_take_it_is_said_without_its_address(chat: Chat, caplog: pytest.LogCaptureFixture, status: int) -> None:
    chat.status = status
    assert sent_by(ToWebhook(chat.url)) is False
    assert len(chat.posts) == 1, "a redirect is not followed"
    assert f"the webhook answered {status}; check ALERT_WEBHOOK_URL" in caplog.text
    assert "secret" not in caplog.text


@pytest.mark.parametrize(
    ("says", "is_sent"),
    [
        (b'{"ok": false, "error": "not_authed"}', False),
        (b'{"ok":true,"warning":"missing_charset"}', True),
        (b'{"errcode":310000,"errmsg":"sign not match"}', False),
        (b'{"errcode":0,"errmsg":"ok"}', True),
        (b'{"error": {"code": 7}}', False),
        (b'{"error": null, "name": "spaces/A/messages/B"}', True),
        (b"ok", True),
        (b'"false"', True),
        (b"[" * 4096, True),
        (b'{"ok": false, ' + b" " * 100_000 + b"}", True),
        (b"\xff\xfe", True),
    ],
)
def test_a_webhook_that_says_no_with_a_200_has_not_taken_it(
    chat: Chat, caplog: pytest.LogCaptureFixture, says: bytes, is_sent: bool
) -> None:
    chat.says = says
    assert sent_by(ToWebhook(chat.url)) is is_sent
    assert ("it did not take the message" in caplog.text) is not is_sent


def test_a_webhook_that_is_not_there_keeps_its_address_out_of_the_log(chat: Chat, caplog: pytest.LogCaptureFixture) -> None:
    assert sent_by(ToWebhook("http://127.0.0.1:9/services/T1/secret")) is False
    assert "ConnectionRefusedError" in caplog.text
    assert "secret" not in caplog.text


@contextmanager
def talking(says: bytes = b"", every_s: float = 0.1, *, at_once: bytes = b"") -> Iterator[int]:
    """The port of a server that reads a line, and then says one byte after the other, with a pause before each, and never ends."""
    over = threading.Event()

    class Talk(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.rfile.readline()
            self.connection.send(at_once)
            for byte in says + b"x" * 1000:
                if over.wait(every_s):
                    return
                try:
                    self.connection.send(bytes([byte]))
                except OSError:
                    return

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Talk) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        yield server.server_address[1]
        over.set()
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("at_once", "says", "every_s", "is_sent"),
    [
        pytest.param(b"", b"HTTP/1.1 20", 0.1, None, id="a status that drips"),
        pytest.param(b"", b"", 60, None, id="no answer at all"),
        pytest.param(b"HTTP/1.1 200 OK\r\n", b"X-Slow: ", 0.02, True, id="headers that drip behind a status that is good"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n", b"{", 0.01, True, id="a body that drips behind a good status"),
        pytest.param(b"HTTP/1.1 500 No\r\n", b"X-Slow: ", 0.02, False, id="headers that drip behind a status that is bad"),
    ],
)
def test_a_webhook_that_drips_its_answer_is_cut_off_in_time(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, at_once: bytes, says: bytes, every_s: float, is_sent: bool | None
) -> None:
    monkeypatch.setattr(notify, "TIMEOUT_S", 0.8)
    with talking(says, every_s, at_once=at_once) as port:
        began = time.monotonic()
        assert sent_by(ToWebhook(f"http://127.0.0.1:{port}/services/T1/secret")) is is_sent
        assert time.monotonic() - began < 2
    assert "secret" not in caplog.text


def test_a_webhook_that_hangs_while_the_encryption_is_agreed_on_is_cut_off_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notify, "TIMEOUT_S", 0.5)
    with talking(b"") as port:
        began = time.monotonic()
        assert sent_by(ToWebhook(f"https://127.0.0.1:{port}/services/T1/secret")) is False
        assert time.monotonic() - began < 2


def test_a_mail_server_that_drips_its_greeting_is_cut_off_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notify, "TIMEOUT_S", 0.5)
    with talking(b"") as port:
        began = time.monotonic()
        assert sent_by(ToEmail(f"smtp://127.0.0.1:{port}", SENDER, RECEIVERS)) is False
        assert sent_by(ToEmail(f"smtps://127.0.0.1:{port}", SENDER, RECEIVERS)) is False
        assert time.monotonic() - began < 3


def test_a_mail_whose_fate_nobody_told_may_have_arrived(mail: MailServer) -> None:
    mail.hangs_up_on = b"."
    assert sent_by(ToEmail(mail.url(), SENDER, RECEIVERS)) is None
    assert len(mail.mails) == 1


def test_a_mail_that_was_taken_is_sent_whatever_the_server_says_to_the_goodbye(mail: MailServer) -> None:
    mail.hangs_up_on = b"QUIT"
    assert sent_by(ToEmail(mail.url(), SENDER, RECEIVERS))


@pytest.mark.parametrize("owner", ["Zoë Müller, Telefon", "小林 <k@example.com>", "a" * 200, "O'Neill & Söhne" * 12])
def test_a_mail_is_7_bit_text_whoever_owns_the_process(mail: MailServer, owner: str) -> None:
    """The server has not said that it takes more, and a line of a mail has 998 bytes at most (RFC 5322)."""
    assert sent_by(ToEmail(mail.url(), SENDER, RECEIVERS), replace(OPEN, owner=owner))
    [raw], [(_, read)] = mail.raws, mail.mails
    assert raw.isascii()
    assert max(map(len, raw.splitlines())) <= 998
    assert f"Owner: {owner}" in read.get_content()


def test_a_server_that_takes_no_login_is_said_to_be_that(mail: MailServer, caplog: pytest.LogCaptureFixture) -> None:
    mail.offers = b"250 SIZE"
    assert sent_by(ToEmail(mail.url("me:pw@"), SENDER, RECEIVERS)) is False
    assert "takes no login" in caplog.text


def test_a_mail_goes_to_all_its_readers_and_its_end_into_the_same_thread(mail: MailServer) -> None:
    route = ToEmail(mail.url(), SENDER, RECEIVERS)
    assert sent_by(route)
    assert sent_by(route, OVER)
    (receivers, opened), (_, over) = mail.mails
    assert receivers == list(RECEIVERS)
    assert (opened["Subject"], over["Subject"]) == ("Callbridge, calls: 2 calls wait.", "Callbridge, calls: over: It is over.")
    assert opened["Message-ID"] == over["In-Reply-To"] == "<callbridge.calls.promise.late.1768489445@ivr.example.com>"
    assert opened["Auto-Submitted"] == "auto-generated"
    assert "What to do: look <there> & act." in opened.get_content()
    assert "Owner: anna@example.com" in opened.get_content()
    assert OPEN.link in opened.get_content()


@pytest.mark.parametrize("length", range(30, 140, 7))
def test_a_subject_is_never_an_empty_line_with_another_below(mail: MailServer, length: int) -> None:
    title = f"{'a word ' * length}"[:length] + "…"
    assert sent_by(ToEmail(mail.url(), SENDER, RECEIVERS), replace(OPEN, title=title))
    [raw] = mail.raws
    [subject] = [line for line in raw.split(b"\r\n") if line.startswith(b"Subject:")]
    assert subject.decode() == f"Subject: Callbridge, calls: {title}".replace("…", "...")


@pytest.mark.parametrize("kind", Kind)
def test_every_mail_has_an_id_of_its_own_and_all_but_the_first_name_its_thread(mail: MailServer, kind: Kind) -> None:
    route = ToEmail(mail.url(), SENDER, RECEIVERS)
    for _ in range(2):
        assert sent_by(route, replace(OPEN, kind=kind))
    first, second = (mail["Message-ID"] for _, mail in mail.mails)
    assert first.endswith("@ivr.example.com>")
    assert (first == second) is (kind is Kind.OPEN)
    thread = None if kind is Kind.OPEN else "<callbridge.calls.promise.late.1768489445@ivr.example.com>"
    assert mail.mails[0][1]["References"] == mail.mails[0][1]["In-Reply-To"] == thread


def test_a_mail_server_is_logged_in_to_with_what_the_url_says(mail: MailServer) -> None:
    assert sent_by(ToEmail(mail.url("me%40x:p%3Aw@"), SENDER, RECEIVERS))
    assert base64.b64decode(mail.logins[0]) == b"\0me@x\0p:w"


def test_a_mail_server_that_refuses_is_no_end_of_the_world(mail: MailServer, caplog: pytest.LogCaptureFixture) -> None:
    mail.refusal = b"550 no"
    assert sent_by(ToEmail(mail.url(), SENDER, RECEIVERS)) is False
    assert "SMTPSenderRefused" in caplog.text


def test_nothing_is_sent_unencrypted_over_a_network(
    mail: MailServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(notify, "_LOOPBACK", frozenset())
    assert sent_by(ToEmail(mail.url("me:pw@"), SENDER, RECEIVERS)) is False
    assert "STARTTLS" in caplog.text
    assert (mail.mails, mail.logins) == ([], [])


def test_a_mail_server_that_is_not_there_fails_both_ways() -> None:
    assert sent_by(ToEmail("smtp://127.0.0.1:9", SENDER, RECEIVERS)) is False
    assert sent_by(ToEmail("smtps://127.0.0.1:9", SENDER, RECEIVERS)) is False


MAIL = {"ALERT_EMAIL_TO": "a@x.example, b@x.example", "ALERT_EMAIL_FROM": "c@x.example", "SMTP_URL": "smtp://u:p@mail.example:587"}


@pytest.mark.parametrize(
    ("environment", "names"),
    [
        ({}, []),
        ({"SENTRY_DSN": "http://public@127.0.0.1:9/1"}, ["sentry"]),
        ({"ALERT_WEBHOOK_URL": "https://hooks.example.com/x", **MAIL}, ["webhook", "email"]),
        ({"SMTP_URL": "smtps://mail.example"}, []),
    ],
)
def test_the_routes_are_those_that_are_set_up(environment, names) -> None:
    assert [route.name for route in notify.routes(make_settings(**environment))] == names


@pytest.mark.parametrize(
    ("environment", "fault"),
    [
        ({"ALERT_WEBHOOK_URL": "http://hooks.example.com/x"}, "ALERT_WEBHOOK_URL: https://"),
        ({"ALERT_WEBHOOK_URL": "hooks.example.com"}, "ALERT_WEBHOOK_URL: https://"),
        ({**MAIL, "SMTP_URL": "https://mail.example"}, "SMTP_URL: smtp://"),
        ({**MAIL, "SMTP_URL": "smtp://u:a:b@mail.example:port"}, "SMTP_URL: smtp://"),
        ({**MAIL, "ALERT_EMAIL_TO": "Ops <ops@x.example>"}, "ALERT_EMAIL_TO: plain addresses"),
        ({**MAIL, "ALERT_EMAIL_FROM": "nobody"}, "ALERT_EMAIL_FROM: plain addresses"),
        ({"SENTRY_DSN": "not a dsn u:a"}, "SENTRY_DSN: the DSN of a Sentry project"),
        ({"SENTRY_DSN": "https://u:a@sentry.example.com/abc"}, "SENTRY_DSN: the DSN of a Sentry project"),
        ({"SENTRY_DSN": "https://u:a@sentry.example.com:port/1"}, "SENTRY_DSN: the DSN of a Sentry project"),
        ({"SENTRY_DSN": "https://sentry.example.com/1"}, "SENTRY_DSN: the DSN of a Sentry project"),
        ({"ALERT_EMAIL_TO": "a@x.example"}, "ALERT_EMAIL_TO needs SMTP_URL and ALERT_EMAIL_FROM"),
        ({"PROMISE_S": "0"}, "PROMISE_S"),
        ({"FAILURE_SHARE": "2"}, "FAILURE_SHARE"),
    ],
)
def test_wrong_settings_say_what_is_allowed(environment, fault) -> None:
    with pytest.raises(WrongSettings, match=fault) as caught:
        make_settings(**environment)
    assert "u:a" not in str(caught.value)

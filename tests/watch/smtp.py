"""A mail server of a few lines: takes what a client says, keeps the mails, refuses on request."""

from __future__ import annotations

import socketserver
import threading
from email import message_from_bytes, policy


class MailServer:
    """Listens on 127.0.0.1; nothing is encrypted.

    `refusal` is the answer to MAIL FROM, where there is one; `offers` that to EHLO. Instead of answering to `hangs_up_on`, a word or the
    dot at a mail's end, it cuts the connection.
    """

    def __init__(self) -> None:
        self.refusal = b""
        self.offers = b"250 AUTH PLAIN"
        self.hangs_up_on = b""
        self.mails = []
        self.raws = []  # the same as bytes
        self.logins = []
        self._server = _Listener(("127.0.0.1", 0), _Talk)
        self._server.mail = self
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_exc) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def url(self, user: str = "") -> str:
        return f"smtp://{user}127.0.0.1:{self._server.server_address[1]}"


class _Listener(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False


class _Talk(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        self.say(b"220 test")
        receivers = []
        for line in self.rfile:
            word = line.split(b" ")[0].strip().upper()
            if word and word == self.server.mail.hangs_up_on:
                return
            if word == b"EHLO":
                self.say(b"250-test\r\n" + self.server.mail.offers)
            elif word == b"AUTH":
                self.server.mail.logins.append(line.split()[2].decode())
                self.say(b"235 ok")
            elif word == b"MAIL" and self.server.mail.refusal:
                self.say(self.server.mail.refusal)
            elif word == b"RCPT":
                receivers.append(line.decode().partition(":")[2].strip(" <>\r\n"))
                self.say(b"250 ok")
            elif word == b"DATA":
                self.say(b"354 go on")
                content = b"".join(iter(self.rfile.readline, b".\r\n"))
                self.server.mail.raws.append(content)
                self.server.mail.mails.append((receivers, message_from_bytes(content, policy=policy.default)))
                if self.server.mail.hangs_up_on == b".":
                    return
                self.say(b"250 ok")
            elif word == b"QUIT":
                self.say(b"221 bye")
                return
            else:
                self.say(b"250 ok")

    def say(self, line: bytes) -> None:
        self.wfile.write(line + b"\r\n")

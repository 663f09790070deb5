"""HTTP over real sockets: reads requests, and sends answers whole, byte by byte, by half, or resets the connection instead."""

from __future__ import annotations

import contextlib
import socket
import struct
import sys
import threading
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast
from urllib.parse import parse_qsl, unquote

from bridge.sandbox.ghl.asked import Request
from bridge.sandbox.ghl.control import Control, is_control
from bridge.sandbox.ghl.engine import Delivery, Engine
from bridge.sandbox.ghl.faults import Spoil
from bridge.sandbox.ghl.replies import Reply, phrase

MAX_BODY_BYTES = 1_000_000
Connection = socket.socket | tuple[bytes, socket.socket]  # what socketserver calls a request; ours are TCP sockets


class Server(ThreadingHTTPServer):
    """A thread for each connection, on the loopback interface only."""

    daemon_threads = True
    request_queue_size = 256  # http.server's own 5 makes a burst of connections wait for SYN retries
    allow_reuse_address = True  # else a restart on the same port would fail for a minute

    def __init__(self, port: int, engine: Engine) -> None:
        self.engine = engine
        self.control = Control(engine)
        self._open: set[socket.socket] = set()
        self._changed = threading.Condition()
        super().__init__(("127.0.0.1", port), Handler)

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        with self._changed:
            self._open.add(connection)
        return connection, address

    def shutdown_request(self, request: Connection) -> None:
        """Close without the orderly shutdown of the base class, which would turn every reset into a clean end."""
        self.close_request(request)

    def close_request(self, request: Connection) -> None:
        super().close_request(request)
        with self._changed:
            self._open.discard(cast(socket.socket, request))
            self._changed.notify_all()

    def close_connections(self, wait_s: float = 5) -> None:
        """End the connections that clients keep open, and wait for their threads."""
        with self._changed:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            self._changed.wait_for(lambda: not self._open, wait_s)

    def handle_error(self, request: Connection, client_address: object) -> None:
        """A client that went away is no error here; anything else is printed with its traceback by the base class."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Server

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
        """Silence: the truth is the log, and standard error belongs to whoever runs the stand-in."""

    def serve(self) -> None:
        body = self._read_body()
        if body is None:
            return
        path, _, query = self.path.partition("?")
        headers = {name.lower(): value for name, value in self.headers.items()}
        # Of a repeated parameter the first counts. A plus that was not encoded has become a space, as with the real service.
        request = Request(self.command, unquote(path), dict(reversed(parse_qsl(query, keep_blank_values=True))), headers, body)
        if is_control(request.path):
            self._send(self.server.control.answer(request))
        else:
            self._deliver(self.server.engine.answer(request))

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = serve  # noqa: N815 - the names that the base class looks for

    def _read_body(self) -> bytes | None:
        """The body, or None after the connection was refused: what cannot be measured cannot be skipped either."""
        length = self.headers.get("Content-Length", "0")
        if "Transfer-Encoding" in self.headers or not length.isdigit():
            self._refuse(411)
        elif int(length) > MAX_BODY_BYTES:
            self._refuse(413)
        else:
            return self.rfile.read(int(length))
        return None

    def _refuse(self, status: int) -> None:
        self.close_connection = True
        self._send(Reply(status, {"statusCode": status, "message": phrase(status)}))

    def _deliver(self, delivery: Delivery) -> None:
        match delivery.how:
            case Spoil.RESET:
                self._reset()
            case Spoil.HOLD:
                self.close_connection = True
                self.server.engine.wait(delivery.seconds)
            case Spoil.DRIP:
                self._drip(delivery.reply, delivery.seconds)
            case Spoil.TRUNCATE:
                content = delivery.reply.content
                self.close_connection = True
                self.wfile.write(self._head(delivery.reply, len(content)) + content[: len(content) // 2])
            case _:
                self._send(delivery.reply)

    def _send(self, reply: Reply) -> None:
        content = reply.content
        self.wfile.write(self._head(reply, len(content)) + content)  # one write: two would wait for each other on some systems

    def _head(self, reply: Reply, length: int) -> bytes:
        headers = {
            "Date": formatdate(usegmt=True),
            "Content-Type": reply.content_type,
            "Content-Length": str(length),
            **reply.headers,
            **({"Connection": "close"} if self.close_connection else {}),
        }
        lines = [f"HTTP/1.1 {reply.status} {phrase(reply.status)}", *(f"{name}: {value}" for name, value in headers.items())]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")

    def _reset(self) -> None:
        """SO_LINGER with zero seconds: closing sends RST, and the client sees "connection reset by peer"."""
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def _drip(self, reply: Reply, seconds: float) -> None:
        """Each byte comes within any read timeout, and the whole takes for ever: only a deadline for the request ends this."""
        content, over = reply.content, self.server.engine.over
        self.wfile.write(self._head(reply, len(content)))
        for byte in content:
            if over.wait(seconds):
                self.close_connection = True
                return
            self.wfile.write(bytes([byte]))

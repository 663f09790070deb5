"""An HTTP server on a real socket whose every answer is chosen by one function, and which can break off in all the ways a network can."""

import json
import socket
import socketserver
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import parse_qsl


@dataclass(frozen=True)
class Received:
    method: str
    target: str  # as it came over the wire
    headers: dict
    body: bytes
    connection: int  # the how-manieth connection of this server

    @property
    def path(self):
        return self.target.partition("?")[0]

    @property
    def query(self):
        return dict(parse_qsl(self.target.partition("?")[2]))

    @property
    def json(self):
        return json.loads(self.body)


@dataclass(frozen=True)
class Reply:
    """`how`: whole · reset, hang (after reading the request, before a byte of the answer) · drip, drip_headers (a byte every 50 ms) ·
    truncate (half the body) · cut (no answer, connection closed) · leave (whole, then closed though keep-alive was promised)."""

    status: int = 200
    data: object = None
    body: bytes | None = None
    headers: dict = field(default_factory=dict)
    how: str = "whole"

    def parts(self):
        body = self.body if self.body is not None else json.dumps(self.data).encode()
        lines = [f"HTTP/1.1 {self.status} X", f"Content-Length: {len(body)}", *(f"{name}: {value}" for name, value in self.headers.items())]
        return ("\r\n".join(lines) + "\r\n\r\n").encode(), body


class ScriptedServer:
    def __init__(self):
        self.answer: Callable[[Received], Reply] = lambda _: Reply(data={})
        self.received: list[Received] = []
        self.wrap: Callable[[socket.socket], socket.socket] = lambda sock: sock  # TLS, where a test wants it
        self.stopping = threading.Event()
        self.ended = threading.Semaphore(0)  # one for each connection that this side has closed
        self._connections = 0
        self._lock = threading.Lock()
        outer = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self):
                with suppress(OSError), outer.wrap(self.request) as sock:
                    outer.talk(sock)
                outer.ended.release()

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            block_on_close = False
            request_queue_size = 32

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self):
        self.stopping.set()
        self._server.shutdown()
        self._server.server_close()

    def talk(self, sock):
        with self._lock:
            self._connections += 1
            number = self._connections
        with sock.makefile("rb") as lines:
            while (request := _read_request(lines, number)) is not None:
                self.received.append(request)
                if not self._reply(sock, self.answer(request)):
                    return

    def _reply(self, sock, reply):
        head, body = reply.parts()
        if reply.how == "reset":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            sock.close()
        elif reply.how == "hang":
            self.stopping.wait(10)
        elif reply.how in {"drip", "drip_headers"}:
            if reply.how == "drip":
                sock.sendall(head)
            for byte in body if reply.how == "drip" else head + body:
                if self.stopping.wait(0.05):
                    break
                sock.sendall(bytes([byte]))
        elif reply.how != "cut":
            sock.sendall(head + (body[: len(body) // 2] if reply.how == "truncate" else body))
        return reply.how == "whole"


def _read_request(lines, number):
    start = lines.readline().decode()
    if not start.strip():
        return None
    method, target, _version = start.split()
    headers = {}
    while line := lines.readline().decode().strip():
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    return Received(method, target, headers, lines.read(int(headers.get("content-length", 0))), number)

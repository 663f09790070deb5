"""A Sentry to try alerts with: a local server that takes the envelopes of the real SDK and keeps what was in them.

    with SentryServer() as sentry:
        alerts.configure(sentry.dsn, owner="ops")
        ...
        [event] = sentry.wait_for(1)

Envelope: one line of JSON, then for each item a line of JSON with its type and, mostly, its length, then the payload
(https://develop.sentry.dev/sdk/data-model/envelopes/). The SDK compresses with gzip, or with Brotli where that is installed.
"""

from __future__ import annotations

import gzip
import importlib
import json
import threading
from dataclasses import dataclass
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


class Mood(StrEnum):
    """How the server answers from now on."""

    KIND = "kind"
    FULL = "full"  # 429: the quota is used up; nothing is kept
    SLOW = "slow"  # keeps, and answers after `delay_s`
    ILL = "ill"  # 503; nothing is kept
    GONE = "gone"  # cuts the connection without an answer


@dataclass(frozen=True, slots=True)
class Item:
    """One part of an envelope. `payload` is a dict for JSON, else the bytes as they came."""

    type: str
    payload: Any


class SentryServer:
    """Listens on 127.0.0.1 on a free port. Safe to read from any thread."""

    def __init__(self, mood: Mood = Mood.KIND, *, delay_s: float = 10) -> None:
        self.mood = mood
        self.delay_s = delay_s
        self.texts: list[str] = []  # each envelope as text, decompressed: where a leak is looked for
        self.refused = 0
        self._items: list[Item] = []
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._http = _Listener(("127.0.0.1", 0), _Handler)
        self._http.sentry = self
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._closing.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    @property
    def dsn(self) -> str:
        return f"http://public@127.0.0.1:{self._http.server_address[1]}/1"

    @property
    def events(self) -> list[dict[str, Any]]:
        return self.of_type("event")

    @property
    def check_ins(self) -> list[dict[str, Any]]:
        return self.of_type("check_in")

    def of_type(self, kind: str) -> list[Any]:
        with self._changed:
            return [item.payload for item in self._items if item.type == kind]

    def wait_for(self, count: int, timeout_s: float = 5) -> list[dict[str, Any]]:
        """The events, as soon as there are `count` of them. Raises TimeoutError that names what came instead."""
        with self._changed:
            if not self._changed.wait_for(lambda: sum(item.type == "event" for item in self._items) >= count, timeout_s):
                came = [item.type for item in self._items]
                raise TimeoutError(f"Sentry waited {timeout_s} s for {count} events and got these items: {came}")
        return self.events

    def keep(self, envelope: bytes) -> None:
        with self._changed:
            self.texts.append(envelope.decode("utf-8", "replace"))
            self._items += parse_envelope(envelope)
            self._changed.notify_all()

    def refuse(self) -> None:
        with self._changed:
            self.refused += 1
            self._changed.notify_all()

    def dawdle(self) -> None:
        """Wait as long as a slow server would, but not beyond the end of the sandbox."""
        self._closing.wait(self.delay_s)


def parse_envelope(envelope: bytes) -> list[Item]:
    """The items of an envelope. Raises ValueError where it is none."""
    _, _, rest = envelope.partition(b"\n")
    items: list[Item] = []
    while rest.strip():
        line, _, rest = rest.partition(b"\n")
        header = json.loads(line)
        length = header.get("length", len(rest.partition(b"\n")[0]))
        if len(rest) < length:
            raise ValueError(f"the envelope ends {length - len(rest)} bytes before its last item does")
        items.append(Item(header["type"], _payload(rest[:length])))
        rest = rest[length:].removeprefix(b"\n")
    return items


def _payload(content: bytes) -> Any:  # noqa: ANN401 - whatever JSON holds
    try:
        return json.loads(content)
    except ValueError:
        return content


def decompress(body: bytes, encoding: str) -> bytes:
    """Raises ModuleNotFoundError for `br` where Brotli is not installed; the SDK uses it only where it is."""
    if encoding == "gzip":
        return gzip.decompress(body)
    if encoding == "br":
        return bytes(importlib.import_module("brotli").decompress(body))
    return body


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    sentry: SentryServer


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Listener

    def do_POST(self) -> None:
        sentry = self.server.sentry
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if sentry.mood is Mood.GONE:
            self.close_connection = True
        elif sentry.mood is Mood.FULL:
            sentry.refuse()
            self._answer(429, {"Retry-After": "60", "X-Sentry-Rate-Limits": "60:error:organization"})
        elif sentry.mood is Mood.ILL:
            sentry.refuse()
            self._answer(503, {})
        else:
            self._take(sentry, body)

    def _take(self, sentry: SentryServer, body: bytes) -> None:
        try:
            sentry.keep(decompress(body, self.headers.get("Content-Encoding", "")))
        except (ValueError, KeyError, OSError, EOFError):
            sentry.refuse()
            self._answer(400, {})
            return
        if sentry.mood is Mood.SLOW:
            sentry.dawdle()
        self._answer(200, {})

    def _answer(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Type": "application/json", "Content-Length": "2"}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the standard library's
        """Say nothing: the demo's terminal belongs to its story."""

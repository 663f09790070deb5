"""Stand-ins of the phone systems' lists of calls: one HTTP server on 127.0.0.1 that speaks for all of them, as each of them would.

A list pages as the real one does, filters by time with the real one's traps (whole days in UTC, the account's own time zone), asks for the
real kind of proof, and answers 429 when told to. What it is asked for is written down in `asked`.

As a process: `python -m bridge.sandbox.call_lists --port 8091 --state calls.json`; the file is read again whenever it has changed.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import sys
import threading
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import parse_qsl, unquote

from bridge.sandbox import call_list_carriers, call_list_hosted
from bridge.sandbox.call_list_types import Answer, Asked, SandboxCall, World

SHAPES = (*call_list_carriers.SHAPES, *call_list_hosted.SHAPES)
RETRY_AFTER_S = 1


@dataclass
class CallLists:
    """Start it and set BACKFILL_BASE_URLS to `base_urls`. `page_size` caps what a client asks for, so that few calls make many pages.

    `busy` is how many of the next requests are answered 429; `broken` how many 500.
    """

    port: int = 0
    page_size: int = 1000
    time_zone: str = "America/Chicago"  # of the Plivo and CallRail accounts
    state_file: Path | None = None
    busy: int = 0
    broken: int = 0
    asked: list[Asked] = field(default_factory=list)
    _calls: dict[str, list[SandboxCall]] = field(default_factory=dict)
    _read_at: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def base_urls(self) -> str:
        """The value of BACKFILL_BASE_URLS."""
        return json.dumps({shape.provider: self.url for shape in SHAPES})

    def add(self, provider: str, *calls: SandboxCall) -> None:
        with self._lock:
            self._calls.setdefault(provider, []).extend(calls)

    def start(self) -> Self:
        """Listen; returns at once. Raises OSError where the port is taken."""
        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), _handler(self))
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.05,), name="call-lists", daemon=True).start()
        return self

    def stop(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def answer(self, asked: Asked) -> Answer:
        """What a provider would answer; that it was asked is written down first."""
        with self._lock:
            self.asked.append(asked)
            if self.busy:
                self.busy -= 1
                return Answer(429, {"message": "Too Many Requests"}, {"Retry-After": str(RETRY_AFTER_S)})
            if self.broken:
                self.broken -= 1
                return Answer(500, {"message": "Internal Server Error"})
            self._read_state()
            shapes = [shape for shape in SHAPES if re.fullmatch(shape.path, asked.path)]
            if not shapes:
                return Answer(404, {"message": "Not Found"})
            # Two systems share a path, and differ in the proof that they ask for.
            proof = asked.headers.get("authorization", "")
            shape = next((shape for shape in shapes if proof.startswith(shape.scheme)), None)
            if shape is None:
                return Answer(401, {"message": "Unauthorized"})
            world = World(self.url, self.page_size, self.time_zone)
            return shape.answer(asked, sorted(self._calls.get(shape.provider, []), key=lambda call: call.started), world)

    def _read_state(self) -> None:
        if self.state_file is None or not self.state_file.exists():
            return
        changed_at = self.state_file.stat().st_mtime
        if changed_at != self._read_at:
            self._read_at = changed_at
            told = json.loads(self.state_file.read_text("utf-8"))
            self._calls = {provider: [SandboxCall(**call) for call in calls] for provider, calls in told.items()}


def write_state(path: Path, calls: Mapping[str, Iterable[SandboxCall]]) -> None:
    """What a process with `--state` lists from now on. Whole or not at all, since it may be read at this very moment."""
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps({provider: [asdict(call) for call in listed] for provider, listed in calls.items()}), "utf-8")
    fresh.replace(path)


def _handler(lists: CallLists) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
            """Silence: `asked` is the log."""

        def serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            path, _, query = self.path.partition("?")
            headers = {name.lower(): value for name, value in self.headers.items()}
            form = dict(parse_qsl(body.decode("utf-8", "replace")))
            answer = lists.answer(Asked(unquote(path), dict(parse_qsl(query, keep_blank_values=True)), headers, form))
            content = json.dumps(answer.document).encode()
            self.send_response(answer.status)
            for name, value in {"Content-Type": "application/json", "Content-Length": str(len(content)), **answer.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = serve  # noqa: N815 - the names that the base class looks for

    return Handler


def main(arguments: list[str] | None = None) -> int:
    """Run until a signal comes. Returns 1 with a hint where the port is taken."""
    parser = argparse.ArgumentParser(prog="python -m bridge.sandbox.call_lists", description="The lists of calls of phone systems.")
    parser.add_argument("--port", type=int, default=0, help="on 127.0.0.1; 0 takes any free one")
    parser.add_argument("--state", type=Path, help="a JSON file: provider → list of calls")
    options = parser.parse_args(arguments)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        lists = CallLists(port=options.port, state_file=options.state).start()
    except OSError as fault:
        sys.stderr.write(f"The lists of calls cannot be served on port {options.port}: {fault}. Try another --port.\n")
        return 1
    sys.stdout.write(f"lists of calls on {lists.url}\n")
    sys.stdout.flush()
    stop.wait()
    lists.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())

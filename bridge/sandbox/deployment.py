"""A whole deployment on this machine, of real processes: Redis, a GoHighLevel stand-in, webs and workers as the Procfile starts them.

The demo, the end-to-end tests and the proof are built on it. Whatever it starts dies with the process that made it, also when that one
is killed, and each part says in a log of its own what it did.
"""

from __future__ import annotations

import base64
import os
import re
import secrets
import shlex
import signal
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import redis
import requests

from bridge.sandbox.ghl.world import World
from bridge.sandbox.processes import Process, Sighting, free_port, tree
from bridge.sandbox.redis_server import RedisServer
from bridge.sandbox.remote import RemoteBridge, RemoteGhl

ROOT = Path(__file__).parents[2]
STOP_WAIT_S = 30.0  # a worker finishes its job first; the supervisor itself gives up after 25 s
READY_WITHIN_S = 60.0  # a slow machine that compiles every module for the first time
_LOOK_EVERY_S = 0.05

# Of the starter's own environment nothing else is passed on: a SENTRY_DSN or a GHL_TOKEN of the shell has no business here.
_INHERITED = re.compile(r"PATH|HOME|USER|LANG|LC_.*|TZ|TMPDIR|VIRTUAL_ENV|LD_LIBRARY_PATH|DYLD_.*|PYTHON.*|COVERAGE_.*")

_Value = TypeVar("_Value")


class Deployment:
    """`with Deployment(folder) as bridge:` — everything runs and is ready; at the end nothing runs, and data and logs stay in `folder`.

    The parts are named `redis`, `ghl`, `web-1` …, `worker-1` …: each web has a port of its own, each worker process supervises WORKERS
    RQ workers (1) and a sweeper. `environment` adds to or replaces the settings of all of them. A second deployment in the same folder
    finds what the first one left: the ledger, the CRM's contacts and notes, the spool.

    May be used from any thread. Ports stay the same over restarts of a part.
    """

    def __init__(self, folder: Path, *, web: int = 1, workers: int = 2, environment: Mapping[str, str] | None = None) -> None:
        self.folder = folder.absolute()
        self.redis = RedisServer(self.folder / "redis", port=free_port())
        self.urls = tuple(f"http://127.0.0.1:{free_port()}" for _ in range(web))
        self.ghl = RemoteGhl(f"http://127.0.0.1:{free_port()}")
        self.settings = self._settings() | dict(environment or {})
        self.environment = _inherited() | self.settings
        self.bridge = RemoteBridge(self.url, self.settings["API_TOKEN"])
        self._processes = {process.name: process for process in self._make_processes(workers)}
        # One thread starts everything: on Linux a leash ends with the thread that forked, not with the process.
        self._starter = ThreadPoolExecutor(1, thread_name_prefix="deployment")

    @property
    def url(self) -> str:
        """Of the first web, and PUBLIC_URL for all: what phones sign (TwilioPhone.signed_url), whichever of `urls` they send to."""
        return self.urls[0]

    @property
    def names(self) -> tuple[str, ...]:
        """Every part, in the order in which they start."""
        return ("redis", *self._processes)

    # ---- All of it

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def start(self) -> None:
        """Start all and return when every web says that it is ready. Raises RuntimeError with the ends of the logs when one does not."""
        for name in self.names:
            self.start_part(name)
        self.await_ready()

    def stop(self) -> None:
        """Stop all in good order: those who write before those who keep. Returns when nothing runs any more; `start` begins again."""
        self._starter.submit(lambda: None).result()  # what is being started right now would be missed
        bridge = [process for name, process in self._processes.items() if name != "ghl"]
        for process in bridge:
            process.ask_to_stop()
        for process in (*bridge, self._processes["ghl"]):
            process.stop(STOP_WAIT_S)
        self.redis.stop()

    def await_ready(self, within_s: float = READY_WITHIN_S) -> None:
        """Return when every web says 200 at /readyz: Redis answers, and a worker listens. Raises RuntimeError."""
        for url in self.urls:
            web = RemoteBridge(url, self.bridge.token)
            self.await_true(web.is_ready, f"{url}/readyz says 200", within_s)

    # ---- One part

    def start_part(self, name: str) -> None:
        """Start a part that does not run; returns at once but for `redis`, which answers by then. Raises KeyError for an unknown name."""
        start = self._start_redis if name == "redis" else self._processes[name].start
        self._starter.submit(start).result()

    def stop_part(self, name: str) -> None:
        """SIGTERM, and wait until it has ended."""
        if name == "redis":
            self.redis.stop()
        else:
            self._processes[name].stop(STOP_WAIT_S)

    def kill(self, name: str, *, alone: bool = False) -> None:
        """SIGKILL, as when a machine is lost: to the part and all that it forked. With `alone`, to its first process only.

        A killed `ghl` forgets up to a second of contacts, which the real one would not: use `restart` for an outage of the CRM.
        """
        if name == "redis":
            self.redis.kill()
        else:
            self._processes[name].kill(alone=alone)

    def restart(self, name: str) -> None:
        """Stop the part if it runs, and start it again. Await what you need of it: `await_ready`, `await_true`."""
        self.stop_part(name)
        self.start_part(name)

    def send(self, name: str, number: signal.Signals) -> None:
        """A signal to every process of a part: SIGSTOP freezes a whole machine, SIGCONT wakes it."""
        for one in self.family(name):
            os.kill(one.pid, number)

    def family(self, name: str) -> list[Sighting]:
        """The processes of a part, the first one first; empty where it does not run."""
        if name != "redis":
            return self._processes[name].family()
        server = self.redis.process
        return tree(server.pid) if server is not None and server.poll() is None else []

    # ---- What it says

    def connection(self) -> redis.Redis:
        """A client of the deployment's Redis, to be closed by the caller."""
        return redis.Redis.from_url(self.redis.url)

    def log(self, name: str) -> Path:
        return self.redis.folder / "redis.log" if name == "redis" else self._processes[name].log

    def tails(self, lines: int = 20) -> str:
        """The end of each log, for whoever has to find out what went wrong."""
        return "\n".join(f"==> {name}: {self.log(name)}\n{_tail(self.log(name), lines)}" for name in self.names)

    def await_true(self, condition: Callable[[], _Value], what: str, within_s: float = 30) -> _Value:
        """The condition's value as soon as it is truthy; a part that is away is no error meanwhile.

        Raises RuntimeError, with `what` was awaited and the ends of the logs, after `within_s` seconds.
        """
        deadline = time.monotonic() + within_s
        trouble: Exception | None = None
        while time.monotonic() < deadline:
            try:
                if value := condition():
                    return value
            except (redis.RedisError, requests.RequestException) as error:
                trouble = error
            time.sleep(_LOOK_EVERY_S)
        raise RuntimeError(f"Waited {within_s:g} s in vain until {what}.\n{self.tails()}") from trouble

    # ---- How it is made

    def _start_redis(self) -> None:
        """Ctrl-C in a terminal reaches every process in it; with the signal held back, Redis outlives the workers that still write."""
        if self.family("redis"):
            return
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # inherited by what this thread starts
        self.redis.start()

    def _settings(self) -> dict[str, str]:
        """What every part is told. Secrets are new each time, since others on this machine can reach the ports as well."""
        world = World()
        return {
            "REDIS_URL": self.redis.url,
            "PUBLIC_URL": self.url,
            "SECRET_KEY": secrets.token_urlsafe(32),
            "API_TOKEN": secrets.token_urlsafe(24),
            "GHL_BASE_URL": self.ghl.url,
            "GHL_TOKEN": world.token,
            "GHL_LOCATION_ID": world.location_id,
            "TWILIO_AUTH_TOKEN": secrets.token_hex(16),
            "GENERIC_SECRET": "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode(),
            "SPOOL_PATH": str(self.folder / "spool.sqlite3"),
            "WORKERS": "1",
            "WEB_CONCURRENCY": "1",
        }

    def _make_processes(self, workers: int) -> list[Process]:
        kinds = _procfile()
        port = self.ghl.url.rpartition(":")[2]
        stand_in = [sys.executable, "-m", "bridge.sandbox.ghl", "--port", port, "--state", str(self.folder / "ghl.json")]
        return [
            self._process("ghl", stand_in),
            *(self._process(f"web-{number}", kinds["web"], **_listening(url)) for number, url in enumerate(self.urls, 1)),
            *(self._process(f"worker-{number}", kinds["worker"]) for number in range(1, workers + 1)),
        ]

    def _process(self, name: str, command: list[str], **environment: str) -> Process:
        return Process(name, command, self.environment | environment, ROOT, self.folder / "logs" / f"{name}.log")


def _inherited() -> dict[str, str]:
    """The part of our own environment that every process needs to run at all."""
    kept = {name: value for name, value in os.environ.items() if _INHERITED.fullmatch(name)}
    # The console scripts of the interpreter that runs this, whether its environment was activated or not.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    return kept | {"PATH": path, "PYTHONUNBUFFERED": "1"}


def _procfile() -> dict[str, list[str]]:
    """Kind of process and the words of its command."""
    rows = (line.partition(":") for line in (ROOT / "Procfile").read_text("utf-8").splitlines() if line.strip())
    return {kind.strip(): shlex.split(command) for kind, _, command in rows}


def _listening(url: str) -> dict[str, str]:
    """For gunicorn, which as the Procfile starts it would listen to the whole network."""
    address = url.removeprefix("http://")
    return {"PORT": address.rpartition(":")[2], "GUNICORN_CMD_ARGS": f"--bind {address}"}


def _tail(log: Path, lines: int) -> str:
    if not log.exists():
        return "(nothing)"
    return "\n".join(log.read_text("utf-8", errors="replace").splitlines()[-lines:])

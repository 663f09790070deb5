"""Real processes for the tests: `python -m tests.work.processes worker`, with a ledger that is a set and a list in Redis.

Each process writes its log to a file, so that a test can wait for a line and show the log when it waited in vain.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import redis

from bridge.work import supervisor
from bridge.work.supervisor import Child, supervise
from bridge.work.worker import CallWorker, run_worker
from tests.work.jobs import REDIS_URL

ROOT = Path(__file__).parents[2]


def await_true(condition: Callable[[], object], what: str, within_s: float = 10) -> object:
    """The condition's value as soon as it is truthy."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        with contextlib.suppress(redis.ConnectionError):
            if value := condition():
                return value
        time.sleep(0.02)
    raise AssertionError(f"waited {within_s} s in vain: {what}")


def is_alive(pid: int) -> bool:
    """False for a zombie as well: it runs no more."""
    status = subprocess.run(["/bin/ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout.strip()
    return bool(status) and not status.startswith("Z")


def descendants(pid: int) -> list[int]:
    rows = subprocess.run(["/bin/ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout.splitlines()
    children = [int(row.split()[0]) for row in rows if int(row.split()[1]) == pid]
    return children + [below for child in children for below in descendants(child)]


@dataclass
class Processes:
    """Processes of one test; whatever is left of them is killed at its end."""

    redis_url: str
    folder: Path
    others: list[int] = field(default_factory=list)  # processes that the started ones forked and may have left as orphans
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, role: str) -> subprocess.Popen[bytes]:
        environment = {**os.environ, REDIS_URL: self.redis_url, "PYTHONUNBUFFERED": "1"}
        with self.log_path.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.work.processes", role], cwd=ROOT, env=environment, stdout=log, stderr=log
            )
        self.started.append(process)
        return process

    def start_worker(self) -> subprocess.Popen[bytes]:
        """A worker that is ready for jobs."""
        process = self.start("worker")
        self.await_log("Listening on")
        return process

    @property
    def log_path(self) -> Path:
        return self.folder / "processes.log"

    def log(self) -> str:
        return self.log_path.read_text() if self.log_path.exists() else ""

    def await_log(self, text: str, times: int = 1, within_s: float = 10) -> str:
        await_true(lambda: self.log().count(text) >= times, f"{text!r} in the log", within_s)
        return self.log()

    def end(self) -> None:
        forked = [pid for process in self.started for pid in descendants(process.pid)]
        for process in self.started:
            process.kill()
            process.wait()
        for pid in {*self.others, *forked}:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        # One that is not gone yet may still wait for a job at Redis, and would be given that of the next test.
        await_true(lambda: not any(map(is_alive, {*self.others, *forked})), "the forked processes to be gone")


@contextlib.contextmanager
def processes(redis_url: str, folder: Path) -> Iterator[Processes]:
    group = Processes(redis_url, folder)
    try:
        yield group
    finally:
        group.end()


def _worker() -> None:
    """The ledger of these tests: the set `parked`, and the list `died` of what it was told."""
    ledger = redis.Redis.from_url(os.environ[REDIS_URL], decode_responses=True)

    def horse_died(call_key: str, how: str) -> None:
        ledger.rpush("died", f"{call_key} {how}")
        if ledger.exists("ledger is broken"):
            raise RuntimeError("the ledger is broken")

    run_worker(
        os.environ[REDIS_URL],
        parked=lambda call_key: bool(ledger.sismember("parked", call_key)),
        horse_died=horse_died,
        preload=["tests.work.jobs"],
    )


def _hasty_worker() -> None:
    CallWorker.imminent_shutdown_delay = 1
    _worker()


def _supervisor() -> None:
    sys.exit(supervise([Child("steady", _steady), Child("brief", _brief), Child("stubborn", _stubborn)]))


def _impatient_supervisor() -> None:
    supervisor.STOP_WAIT_S = 0.2
    sys.exit(supervise([Child("deaf", _deaf)]))


def _deaf() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _say("deaf")
    while True:
        signal.pause()


def _steady() -> None:
    _say("steady")
    signal.pause()


def _brief() -> None:
    _say("brief")
    raise ValueError("the end of a child")


def _stubborn() -> None:
    """Counts the SIGTERMs that it gets and ends on the first, but not at once."""
    with redis.Redis.from_url(os.environ[REDIS_URL], socket_timeout=30) as connection:
        told: list[int] = []
        signal.signal(signal.SIGTERM, lambda number, _: told.append(number))
        _say("stubborn")
        while not told:
            time.sleep(0.01)
        connection.rpush("stubborn was told", "once")
        connection.blpop(["stubborn may end"], 20)
        connection.rpush("stubborn counted", len(told))


def _say(name: str) -> None:
    with redis.Redis.from_url(os.environ[REDIS_URL]) as connection:
        connection.rpush(name, os.getpid())


def _supervised_workers() -> None:
    sys.exit(supervise([Child("worker 1", _worker)]))


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(process)d %(name)s %(levelname)s %(message)s")
    {
        "worker": _worker,
        "hasty worker": _hasty_worker,
        "supervisor": _supervisor,
        "impatient supervisor": _impatient_supervisor,
        "workers": _supervised_workers,
    }[sys.argv[1]]()

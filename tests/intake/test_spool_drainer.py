"""The drainer empties the spool by itself, and neither an outage nor a fork ends it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import redis

from bridge.errors import Unstorable
from bridge.intake.drainer import Drainer
from bridge.intake.spool import Spool, Spooled
from tests.intake.events import ROOT, event, fill, until


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "var" / "spool.sqlite3"


@pytest.fixture
def running():
    drainers: list[Drainer] = []

    def start(*args, **options) -> Drainer:
        drainers.append(Drainer(*args, **options))
        drainers[-1].start()
        return drainers[-1]

    yield start
    for drainer in drainers:
        drainer.stop()
        assert not drainer._thread.is_alive()


def test_the_drainer_takes_what_an_earlier_process_left(path: Path, running) -> None:
    spool, taken = fill(path, range(45)), []
    running(spool, taken.append, interval_s=60)
    until(lambda: len(taken) == 45)
    assert taken == [event(n) for n in range(45)]


def test_what_was_parked_is_tried_again_when_the_process_starts_anew(path: Path, running) -> None:
    spool, taken = fill(path, range(3)), []

    def refuse(_item: Spooled) -> None:
        raise KeyError

    while spool.count():
        spool.drain(refuse, limit=1)
    assert spool.parked() == 3
    running(spool, taken.append, interval_s=60)
    until(lambda: len(taken) == 3)
    assert (spool.count(), spool.parked()) == (0, 0)


def test_the_drainer_wakes_when_an_event_is_put(path: Path, running) -> None:
    spool, taken = Spool(path), []
    running(spool, taken.append, interval_s=60)
    for n in range(3):
        spool.put(event(n))
        until(lambda n=n: len(taken) == n + 1)
    assert taken == [event(0), event(1), event(2)]


def test_the_drainer_finds_events_of_other_processes_at_its_interval(path: Path, running) -> None:
    taken: list[Spooled] = []
    running(Spool(path), taken.append, interval_s=0.05)
    fill(path, [1])
    until(lambda: taken)
    assert taken == [event(1)]


def test_the_drainer_goes_on_after_an_outage(path: Path, running) -> None:
    spool, taken, tries = fill(path, [1]), [], []

    def take(item: Spooled) -> None:
        tries.append(item)
        if len(tries) < 3:
            raise redis.ConnectionError
        taken.append(item)

    running(spool, take, interval_s=0.01)
    until(lambda: taken == [event(1)])
    assert len(tries) == 3


def test_the_drainer_outlives_a_spool_that_cannot_be_used(path: Path, running, caplog) -> None:
    path.mkdir(parents=True)
    taken: list[Spooled] = []
    running(Spool(path), taken.append, interval_s=0.01)
    until(lambda: "cannot be drained" in caplog.text)
    with pytest.raises(Unstorable):
        Spool(path).count()
    path.rmdir()
    fill(path, [1])
    until(lambda: taken == [event(1)])


def test_starting_twice_makes_one_thread(path: Path, running) -> None:
    drainer = running(Spool(path), print)
    thread = drainer._thread
    drainer.start()
    assert drainer._thread is thread


def test_a_stopped_drainer_can_be_started_again(path: Path, running) -> None:
    spool, taken = Spool(path), []
    drainer = running(spool, taken.append, interval_s=60)
    drainer.stop()
    spool.put(event(1))
    assert taken == []
    drainer.start()
    until(lambda: taken)
    assert taken == [event(1)]


_FORKER = """
import os, sys, time
from bridge.intake.drainer import Drainer
from bridge.intake.spool import Spool, Spooled
spool = Spool(sys.argv[1])
taken = []
drainer = Drainer(spool, taken.append, interval_s=60)
drainer.start()
child = os.fork()
if child == 0:
    drainer.start()
    spool.put(Spooled("twilio", "POST", "/", "", {}, b"", 1.0))
    deadline = time.monotonic() + 10
    while not taken and time.monotonic() < deadline:
        time.sleep(0.01)
    os._exit(0 if taken else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_process_starts_a_drainer_of_its_own(path: Path) -> None:
    # A process of its own: forking the test process would copy its threads' locks.
    code = [sys.executable, "-W", "ignore", "-c", _FORKER, str(path)]
    assert subprocess.run(code, cwd=ROOT, timeout=30, check=False).returncode == 0

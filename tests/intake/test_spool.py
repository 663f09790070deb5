"""The spool keeps what it acknowledged, in order, whatever happens to the processes, the disk or the file around it."""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
from pathlib import Path
from types import MappingProxyType

import pytest
import redis

from bridge.errors import Unstorable
from bridge.intake.spool import MAX_FAILURES, Spool, Spooled
from tests.intake.events import ROOT, event, fill, until

SPAWN = multiprocessing.get_context("spawn")


def drain_all(spool: Spool) -> list[Spooled]:
    taken: list[Spooled] = []
    while spool.drain(taken.append, limit=100):
        pass
    return taken


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "var" / "spool.sqlite3"


# Keeping


def test_making_a_spool_touches_nothing(path: Path) -> None:
    spool = Spool(path)
    assert (spool.count(), spool.parked(), spool.oldest_age(5), spool.unpark(), spool.drain(print, limit=1)) == (0, 0, None, 0, 0)
    assert not path.parent.exists()


def test_an_event_comes_back_as_it_went_in(path: Path) -> None:
    odd = event(
        1,
        query="a=%00&b=%E9",
        headers=MappingProxyType({"x-name": "caf\udce9 \u2603", "host": "bridge.example.com"}),
        body=bytes(range(256)),
        received_at=1768489445.123456,
    )
    spool = Spool(path)
    spool.put(odd)
    (back,) = drain_all(Spool(path))
    assert back == Spooled(odd.provider, odd.method, odd.path, odd.query, dict(odd.headers), odd.body, odd.received_at)
    assert spool.count() == 0


def test_the_files_are_readable_by_their_owner_alone(path: Path) -> None:
    fill(path, [1])
    assert {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()} == {0o600}
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_the_oldest_waiting_event_gives_the_age(path: Path) -> None:
    spool = fill(path, [5, 3, 9])
    assert spool.oldest_age(1010.0) == 7.0
    assert spool.oldest_age(0.0) == 0.0


# Taking


def test_events_are_taken_oldest_first_and_no_more_than_asked(path: Path) -> None:
    spool = fill(path, range(5))
    taken: list[Spooled] = []
    assert spool.drain(taken.append, limit=3) == 3
    assert taken == [event(0), event(1), event(2)]
    assert spool.count() == 2


def test_a_row_is_there_while_it_is_being_taken_and_gone_after(path: Path) -> None:
    spool = fill(path, [1])
    seen: list[int] = []
    spool.drain(lambda _: seen.append(spool.count()), limit=10)
    assert (seen, spool.count()) == ([1], 0)


def test_others_may_put_while_an_event_is_being_taken(path: Path) -> None:
    spool = fill(path, [1])
    taken: list[Spooled] = []

    def take(item: Spooled) -> None:
        if not taken:
            Spool(path).put(event(2))
        taken.append(item)

    assert spool.drain(take, limit=10) == 2
    assert taken == [event(1), event(2)]


@pytest.mark.parametrize("error", [redis.ConnectionError, redis.ResponseError, TimeoutError, Unstorable])
def test_an_outage_leaves_everything_in_order_however_long_it_lasts(path: Path, error: type[Exception], caplog) -> None:
    spool = fill(path, range(3))
    tried: list[Spooled] = []

    def take(item: Spooled) -> None:
        tried.append(item)
        raise error("+12025550143")

    for _ in range(MAX_FAILURES + 2):
        assert spool.drain(take, limit=10) == 0
    assert {item.body for item in tried} == {event(0).body}
    assert (spool.count(), spool.parked()) == (3, 0)
    assert len(caplog.records) == 1, "one line for one outage"
    assert "12025550143" not in caplog.text
    assert drain_all(spool) == [event(0), event(1), event(2)]


@pytest.mark.parametrize("error", [ValueError, redis.DataError, KeyError])
def test_an_event_that_can_never_be_taken_is_parked_and_blocks_nobody(path: Path, error: type[Exception], caplog) -> None:
    spool = fill(path, range(3))
    taken: list[Spooled] = []

    def take(item: Spooled) -> None:
        if item == event(0):
            raise error("+12025550143")
        taken.append(item)

    assert spool.drain(take, limit=10) == 2
    assert taken == [event(1), event(2)]
    for _ in range(MAX_FAILURES - 1):
        assert (spool.count(), spool.parked()) == (1, 0)
        assert spool.drain(take, limit=10) == 0
    assert (spool.count(), spool.parked()) == (0, 1)
    assert (spool.parked(), spool.oldest_age(2000.0)) == (1, None)
    assert "12025550143" not in caplog.text


def test_a_parked_event_can_be_put_back_in_line(path: Path) -> None:
    spool = fill(path, [1])
    for _ in range(MAX_FAILURES):
        spool.drain(lambda _: {}["missing"], limit=1)
    assert (spool.parked(), spool.unpark()) == (1, 1)
    assert drain_all(spool) == [event(1)]


def test_a_row_that_cannot_be_read_is_parked_like_any_other(path: Path) -> None:
    spool = fill(path, range(2))
    with sqlite3.connect(path) as db:
        db.execute("UPDATE spooled SET event = '{' WHERE id = 1")
    db.close()
    assert drain_all(spool) == [event(1)]
    while spool.count():
        spool.drain(print, limit=10)
    assert spool.parked() == 1


def test_an_event_of_another_release_is_taken_whether_it_has_more_fields_or_fewer(path: Path) -> None:
    spool = fill(path, range(2))
    with sqlite3.connect(path) as db:
        (text,) = db.execute("SELECT event FROM spooled WHERE id = 1").fetchone()
        newer, older = json.loads(text) | {"of_a_newer_release": 1}, {k: v for k, v in json.loads(text).items() if k != "account"}
        db.execute("UPDATE spooled SET event = ? WHERE id = 1", (json.dumps(newer),))
        db.execute("UPDATE spooled SET event = ? WHERE id = 2", (json.dumps(older),))
    db.close()
    assert drain_all(spool) == [event(0), event(0)]


def test_a_second_drainer_leaves_the_work_to_the_first(path: Path) -> None:
    spool = fill(path, range(2))
    second: list[int] = []
    first = spool.drain(lambda _: second.append(Spool(path).drain(print, limit=10)), limit=10)
    assert (first, second) == (2, [0, 0])


# Crashes and crowds


_WRITER = """
import sys
from bridge.intake.spool import Spool, Spooled
spool = Spool(sys.argv[1])
for n in range(100_000):
    spool.put(Spooled("twilio", "POST", "/webhooks/twilio", "", {}, b"%d" % n, float(n)))
    print(n, flush=True)
"""


def test_what_was_acknowledged_outlives_a_killed_writer(path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", _WRITER, str(path)], stdout=subprocess.PIPE, cwd=ROOT, text=True) as writer:
        acknowledged = [writer.stdout.readline() for _ in range(40)]
        writer.kill()
        acknowledged += writer.stdout.read().splitlines()
    kept = [item.body for item in drain_all(Spool(path))]
    assert kept[: len(acknowledged)] == [b"%d" % n for n in range(len(acknowledged))]
    assert len(kept) <= len(acknowledged) + 1, "at most the one whose acknowledgement was under way"


def _take_one_and_die(path: Path) -> None:
    Spool(path).drain(lambda _: os.kill(os.getpid(), signal.SIGKILL), limit=1)


def test_an_event_whose_taker_was_killed_is_taken_again(path: Path) -> None:
    spool = fill(path, range(2))
    taker = SPAWN.Process(target=_take_one_and_die, args=(path,))
    taker.start()
    taker.join(20)
    assert taker.exitcode == -signal.SIGKILL
    assert drain_all(spool) == [event(0), event(1)]


def _put_fifty(path: Path, first: int) -> None:
    fill(path, range(first, first + 50))


def test_four_processes_and_a_drainer_lose_and_double_nothing(path: Path) -> None:
    writers = [SPAWN.Process(target=_put_fifty, args=(path, first)) for first in (0, 50, 100, 150)]
    for writer in writers:
        writer.start()
    spool, taken = Spool(path), []
    until(lambda: not (spool.drain(taken.append, limit=1000) or any(writer.is_alive() for writer in writers)), 60)
    taken += drain_all(spool)
    assert [writer.exitcode for writer in writers] == [0, 0, 0, 0]
    numbers = [int(item.received_at) - 1000 for item in taken]
    assert sorted(numbers) == list(range(200))
    for first in (0, 50, 100, 150):
        own = [n for n in numbers if first <= n < first + 50]
        assert own == sorted(own), "each writer's events keep their order"


def test_threads_share_one_spool(path: Path) -> None:
    spool = Spool(path)
    threads = [threading.Thread(target=lambda n=n: [spool.put(event(n * 10 + i)) for i in range(10)]) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {item.received_at for item in drain_all(spool)} == {1000.0 + n for n in range(40)}


def test_a_child_forked_in_the_middle_of_an_operation_does_not_keep_the_lock(path: Path) -> None:
    spool = fill(path, [1])
    children: list[int] = []

    def fork_and_wait(db: sqlite3.Connection) -> None:
        del db
        child = os.fork()
        if child == 0:
            signal.pause()
        children.append(child)

    spool._run(fork_and_wait)
    try:
        assert spool.count() == 1
    finally:
        os.kill(children[0], signal.SIGKILL)
        os.waitpid(children[0], 0)


# Disks


def _put_until_full(path: Path, results) -> None:
    limit = 200_000
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    spool, kept = Spool(path), 0
    try:
        while True:
            spool.put(event(kept, body=b"x" * 5000))
            kept += 1
    except Unstorable as error:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        results.put((kept, str(error), spool.count()))


def test_a_full_disk_is_told_to_the_caller_and_costs_nothing_that_was_kept(path: Path) -> None:
    results = SPAWN.Queue()
    process = SPAWN.Process(target=_put_until_full, args=(path, results))
    process.start()
    kept, message, count = results.get(timeout=30)
    process.join(10)
    assert kept > 3
    assert count == kept
    assert "SPOOL_PATH" in message
    assert str(path) in message
    assert [item.received_at for item in drain_all(Spool(path))] == [1000.0 + n for n in range(kept)]


def test_a_deletion_that_the_disk_refuses_does_not_hold_up_the_events_behind(path: Path, monkeypatch) -> None:
    spool = fill(path, range(3))
    run, full = spool._run, True

    def refuse_deletions(act):
        def on_full_disk(db: sqlite3.Connection):
            db.execute(f"PRAGMA query_only = {'ON' if full else 'OFF'}")
            return act(db)

        return run(on_full_disk)

    monkeypatch.setattr(spool, "_run", refuse_deletions)
    taken: list[Spooled] = []
    assert spool.drain(taken.append, limit=10) == 3
    assert spool.drain(taken.append, limit=10) == 0, "what was taken is not taken again while this process remembers"
    full = False
    assert spool.drain(taken.append, limit=10) == 0
    assert (spool.count(), taken) == (0, [event(0), event(1), event(2)])


def test_a_folder_that_cannot_be_made_is_told_with_the_setting(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(Unstorable, match="SPOOL_PATH"):
        Spool(tmp_path / "file" / "spool.sqlite3").put(event(1))


def test_a_folder_in_place_of_the_file_is_told_with_the_setting(path: Path) -> None:
    path.mkdir(parents=True)
    with pytest.raises(Unstorable, match="SPOOL_PATH"):
        Spool(path).put(event(1))


def test_a_lock_that_is_never_freed_is_told_in_time(path: Path, monkeypatch) -> None:
    spool = fill(path, [1])
    monkeypatch.setattr("bridge.intake.spool.LOCK_WAIT_S", 0.05)

    def put_beside(db: sqlite3.Connection) -> None:
        del db
        with pytest.raises(Unstorable, match="another process has held it"):
            Spool(path).put(event(2))

    spool._run(put_beside)
    assert spool.count() == 1


# Damage


@pytest.mark.parametrize("content", [b"no database at all, only text " * 50, os.urandom(8192)], ids=["text", "noise"])
def test_a_file_that_is_no_database_is_set_aside_and_a_new_one_begun(path: Path, content: bytes, caplog) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    spool = fill(path, [1])
    assert path.with_name("spool.sqlite3.broken").read_bytes() == content
    assert "is kept as" in caplog.text
    assert drain_all(spool) == [event(1)]


def test_a_second_damaged_file_does_not_replace_the_first(path: Path) -> None:
    path.parent.mkdir()
    for content in (b"first" * 500, b"second" * 500):
        path.write_bytes(content)
        assert Spool(path).count() == 0
    assert path.with_name("spool.sqlite3.broken").read_bytes() == b"first" * 500
    assert path.with_name("spool.sqlite3.broken-2").read_bytes() == b"second" * 500


def test_what_can_be_read_of_a_damaged_file_goes_on(path: Path) -> None:
    spool = Spool(path)
    for n in range(60):
        spool.put(event(n, body=b"x" * 2000))
    with path.open("r+b") as file:
        file.seek(-40_000, os.SEEK_END)
        file.write(b"\xff" * 40_000)
    numbers = [int(item.received_at) - 1000 for item in drain_all(spool)]
    assert path.with_name("spool.sqlite3.broken").exists()
    assert numbers == list(range(len(numbers)))
    assert len(numbers) > 30


def test_a_journal_goes_with_its_damaged_file(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"damaged" * 500)
    path.with_name("spool.sqlite3-journal").write_bytes(b"a journal of the damaged file")
    spool = Spool(path)
    spool._set_aside()  # directly: SQLite would remove a journal that it can tell to be no use
    spool.put(event(1))
    assert path.with_name("spool.sqlite3.broken-journal").read_bytes() == b"a journal of the damaged file"
    assert drain_all(spool) == [event(1)]

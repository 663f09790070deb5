"""The local spool: events that Redis could not take, kept on this machine's disk until it can.

One SQLite file at SPOOL_PATH, beside it `<file>.lock` and `<file>.drain`. Any number of threads and processes of one machine share it:

* Each operation holds `<file>.lock` (flock) and opens the file anew. So no connection crosses a fork, and a damaged file can be
  replaced while nobody has it open: a row acknowledged into a file that was just renamed would be lost to the drainer.
* The journal is SQLite's rollback journal with synchronous=EXTRA, which syncs the folder too. With FULL alone a commit in this mode can
  be undone by a power cut (https://www.sqlite.org/pragma.html#pragma_synchronous). WAL would be faster with a connection kept open, but
  leaves side files that a replaced database must not meet.
* There is no cap on its size. Only events with a proven sender get here, and a full disk answers `Unstorable`, which makes the provider
  send again.

The file holds personal data: it is readable by its owner alone, and nothing of an event is logged.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

import redis

from bridge.errors import Unstorable

logger = logging.getLogger(__name__)

MAX_FAILURES = 5  # a row is parked after so many failures of its own; outages are not counted
LOCK_WAIT_S = 5.0  # below the time that a provider waits with a caller on the line (Twilio: 15 s)
_POLL_S = 0.005

_SCHEMA = """
CREATE TABLE IF NOT EXISTS spooled (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    received_at REAL NOT NULL,
    event TEXT NOT NULL,
    failures INTEGER NOT NULL DEFAULT 0,
    parked INTEGER NOT NULL DEFAULT 0
)
"""
_CARRY_OVER = "INSERT INTO spooled (id, received_at, event, failures, parked) VALUES (?, ?, ?, ?, ?)"

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Spooled:
    """A webhook as it came, its sender already proven. Nothing is decoded, so that it can be read again later."""

    provider: str
    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes
    received_at: float  # seconds since the epoch
    account: str | None = None  # whose signature proved it (`Sender.account`); None: kept by version 1.0.0, which asked the signature again


@dataclass(frozen=True, slots=True)
class _Row:
    place: tuple[int, float]  # id and time: the id alone may be another event's once a damaged file was replaced
    event: str
    failures: int


class Spool:
    """The spool at `path`. Making one touches nothing; the folder and the file appear with the first `put`.

    Every method raises Unstorable where the file cannot be used.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.arrived = threading.Event()  # set by `put`: the drainer of this process need not wait for its interval
        self._taken: set[tuple[int, float]] = set()  # taken, but the disk refused the deletion; touched under the drain lock only
        self._outage = ""

    def put(self, item: Spooled) -> None:
        """Keep an event. When this returns, it outlives a crash of the process, of the system, and a power cut.

        Raises Unstorable where the disk is full or read-only, or the folder cannot be made.
        """
        values = (item.received_at, _encode(item))
        self._run(lambda db: db.execute("INSERT INTO spooled (received_at, event) VALUES (?, ?)", values))
        self.arrived.set()

    def drain(self, take: Callable[[Spooled], None], *, limit: int) -> int:
        """Hand up to `limit` events to `take`, oldest first, and return how many it took.

        `take` must be idempotent: an event is deleted only after `take` returned, so a crash in between hands it over again.
        When `take` raises, the event stays. An outage (Redis, the network) ends the round, and may last as long as it likes. Any other
        reason is the event's own: those behind it are taken, and after MAX_FAILURES tries it is parked: kept, counted, not tried again.
        Returns 0 while another thread or process drains.
        """
        if not self.path.exists():
            return 0
        with _lock(self._beside(".drain"), wait_s=0) as free:
            return self._drain(take, limit) if free else 0

    def count(self) -> int:
        """How many events wait to be taken."""
        return int(self._read("SELECT count(*) FROM spooled WHERE NOT parked") or 0)

    def parked(self) -> int:
        """How many events could not be taken, and wait for the next start of a drainer."""
        return int(self._read("SELECT count(*) FROM spooled WHERE parked") or 0)

    def oldest_age(self, now: float) -> float | None:
        """The age in seconds of the oldest event that waits; None where none does. `now` is in seconds since the epoch."""
        oldest = self._read("SELECT min(received_at) FROM spooled WHERE NOT parked")
        return None if oldest is None else max(0.0, now - oldest)

    def unpark(self) -> int:
        """Put all parked events back in line, with as many tries as a new one. Returns how many."""
        if not self.path.exists():
            return 0
        return self._run(lambda db: db.execute("UPDATE spooled SET parked = 0, failures = 0 WHERE parked")).rowcount

    def _drain(self, take: Callable[[Spooled], None], limit: int) -> int:
        self._taken = {place for place in self._taken if not self._delete(place)}
        taken, after = 0, 0
        while taken < limit and (row := self._next(after)):
            after = row.place[0]
            if row.place in self._taken:
                continue
            error = self._hand_over(row, take)
            if error is None:
                taken += 1
            elif _is_outage(error):
                break
        return taken

    def _hand_over(self, row: _Row, take: Callable[[Spooled], None]) -> Exception | None:
        """What kept an event from being taken; None where it was taken."""
        try:
            take(_decode(row.event))
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one event must neither lose it nor end the drainer
            self._note(row, error)
            return error
        self._outage = ""
        if not self._delete(row.place):
            self._taken.add(row.place)
        return None

    def _note(self, row: _Row, error: Exception) -> None:
        cause = type(error).__name__
        if _is_outage(error):
            if cause != self._outage:  # once per outage, not once per try
                logger.warning("Spooled events wait: they cannot be brought to Redis yet (%s)", cause)
            self._outage = cause
            return
        failures = row.failures + 1
        parked = failures >= MAX_FAILURES
        change = "UPDATE spooled SET failures = ?, parked = ? WHERE id = ? AND received_at = ?"
        self._run(lambda db: db.execute(change, (failures, parked, *row.place)))
        fate = "is parked until the web process starts anew: mend the cause, then restart it" if parked else "will be tried again"
        level = logging.ERROR if parked else logging.WARNING
        logger.log(
            level, "Spooled event %d could not be taken (%s), try %d of %d, and %s", row.place[0], cause, failures, MAX_FAILURES, fate
        )

    def _next(self, after: int) -> _Row | None:
        query = "SELECT id, received_at, event, failures FROM spooled WHERE NOT parked AND id > ? ORDER BY id LIMIT 1"
        found = self._run(lambda db: db.execute(query, (after,)).fetchone())
        return _Row(found[:2], *found[2:]) if found else None

    def _delete(self, place: tuple[int, float]) -> bool:
        """Whether the row is gone. On a full disk even a deletion can fail; the events behind it must not wait for that."""
        try:
            self._run(lambda db: db.execute("DELETE FROM spooled WHERE id = ? AND received_at = ?", place))
        except Unstorable as error:
            logger.warning("A spooled event was taken but could not be deleted yet: %s", error)
            return False
        return True

    def _read(self, query: str) -> Any:  # noqa: ANN401 - one SQL value
        if not self.path.exists():
            return None
        return self._run(lambda db: db.execute(query).fetchone()[0])

    def _run(self, act: Callable[[sqlite3.Connection], _T]) -> _T:
        """Run `act` in one transaction, alone on this machine. A damaged file is replaced and `act` runs again, once."""
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _lock(self._beside(".lock"), wait_s=LOCK_WAIT_S) as free:
                if not free:
                    raise TimeoutError(f"another process has held it for {LOCK_WAIT_S:g} s")
                try:
                    return _transact(self.path, act)
                except sqlite3.DatabaseError as error:
                    if not _is_damage(error):
                        raise
                    self._set_aside()
                    return _transact(self.path, act)
        except (sqlite3.Error, OSError) as error:
            message = f"The spool {self.path} cannot be used: {error}. Set SPOOL_PATH to a file in a writable folder with free space."
            raise Unstorable(message) from error

    def _set_aside(self) -> None:
        """Rename the damaged file and carry over what can still be read of it. Called with the lock held, so nobody has it open."""
        broken = _free_name(self._beside(".broken"))
        with contextlib.suppress(FileNotFoundError):
            # First, since a journal left beside a new file would be rolled back into it.
            self._beside("-journal").rename(f"{broken}-journal")
        self.path.rename(broken)
        logger.error("The spool was damaged. It is kept as %s; what can be read of it goes on in a new file", broken)
        _transact(self.path, lambda db: db.executemany(_CARRY_OVER, _readable_rows(broken)))

    def _beside(self, suffix: str) -> Path:
        return self.path.with_name(self.path.name + suffix)


def _transact(path: Path, act: Callable[[sqlite3.Connection], _T]) -> _T:
    with contextlib.suppress(FileExistsError):
        # SQLite would make it readable for all. O_EXCL: closing a second descriptor of a file in use drops SQLite's locks on it.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    with contextlib.closing(sqlite3.connect(path, timeout=LOCK_WAIT_S)) as db:
        db.execute("PRAGMA synchronous = EXTRA")
        db.execute("PRAGMA fullfsync = ON")  # macOS: a plain fsync stops at the drive's cache
        db.execute(_SCHEMA)
        with db:
            return act(db)


@contextlib.contextmanager
def _lock(path: Path, *, wait_s: float) -> Iterator[bool]:
    """Hold the lock file `path`, alone among all threads and processes; yields False where that took longer than `wait_s`.

    The system releases it when a process dies.
    """
    handle = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        free = _acquire(handle, time.monotonic() + wait_s)
        try:
            yield free
        finally:
            if free:
                # Said aloud, since a child forked meanwhile still has the descriptor open.
                fcntl.flock(handle, fcntl.LOCK_UN)
    finally:
        os.close(handle)


def _acquire(handle: int, deadline: float) -> bool:
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_S)
        else:
            return True


def _readable_rows(broken: Path) -> Iterator[tuple[Any, ...]]:
    """The rows before the first damaged page, oldest first; read-only, so that the file stays as it was found."""
    try:
        with contextlib.closing(sqlite3.connect(f"{broken.resolve().as_uri()}?mode=ro", uri=True)) as db:
            yield from db.execute("SELECT id, received_at, event, failures, parked FROM spooled ORDER BY id")
    except sqlite3.DatabaseError:
        return


def _free_name(wanted: Path) -> Path:
    names = (wanted if n == 1 else wanted.with_name(f"{wanted.name}-{n}") for n in range(1, 1000))
    return next(name for name in names if not name.exists())


def _is_damage(error: sqlite3.Error) -> bool:
    """Whether the file itself is broken, and not the disk or its rights (https://www.sqlite.org/rescode.html: low byte = primary code)."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


def _is_outage(error: Exception) -> bool:
    """Whether any event would have failed just now. A DataError is Redis' client refusing this one's values."""
    return isinstance(error, (redis.RedisError, OSError, Unstorable)) and not isinstance(error, redis.DataError)


def _encode(item: Spooled) -> str:
    """JSON in ASCII: headers may hold lone surrogates, which SQLite refuses; and a field added later needs no new table."""
    values = {field.name: getattr(item, field.name) for field in fields(item)}
    return json.dumps(values | {"headers": dict(item.headers), "body": base64.b64encode(item.body).decode()})


def _decode(event: str) -> Spooled:
    """A field that only a newer release knows is left out."""
    values = json.loads(event)
    known = {field.name: values[field.name] for field in fields(Spooled) if field.name in values}
    return Spooled(**known | {"body": base64.b64decode(values["body"])})

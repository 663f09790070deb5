"""Entries in Redis, changed by compare-and-set: `decide` is pure and may run again, the write is one EXEC or nothing.

One EXEC holds the entry, its trail, its raw event, its index rows, the counters and, where the entry has become queued, its RQ job.
So there is never an entry without the job that will run it, nor a job without its entry, whatever dies in between.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

import redis
from pydantic import TypeAdapter
from redis.client import Pipeline

from bridge.call import Direction
from bridge.clock import Clock
from bridge.ledger import beside, ignored, index, keys, trail
from bridge.ledger.entry import Entry, State
from bridge.ledger.find import Finder, Place, Wanted
from bridge.ledger.ignored import IgnoredEvents, Shelf

log = logging.getLogger(__name__)

_CODEC: TypeAdapter[Entry] = TypeAdapter(Entry)
_TRIES = 100
REPLACED_LIFE_S = 3600
_TRIM_BATCH = 500
_TRIM_AHEAD_S = 7200  # an entry is taken out whole while it can still be read: it alone knows its index rows

# KEYS[1] how often each event of a call came again   KEYS[2] the call's entry   ARGV[1] fingerprint
# The counter lives as long as its entry, and not at all without one.
_COUNT_REPEAT = """
local life = redis.call('PTTL', KEYS[2])
if life == -2 then return end
redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
if life > 0 then redis.call('PEXPIRE', KEYS[1], life) else redis.call('PERSIST', KEYS[1]) end
"""

# KEYS[1] index of what is due   ARGV[1] now   ARGV[2] when to look again   ARGV[3], … call keys
# A row that was written meanwhile, for later or for good, stays as it is.
_PUT_OFF = """
for index = 3, #ARGV do
  local score = redis.call('ZSCORE', KEYS[1], ARGV[index])
  if score and tonumber(score) <= tonumber(ARGV[1]) then redis.call('ZADD', KEYS[1], ARGV[2], ARGV[index]) end
end
"""

# KEYS[1], KEYS[2] indices of closed and of all calls   ARGV[1] latest score   ARGV[2] offset   ARGV[3] limit   ARGV[4] prefix of entries
# Returns how many rows were looked at and how many of them had lost their entry and are gone.
_TRIM = """
local rows = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', ARGV[2], ARGV[3])
local gone = 0
for _, row in ipairs(rows) do
  if redis.call('EXISTS', ARGV[4] .. row) == 0 then
    redis.call('ZREM', KEYS[1], row)
    redis.call('ZREM', KEYS[2], row)
    gone = gone + 1
  end
end
return {#rows, gone}
"""


@dataclass(frozen=True, slots=True)
class Change:
    """What one compare-and-set writes."""

    entry: Entry
    told: tuple[trail.Line, ...] = ()  # lines for the trail
    raw: str | None = None  # the event as it came
    counts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Moment:
    """When something is decided, by Redis's clock: now, and when this ledger was first written. Work older than that may be forgotten."""

    now: float
    born: float
    no_lead: Direction | None = None  # another event has told that this call did not come in
    replaced: bool = False  # a process that still runs knew another ledger before this one: Redis has lost everything lately


Decide = Callable[[Entry | None, Moment], Change | None]


class PutJob(Protocol):
    """Adds a call's RQ job to the caller's MULTI."""

    def __call__(self, pipe: Pipeline, call_key: str, /, *, at_front: bool) -> None: ...


@dataclass(frozen=True, slots=True)
class Retention:
    """How long closed entries are kept, in seconds."""

    done_s: float
    attention_s: float


class Store:
    """The ledger's entries."""

    def __init__(self, connection: redis.Redis, clock: Clock, retention: Retention, put_job: PutJob) -> None:
        self.connection = connection
        self.clock = clock
        self._retention = retention
        self._put_job = put_job
        self._known_birth: bytes | None = None  # of the ledger that this process works with

    def get(self, call_key: str) -> Entry | None:
        return _decode(self.connection.get(keys.entry(call_key)))

    def get_many(self, call_keys: Iterable[str]) -> list[Entry]:
        """Those that still exist, in the order asked for. One that cannot be read is told of and left out."""
        asked = list(call_keys)
        names = [keys.entry(call_key) for call_key in asked]
        found = []
        for call_key, document in zip(asked, self.connection.mget(names) if names else [], strict=True):
            try:
                entry = _decode(document)
            except ValueError as error:
                log.error("an entry cannot be read, and is left out", exc_info=error, extra={"call_key": call_key})  # noqa: TRY400 - as it is
                continue
            found += [entry] if entry else []
        return found

    def change(self, call_key: str, decide: Decide, *, also: Callable[[Pipeline], None] | None = None) -> Entry | None:
        """Write what `decide(entry, moment)` wants, or nothing where it returns None. Returns the entry as it stands afterwards.

        What `also` adds to the MULTI is written in any case, in the same EXEC.
        Whatever `decide` raises leaves everything as it was. Raises redis.RedisError; after a lost answer the write may have happened.
        """
        name, mark = keys.entry(call_key), keys.no_lead(call_key)
        with self.connection.pipeline() as pipe:
            for _ in range(_TRIES):
                pipe.watch(name, mark)  # type: ignore[no-untyped-call]  # redis-py leaves it untyped
                document, born, marked, told = cast("list[bytes | None]", pipe.mget(name, keys.BORN, keys.REPLACED, mark))
                old, now = _decode(document), self.clock.now()
                replaced = self._is_replaced(born) or marked is not None
                no_lead = Direction(told.decode()) if told else None
                change = decide(old, Moment(now, float(born) if born else now, no_lead, replaced))
                if change is None and also is None:
                    pipe.unwatch()
                    return old
                pipe.multi()
                if also is not None:
                    also(pipe)
                if change is not None:
                    if not born:
                        pipe.set(keys.BORN, repr(now), nx=True)
                    self._write(pipe, old, change, now)
                try:
                    pipe.execute()
                except redis.WatchError:
                    continue  # somebody else was quicker: decide again on what they wrote
                return change.entry if change is not None else old
        raise redis.WatchError(f"{call_key} kept changing under {_TRIES} tries")

    def watch_birth(self) -> None:
        """Notice that Redis has lost everything, even while no call comes in."""
        self._is_replaced(cast("bytes | None", self.connection.get(keys.BORN)))

    def _is_replaced(self, born: bytes | None) -> bool:
        """Whether this is another ledger than the one that this process knew; then every process is told.

        Read again before it is believed: a thread may have read "none" just before another thread wrote the birth.
        """
        known = self._known_birth
        if known is None or born == known:
            self._known_birth = born or known
            return False
        now_born = cast("bytes | None", self.connection.get(keys.BORN))
        if now_born == known:
            return False
        self.connection.set(keys.REPLACED, "1", ex=REPLACED_LIFE_S)
        self._known_birth = now_born or known
        return True

    def count_repeat(self, call_key: str, fingerprint: str) -> None:
        """A repeat changes nothing but its counter."""
        with self.connection.pipeline() as pipe:
            pipe.eval(_COUNT_REPEAT, 2, keys.repeats(call_key), keys.entry(call_key), fingerprint)
            pipe.hincrby(keys.COUNT, "events.repeat", 1)
            pipe.execute()

    def count_many(self, counted: Mapping[str, int]) -> None:
        if not counted:
            return
        with self.connection.pipeline() as pipe:
            for name, times in counted.items():
                pipe.hincrby(keys.COUNT, name, times)
            pipe.execute()

    def keep_ignored(self, document: str, reason: str, *, is_understood: bool = False) -> None:
        """A signed request that made no call: kept raw with its reason, counted by it, shown in the console."""
        with self.connection.pipeline() as pipe:
            ignored.keep(pipe, Shelf.OTHER if is_understood else Shelf.UNREAD, document, reason)
            pipe.execute()

    @property
    def ignored(self) -> IgnoredEvents:
        """What made no call."""
        return IgnoredEvents(self.connection)

    def trail(self, call_key: str) -> list[dict[str, Any]]:
        """The entry's story, oldest first."""
        return [json.loads(line) for line in self.connection.lrange(keys.trail(call_key), 0, -1)]

    def due(self, now: float, limit: int) -> list[str]:
        """Call keys that the sweeper has to look at, most overdue first."""
        rows = self.connection.zrange(keys.DUE, "-inf", now, byscore=True, offset=0, num=limit)
        return [row.decode() for row in cast("list[bytes]", rows)]

    def put_off(self, call_key: str, seconds: float) -> None:
        """Look at an entry later."""
        self.connection.zadd(keys.DUE, {call_key: self.clock.now() + seconds}, xx=True)

    def put_off_due(self, call_keys: Sequence[str], seconds: float) -> None:
        """Look at those of them that are still due later, all in one go; their entries stay as they are."""
        if call_keys:
            now = self.clock.now()
            self.connection.eval(_PUT_OFF, 1, keys.DUE, repr(now), repr(now + seconds), *call_keys)

    def drop_due(self, call_key: str) -> None:
        """A row without an entry."""
        self.connection.zrem(keys.DUE, call_key)

    def page(self, state: State | None, *, after: Place | None, limit: int) -> list[Entry]:
        """Entries of a state, or of all, oldest first, after the (accepted_at, call key) of the last one seen."""
        return list(self.find.page(Wanted(state=state), after=after, limit=limit).entries)

    @property
    def find(self) -> Finder:
        """Pages by any combination of indices."""
        return Finder(self.connection, self.get_many)

    def raw(self, call_key: str) -> list[dict[str, Any]]:
        """The events as they came, for those who may see them."""
        return [json.loads(line) for line in self.connection.lrange(keys.raw(call_key), 0, -1)]

    def repeats(self, call_key: str) -> dict[str, int]:
        """Event fingerprint → how often it was delivered again."""
        counted = cast("dict[bytes, bytes]", self.connection.hgetall(keys.repeats(call_key)))
        return {name.decode(): int(times) for name, times in counted.items()}

    def hours(self, first: int, last: int) -> dict[tuple[int, str], int]:
        """The figures from hour `first` to hour `last` since the epoch, both included: (hour, what) → how many."""
        days = range(first // 24, last // 24 + 1)
        with self.connection.pipeline(transaction=False) as pipe:
            for day in days:
                pipe.hgetall(keys.hours(day))
            answers = cast("list[dict[bytes, bytes]]", pipe.execute())
        told = ((name.decode().partition("."), int(times)) for answer in answers for name, times in answer.items())
        return {(int(hour), what): times for (hour, _, what), times in told if first <= int(hour) <= last}

    def trim(self, *, ignored_s: float) -> int:
        """Forget calls whose time is over, with all their index rows, and ignored events older than `ignored_s`.

        Returns how many calls were dropped. Entries also expire by themselves, should this not have run for hours; their rows go then as
        well, here or when a page meets them.
        """
        now, dropped = self.clock.now(), self._forget_expired() + self._forget_expiring()
        self.ignored.trim(now - ignored_s)
        return dropped

    def _forget_expired(self) -> int:
        offset, dropped = 0, 0
        indices = keys.state_index(State.DONE), keys.ALL
        while True:
            latest = self.clock.now() - self._retention.done_s
            answer = self.connection.eval(_TRIM, 2, *indices, str(latest), str(offset), str(_TRIM_BATCH), keys.entry(""))
            looked, gone = cast("list[int]", answer)
            offset, dropped = offset + looked - gone, dropped + gone
            if looked < _TRIM_BATCH:
                return dropped

    def _forget_expiring(self) -> int:
        """Take out calls that would expire before this runs again."""
        wanted = Wanted(state=State.DONE, until=self.clock.now() - self._retention.done_s + _TRIM_AHEAD_S)
        after: Place | None = None
        dropped = 0
        while True:
            page = self.find.page(wanted, after=after, limit=_TRIM_BATCH)
            with self.connection.pipeline(transaction=False) as pipe:
                for entry in page.entries:
                    pipe.ttl(keys.entry(entry.call_key))
                lives = cast("list[int]", pipe.execute())
            expiring = [entry for entry, life in zip(page.entries, lives, strict=True) if 0 <= life < _TRIM_AHEAD_S]
            dropped += sum(self._forget(entry.call_key) for entry in expiring)
            if page.after is None:
                return dropped
            after = page.after

    def _forget(self, call_key: str) -> bool:
        """Whether it is gone, rows and all; False where news has come for it meanwhile."""
        with self.connection.pipeline() as pipe:
            pipe.watch(keys.entry(call_key))  # type: ignore[no-untyped-call]  # redis-py leaves it untyped
            entry = _decode(pipe.get(keys.entry(call_key)))
            if entry is None or entry.state is not State.DONE:
                return False
            pipe.multi()
            for name in index.rows(entry):
                pipe.zrem(name, call_key)
            pipe.delete(*keys.of_call(call_key))
            try:
                pipe.execute()
            except redis.WatchError:
                return False
            return True

    def _write(self, pipe: Pipeline, old: Entry | None, change: Change, now: float) -> None:
        entry, call_key = change.entry, change.entry.call_key
        pipe.set(keys.entry(call_key), _CODEC.dump_json(entry, exclude_defaults=True))
        if change.told:
            pipe.rpush(keys.trail(call_key), *(line.to_json() for line in change.told))
            pipe.ltrim(keys.trail(call_key), -keys.TRAIL_LINES, -1)
        if change.raw is not None:
            pipe.rpush(keys.raw(call_key), change.raw)
            pipe.ltrim(keys.raw(call_key), 0, keys.RAW_EVENTS - 1)
        beside.write(pipe, old, entry, now)
        for name in change.counts:
            pipe.hincrby(keys.COUNT, name, 1)
        self._set_life(pipe, old, entry)
        if entry.queued_at is not None and (old is None or entry.queued_at != old.queued_at):
            self._put_job(pipe, call_key, at_front=_was_tried(entry))

    def _set_life(self, pipe: Pipeline, old: Entry | None, entry: Entry) -> None:
        """Open entries never expire. The clock of a closed one starts anew with each write, so its keys go together."""
        if entry.state is State.DONE:
            life = self._retention.attention_s if entry.closed_by else self._retention.done_s
            for name in keys.of_call(entry.call_key):
                pipe.expire(name, int(life))
        elif old is not None and old.state is State.DONE:
            for name in keys.of_call(entry.call_key):
                pipe.persist(name)


def _was_tried(entry: Entry) -> bool:
    """Whether an entry comes back from a failed try or a dead worker. A replay is not in a hurry: it waits behind the calls of now."""
    return bool(entry.attempts) and entry.attempts[-1].outcome in ("again", "died")


def _decode(document: object) -> Entry | None:
    return None if document is None else _CODEC.validate_json(cast("bytes", document))

"""Entries in Redis, changed by compare-and-set: `decide` is pure and may run again, the write is one EXEC or nothing.

One EXEC holds the entry, its trail, its raw event, its index rows, the counters and, where the entry has become queued, its RQ job.
So there is never an entry without the job that will run it, nor a job without its entry, whatever dies in between.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import redis
from pydantic import TypeAdapter
from redis.client import Pipeline

from bridge.clock import Clock
from bridge.ledger import keys, trail
from bridge.ledger.entry import Entry, State

_CODEC: TypeAdapter[Entry] = TypeAdapter(Entry)
_TRIES = 100
_TRIM_BATCH = 500

# KEYS[1] how often each event of a call came again   KEYS[2] the call's entry   ARGV[1] fingerprint
# The counter lives as long as its entry, and not at all without one.
_COUNT_REPEAT = """
local life = redis.call('PTTL', KEYS[2])
if life == -2 then return end
redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
if life > 0 then redis.call('PEXPIRE', KEYS[1], life) else redis.call('PERSIST', KEYS[1]) end
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


Decide = Callable[[Entry | None, Moment], Change | None]


@dataclass(frozen=True, slots=True)
class Retention:
    """How long closed entries are kept, in seconds."""

    done_s: float
    attention_s: float


class Store:
    """The ledger's entries.

    `put_job(pipe, call key)` adds the RQ job to the caller's MULTI.
    """

    def __init__(self, connection: redis.Redis, clock: Clock, retention: Retention, put_job: Callable[[Pipeline, str], None]) -> None:
        self.connection = connection
        self.clock = clock
        self._retention = retention
        self._put_job = put_job

    def get(self, call_key: str) -> Entry | None:
        return _decode(self.connection.get(keys.entry(call_key)))

    def get_many(self, call_keys: Iterable[str]) -> list[Entry]:
        """Those that still exist, in the order asked for."""
        names = [keys.entry(call_key) for call_key in call_keys]
        found = (_decode(document) for document in (self.connection.mget(names) if names else []))
        return [entry for entry in found if entry]

    def change(self, call_key: str, decide: Decide) -> Entry | None:
        """Write what `decide(entry, moment)` wants, or nothing where it returns None. Returns the entry as it stands afterwards.

        Whatever `decide` raises leaves everything as it was. Raises redis.RedisError; after a lost answer the write may have happened.
        """
        name = keys.entry(call_key)
        with self.connection.pipeline() as pipe:
            for _ in range(_TRIES):
                pipe.watch(name)  # type: ignore[no-untyped-call]  # redis-py leaves it untyped
                document, born = cast("list[bytes | None]", pipe.mget(name, keys.BORN))
                old, now = _decode(document), self.clock.now()
                change = decide(old, Moment(now, float(born) if born else now))
                if change is None:
                    pipe.unwatch()
                    return old
                pipe.multi()
                if not born:
                    pipe.set(keys.BORN, repr(now), nx=True)
                self._write(pipe, old, change)
                try:
                    pipe.execute()
                except redis.WatchError:
                    continue  # somebody else was quicker: decide again on what they wrote
                return change.entry
        raise redis.WatchError(f"{call_key} kept changing under {_TRIES} tries")

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

    def keep_ignored(self, document: str, reason: str) -> None:
        """A signed request that made no call: kept raw, counted by its reason, shown in the console."""
        with self.connection.pipeline() as pipe:
            pipe.lpush(keys.IGNORED, document)
            pipe.ltrim(keys.IGNORED, 0, keys.IGNORED_KEPT - 1)
            pipe.hincrby(keys.COUNT, f"events.ignored:{reason}", 1)
            pipe.execute()

    def trail(self, call_key: str) -> list[dict[str, Any]]:
        """The entry's story, oldest first."""
        return [json.loads(line) for line in self.connection.lrange(keys.trail(call_key), 0, -1)]

    def due(self, now: float, limit: int) -> list[str]:
        """Call keys that the sweeper has to look at, most overdue first."""
        rows = self.connection.zrange(keys.DUE, "-inf", now, byscore=True, offset=0, num=limit)
        return [row.decode() for row in cast("list[bytes]", rows)]

    def drop_due(self, call_key: str) -> None:
        """A row without an entry."""
        self.connection.zrem(keys.DUE, call_key)

    def page(self, state: State | None, *, after: tuple[float, str] | None, limit: int) -> list[Entry]:
        """Entries of a state, or of all, oldest first, after the (accepted_at, call key) of the last one seen."""
        index = keys.state_index(state) if state else keys.ALL
        found: list[Entry] = []
        while len(found) < limit:
            rows = self._rows(index, after=after, limit=limit)
            found += self.get_many(call_key for _, call_key in rows)
            if len(rows) < limit:
                break
            after = rows[-1]  # rows whose entry has expired are passed over, not taken for the end
        return found[:limit]

    def trim(self, *, ignored_s: float) -> int:
        """Drop index rows of entries that have expired, and ignored events older than `ignored_s`. Returns how many rows were dropped."""
        now, offset, dropped = self.clock.now(), 0, 0
        indices = keys.state_index(State.DONE), keys.ALL
        while True:
            latest = now - self._retention.done_s
            answer = self.connection.eval(_TRIM, 2, *indices, str(latest), str(offset), str(_TRIM_BATCH), keys.entry(""))
            looked, gone = cast("list[int]", answer)
            offset, dropped = offset + looked - gone, dropped + gone
            if looked < _TRIM_BATCH:
                break
        while (oldest := cast("bytes | None", self.connection.lindex(keys.IGNORED, -1))) and json.loads(oldest)["at"] < now - ignored_s:
            self.connection.lrem(keys.IGNORED, -1, oldest.decode())
        return dropped

    def _rows(self, index: str, *, after: tuple[float, str] | None, limit: int) -> list[tuple[float, str]]:
        """Rows of an index by score, then by name; O(log n + limit) but for those that share the cursor's score."""
        low = after[0] if after else "-inf"
        found: list[tuple[float, str]] = []
        offset = 0
        while len(found) < limit:
            answer = self.connection.zrange(index, low, "+inf", byscore=True, offset=offset, num=limit + 1, withscores=True)
            rows = cast("list[tuple[bytes, float]]", answer)
            found += [(score, name.decode()) for name, score in rows if after is None or (score, name.decode()) > after]
            offset += len(rows)
            if len(rows) <= limit:
                break
        return found[:limit]

    def _write(self, pipe: Pipeline, old: Entry | None, change: Change) -> None:
        entry, call_key = change.entry, change.entry.call_key
        pipe.set(keys.entry(call_key), _CODEC.dump_json(entry, exclude_defaults=True))
        if change.told:
            pipe.rpush(keys.trail(call_key), *(line.to_json() for line in change.told))
            pipe.ltrim(keys.trail(call_key), -keys.TRAIL_LINES, -1)
        if change.raw is not None:
            pipe.rpush(keys.raw(call_key), change.raw)
            pipe.ltrim(keys.raw(call_key), 0, keys.RAW_EVENTS - 1)
        _index(pipe, old, entry)
        for name in change.counts:
            pipe.hincrby(keys.COUNT, name, 1)
        self._set_life(pipe, old, entry)
        if entry.queued_at is not None and (old is None or entry.queued_at != old.queued_at):
            self._put_job(pipe, call_key)

    def _set_life(self, pipe: Pipeline, old: Entry | None, entry: Entry) -> None:
        """Open entries never expire. The clock of a closed one starts anew with each write, so its keys go together."""
        if entry.state is State.DONE:
            life = self._retention.attention_s if entry.closed_by else self._retention.done_s
            for name in keys.of_call(entry.call_key):
                pipe.expire(name, int(life))
        elif old is not None and old.state is State.DONE:
            for name in keys.of_call(entry.call_key):
                pipe.persist(name)


def _index(pipe: Pipeline, old: Entry | None, entry: Entry) -> None:
    if old is None or old.state is not entry.state:
        if old is not None:
            pipe.zrem(keys.state_index(old.state), entry.call_key)
        pipe.zadd(keys.state_index(entry.state), {entry.call_key: entry.accepted_at})
    if old is None:
        pipe.zadd(keys.ALL, {entry.call_key: entry.accepted_at})
    look_at = entry.look_at
    if look_at is not None:
        pipe.zadd(keys.DUE, {entry.call_key: look_at})
    elif old is not None and old.look_at is not None:
        pipe.zrem(keys.DUE, entry.call_key)


def _decode(document: object) -> Entry | None:
    return None if document is None else _CODEC.validate_json(cast("bytes", document))

"""Signed requests that made no call, raw and with their reason, on two shelves: what could not be understood, and what was.

They are apart because their numbers are. Callbacks of your own outbound calls may come by the thousand, and would push out the one
event that shows what a phone system has begun to send. What was understood is a sample, the newest OTHER_KEPT. What was not is kept for
IGNORED_DAYS whatever else comes, up to UNREAD_BYTES, so that a misdirected webhook cannot fill Redis; what goes before its time is counted.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate
from typing import Any, cast

import redis
from redis.client import Pipeline

from bridge.ledger import keys
from bridge.ledger.find import Place

DROPPED = "events.dropped:could not be understood"  # the counter of those that went before their time
BEFORE = "kept by version 1.0.0, which did not write the reason down"
_REASON_CHARS = 120
_PAGE_BYTES = 1024 * 1024
_BATCH = 500

# What a row costs beside its document: its member in a set and in a hash.
_ROW_BYTES = 400

# KEYS[1] rows by time   KEYS[2] row → document   KEYS[3] bytes held   KEYS[4] counters
# ARGV[1] time   ARGV[2] row   ARGV[3] document   ARGV[4] bytes allowed   ARGV[5] rows allowed   ARGV[6] bytes of a row
# ARGV[7] counter of what is dropped, or ''
_KEEP = """
redis.call('ZADD', KEYS[1], ARGV[1], ARGV[2])
redis.call('HSET', KEYS[2], ARGV[2], ARGV[3])
local held = redis.call('INCRBY', KEYS[3], #ARGV[3] + ARGV[6])
local rows, dropped = redis.call('ZCARD', KEYS[1]), 0
while rows > 1 and (held > tonumber(ARGV[4]) or rows > tonumber(ARGV[5])) do
  local oldest = redis.call('ZPOPMIN', KEYS[1])[1]
  held = redis.call('DECRBY', KEYS[3], redis.call('HSTRLEN', KEYS[2], oldest) + ARGV[6])
  redis.call('HDEL', KEYS[2], oldest)
  rows, dropped = rows - 1, dropped + 1
end
if dropped > 0 and ARGV[7] ~= '' then redis.call('HINCRBY', KEYS[4], ARGV[7], dropped) end
"""

# KEYS as above, the first three   ARGV[1] latest time   ARGV[2] how many at most   ARGV[3] bytes of a row. Returns how many are gone.
_TRIM = """
local rows = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', '(' .. ARGV[1], 'LIMIT', 0, ARGV[2])
for _, row in ipairs(rows) do
  redis.call('DECRBY', KEYS[3], redis.call('HSTRLEN', KEYS[2], row) + ARGV[3])
  redis.call('HDEL', KEYS[2], row)
  redis.call('ZREM', KEYS[1], row)
end
return #rows
"""


class Shelf(StrEnum):
    UNREAD = "unread"  # could not be understood
    OTHER = "other"  # understood, and no call that makes a lead


@dataclass(frozen=True, slots=True)
class Shown:
    """A page of one shelf, newest first."""

    events: tuple[dict[str, Any], ...]  # each with its `reason`
    after: Place | None  # where the next page begins; None: there is none


def keep(pipe: Pipeline, shelf: Shelf, document: str, reason: str) -> None:
    """Add an event and the count of its reason to the caller's MULTI. `document` is a JSON object with `at`, seconds since the epoch."""
    _put(pipe, shelf, json.loads(document), reason)
    pipe.hincrby(keys.COUNT, f"events.ignored:{reason}", 1)


def _put(pipe: Pipeline, shelf: Shelf, event: Mapping[str, Any], reason: str) -> None:
    is_unread = shelf is Shelf.UNREAD
    row = f"{uuid.uuid4().hex} {reason[:_REASON_CHARS]}"
    at = float(event.get("at") or 0.0)
    document = json.dumps({**event, "at": at, "reason": reason})
    allowed = (keys.UNREAD_BYTES if is_unread else keys.OTHER_BYTES, keys.UNREAD_KEPT if is_unread else keys.OTHER_KEPT)
    told = (repr(at), row, document, *map(str, allowed), str(_ROW_BYTES), DROPPED if is_unread else "")
    pipe.eval(_KEEP, 4, *keys.shelf(shelf), keys.COUNT, *told)


class IgnoredEvents:
    """Reads the shelves, and clears them."""

    def __init__(self, connection: redis.Redis) -> None:
        self._connection = connection

    def page(self, shelf: Shelf, *, limit: int, after: Place | None = None, reason: str | None = None) -> Shown:
        """At most `limit` events after the place `after`, all of them or those with this reason. Raises redis.RedisError.

        Fewer where their documents are large; at least one, if there is one.
        """
        self.adopt_old()
        places = self._places(shelf, limit + 1, after, reason)
        name, rows = keys.shelf(shelf)[1], [row for _, row in places[:limit]]
        if not rows:
            return Shown((), None)
        with self._connection.pipeline(transaction=False) as pipe:
            for row in rows:
                pipe.hstrlen(name, row)
            sizes = accumulate(cast("list[int]", pipe.execute()))
        fit = max(1, sum(size <= _PAGE_BYTES for size in sizes))
        documents = cast("list[bytes | None]", self._connection.hmget(name, rows[:fit]))
        events = tuple(json.loads(document) for document in documents if document is not None)
        return Shown(events, places[fit - 1] if len(places) > fit else None)

    def _places(self, shelf: Shelf, wanted: int, after: Place | None, reason: str | None) -> list[Place]:
        found: list[Place] = []
        latest, offset = (repr(after[0]) if after else "+inf"), 0
        while len(found) < wanted:
            rows = self._rows(shelf, latest, offset)
            places = [(at, row.decode()) for row, at in rows]
            is_wanted = reason[:_REASON_CHARS] if reason is not None else None
            found += [place for place in places if (after is None or place < after) and is_wanted in (None, place[1].partition(" ")[2])]
            if len(rows) < _BATCH:
                break
            offset += len(rows)
        return found[:wanted]

    def _rows(self, shelf: Shelf, latest: str, offset: int) -> Sequence[tuple[bytes, float]]:
        name = keys.shelf(shelf)[0]
        rows = self._connection.zrevrangebyscore(name, latest, "-inf", start=offset, num=_BATCH, withscores=True)
        return cast("Sequence[tuple[bytes, float]]", rows)

    def counts(self) -> dict[Shelf, int]:
        """How many events each shelf holds."""
        with self._connection.pipeline(transaction=False) as pipe:
            for shelf in Shelf:
                pipe.zcard(keys.shelf(shelf)[0])
            return dict(zip(Shelf, pipe.execute(), strict=True))

    def trim(self, before: float) -> None:
        """Forget what came before the instant `before`, seconds since the epoch."""
        self.adopt_old()
        for shelf in Shelf:
            while self._connection.eval(_TRIM, 3, *keys.shelf(shelf), repr(before), str(_BATCH), str(_ROW_BYTES)):
                pass

    def adopt_old(self) -> None:
        """Bring over what version 1.0.0 kept, also from a web process of it that still runs. It did not tell what it had understood."""
        with self._connection.pipeline() as pipe:
            while True:
                pipe.watch(keys.IGNORED)  # type: ignore[no-untyped-call]  # redis-py leaves it untyped
                old = cast("list[bytes]", pipe.lrange(keys.IGNORED, 0, _BATCH - 1))
                if not old:
                    return
                pipe.multi()
                for document in old:
                    _put(pipe, Shelf.UNREAD, json.loads(document), BEFORE)
                pipe.ltrim(keys.IGNORED, len(old), -1)
                try:
                    pipe.execute()
                except redis.WatchError:
                    continue  # another process brings them over, or one came

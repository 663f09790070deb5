"""Pages of the ledger, by any combination of indices, in bounded work however many calls there are.

One index is walked, the smallest of those asked for; the others are only asked whether they hold what was found there. A page that had
to pass over LOOK_LIMIT rows ends early, with a cursor: the next one goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import cast

import redis

from bridge.ledger import keys
from bridge.ledger.entry import Cause, Entry, State

LOOK_LIMIT = 5000
_BATCH = 500

Place = tuple[float, str]  # a row: its score, and the call key that tells rows of one score apart
_Row = tuple[bytes, float]

# KEYS[1] an index   ARGV[1] prefix of entries   ARGV[2…] call keys. Takes rows out whose entry has expired.
_DROP_EXPIRED = """
for i = 2, #ARGV do
  if redis.call('EXISTS', ARGV[1] .. ARGV[i]) == 0 then redis.call('ZREM', KEYS[1], ARGV[i]) end
end
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which calls. Nothing set: all of them. `since` and `until` bound the time of acceptance, seconds since the epoch, until excluded."""

    state: State | None = None
    cause: Cause | None = None
    provider: str | None = None
    dialled: str | None = None  # E.164, as it stands in the facts
    location: str | None = None
    contact: str | None = None
    last4: str | None = None
    caller: str | None = None  # E.164
    owner: str | None = None  # of those that need attention
    since: float | None = None
    until: float | None = None

    def indices(self) -> tuple[str, ...]:
        asked = {
            "state": self.state.value if self.state else None,
            "cause": self.cause.value if self.cause else None,
            "provider": self.provider,
            "dialled": keys.digest(self.dialled) if self.dialled else None,
            "location": self.location,
            "contact": self.contact,
            "last4": self.last4,
            "caller": keys.digest(self.caller) if self.caller else None,
            "owner": self.owner,
        }
        return tuple(keys.index(name, value) for name, value in asked.items() if value) or (keys.ALL,)


@dataclass(frozen=True, slots=True)
class Page:
    entries: tuple[Entry, ...]
    after: Place | None  # where the next page begins; None: there is none


class Finder:
    """Reads pages. `get_many` gives the entries of call keys that still exist."""

    def __init__(self, connection: redis.Redis, get_many: Callable[[Iterable[str]], list[Entry]]) -> None:
        self._connection = connection
        self._get_many = get_many

    def page(self, wanted: Wanted, *, after: Place | None, limit: int, newest: bool = False, urgent: bool = False) -> Page:
        """At most `limit` calls after the place `after`, oldest first or, with `newest`, newest first.

        With `urgent` only calls that need attention, those first whose time to act ends first; `since` and `until` are left out then.
        Raises redis.RedisError.
        """
        walked, others = self._plan(wanted, urgent=urgent)
        walk = _Walk(self._connection, walked, Wanted() if urgent else wanted, newest=newest)
        batch = min(limit + 1, _BATCH) if not others else _BATCH
        found: list[Entry] = []
        places: dict[str, Place] = {}
        looked = 0
        while looked < LOOK_LIMIT:
            rows = walk.rows(after, batch)
            looked += len(rows)
            places |= {row[1]: row for row in rows}
            found += self._entries(walked, self._in_all(others, rows), limit + 1 - len(found))
            if len(found) > limit:
                return Page(tuple(found[:limit]), places[found[limit - 1].call_key])
            if len(rows) < batch:
                return Page(tuple(found), None)
            after = rows[-1]
        return Page(tuple(found), after)

    def _plan(self, wanted: Wanted, *, urgent: bool) -> tuple[str, list[str]]:
        """The index to walk, and those that have to hold what is found in it."""
        if urgent:
            return keys.ATTENTION, [name for name in wanted.indices() if name != keys.ALL]
        walked, *others = self._smallest_first(wanted)
        return walked, others

    def count(self, wanted: Wanted) -> int | None:
        """How many there are, where one index can tell; None where only walking could."""
        names = wanted.indices()
        return self._sizes(names, wanted)[0] if len(names) == 1 else None

    def overdue(self, now: float) -> int:
        return int(self._connection.zcount(keys.ATTENTION, "-inf", now))

    def _smallest_first(self, wanted: Wanted) -> list[str]:
        names = wanted.indices()
        if len(names) == 1:
            return [*names]
        sizes = dict(zip(names, self._sizes(names, wanted), strict=True))
        return sorted(names, key=sizes.__getitem__)

    def _sizes(self, names: Sequence[str], wanted: Wanted) -> list[int]:
        low, high = _bounds(wanted)
        with self._connection.pipeline(transaction=False) as pipe:
            for name in names:
                pipe.zcount(name, low, high)
            return cast("list[int]", pipe.execute())

    def _in_all(self, others: Sequence[str], rows: Sequence[Place]) -> list[Place]:
        """Those rows that stand in every other index as well."""
        if not others or not rows:
            return list(rows)
        with self._connection.pipeline(transaction=False) as pipe:
            for name in others:
                pipe.zmscore(name, [call_key for _, call_key in rows])
            answers = pipe.execute()
        return [row for row, *scores in zip(rows, *answers, strict=True) if all(score is not None for score in scores)]

    def _entries(self, index: str, rows: Sequence[Place], limit: int) -> list[Entry]:
        """The first `limit` entries of these rows. Rows whose entry has expired are passed over, and dropped from the index."""
        found: list[Entry] = []
        rows = list(rows)
        while rows and len(found) < limit:
            wanted = limit - len(found)
            asked, rows = [call_key for _, call_key in rows[:wanted]], rows[wanted:]
            entries = self._get_many(asked)
            found += entries
            expired = set(asked) - {entry.call_key for entry in entries}
            if expired:
                self._connection.eval(_DROP_EXPIRED, 1, index, keys.entry(""), *expired)
        return found


class _Walk:
    """One index, row by row, in one direction."""

    def __init__(self, connection: redis.Redis, index: str, wanted: Wanted, *, newest: bool) -> None:
        self._connection = connection
        self._index = index
        self._low, self._high = _bounds(wanted)
        self._newest = newest

    def rows(self, after: Place | None, limit: int) -> list[Place]:
        """Rows by score, then by name; O(log n + limit) but for those that share the cursor's score."""
        begin, end = (self._high, self._low) if self._newest else (self._low, self._high)
        start: float | str = after[0] if after else begin
        found: list[Place] = []
        offset = 0
        while len(found) < limit:
            answer = self._connection.zrange(
                self._index, start, end, desc=self._newest, byscore=True, offset=offset, num=limit + 1, withscores=True
            )
            rows = [(score, name.decode()) for name, score in cast("list[_Row]", answer)]
            found += [row for row in rows if after is None or (row < after if self._newest else row > after)]
            offset += len(rows)
            if len(rows) <= limit:
                break
        return found[:limit]


def _bounds(wanted: Wanted) -> tuple[float | str, float | str]:
    low: float | str = "-inf" if wanted.since is None else wanted.since
    return low, "+inf" if wanted.until is None else f"({wanted.until}"

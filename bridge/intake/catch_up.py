"""The backfill that runs by itself: every BACKFILL_EVERY_S one process of the deployment reads what the phone systems list.

A window slides over the list: from BACKFILL_OVERLAP_S before the place to which it was last read without a fault, so that an outage of
hours is made up for, up to now. A call that was found sooner than its webhook can be expected, and a list that could not be read, bring
the next look forward.

Redis keys, beside those of bridge/ledger/keys.py:

    cb:backfill:turn                       STRING  there while no backfill is due; whoever sets it runs one
    cb:backfill:read:<provider>:<list>:<account>  STRING  seconds since the epoch until which that list has been read
    cb:backfill:summed                     STRING  there for an hour after the daily sums were made
"""

from __future__ import annotations

import logging
import uuid
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import redis

from bridge.intake import daily
from bridge.intake.backfill import Backfill, Found, Listed
from bridge.ledger.store import Store
from bridge.providers.lists import Lists
from bridge.providers.lists.base import Lister, Window
from bridge.settings import DAY_S
from bridge.watch.logs import fact

log = logging.getLogger(__name__)

TURN = "cb:backfill:turn"
SUMMED = "cb:backfill:summed"
LOOK_EVERY_S = 2.0
SOON_S = 60.0
FARTHEST_S = 7 * DAY_S  # how far back a window reaches by itself; beyond, somebody should look: `flask backfill --since`
_SUM_EVERY_S = 3600


@dataclass
class CatchUp:
    """`after(found)` hears what each run has found, also where there is no list to read: silence shows in the ledger alone, too."""

    store: Store
    backfill: Backfill
    lists: Lists
    every_s: float
    overlap_s: float
    after: Callable[[Sequence[Found]], object] = lambda _: None
    name: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def connection(self) -> redis.Redis:
        return self.store.connection

    def run(self, stop: Callable[[float], bool]) -> None:
        """Until `stop(seconds to wait)` says so. A Redis that is away is waited for, and nothing else ends it either."""
        for provider, why in self.lists.skipped.items():
            fact(log, "no backfill", provider=provider, why=why)
        while not stop(LOOK_EVERY_S):
            try:
                self.once()
            except redis.RedisError as error:
                log.warning("Redis is away; the backfill goes on when it is back", extra={"error": type(error).__name__})
            except Exception:
                log.exception("the backfill met a fault of our own; it is tried again at its next turn")

    def once(self) -> list[Found] | None:
        """One run, if it is due and nobody else has taken it. Raises redis.RedisError."""
        if not self.connection.set(TURN, self.name, nx=True, px=int(self.every_s * 1000)):
            return None
        found = [self._catch_up(lister) for lister in self.lists.listers]
        if any(one.inserted or one.too_young or not one.ok for one in found):
            waits = (one.listed.fault.retry_in or 0.0 for one in found if one.listed.fault)  # a phone system that names its own time
            self.connection.pexpire(TURN, int(min(max([SOON_S, *waits]), self.every_s) * 1000))
        self.after(found)
        self._sum()
        return found

    def _catch_up(self, lister: Lister) -> Found:
        mark, now = _mark(lister), self.store.clock.now()
        told = self.connection.get(mark)
        read_until = min(float(told), now) if told else now
        window = Window(max(read_until - self.overlap_s, now - FARTHEST_S), now)
        found = self.backfill.bring(self.backfill.read(lister, window))
        if found.ok:
            # What was left to its webhook has to lie in the next window too, however long that call has lasted.
            read = min(now, found.young_since + self.overlap_s) if found.young_since is not None else now
            self.connection.set(mark, repr(read), ex=4 * FARTHEST_S)
        level = logging.INFO if found.ok else logging.WARNING
        fact(log, "list of calls read", level=level, window_s=round(now - window.since), **found.as_document())
        return found

    def _sum(self) -> None:
        """Today's sums, and yesterday's while the night is young: calls of its last minutes may still have been under way."""
        if not self.connection.set(SUMMED, self.name, nx=True, ex=_SUM_EVERY_S):
            return
        now = self.store.clock.now()
        today = datetime.fromtimestamp(now, UTC)
        days = [today.date(), *([(today - timedelta(days=1)).date()] if today.hour < 3 else [])]
        for day in days:
            read = [self.backfill.read(lister, daily.window(day, now)) for lister in self.lists.listers]
            daily.keep(self.connection, [daily.read(self.store, day, *one) for one in by_provider(read).items()])


def by_provider(lists: Sequence[Listed]) -> dict[str, list[Listed]]:
    found: dict[str, list[Listed]] = defaultdict(list)
    for listed in lists:
        found[listed.lister.name].append(listed)
    return found


def _mark(lister: Lister) -> str:
    return f"cb:backfill:read:{lister.name}:{type(lister).__name__}:{lister.account}"

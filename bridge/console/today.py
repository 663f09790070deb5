"""Is all well? The figures of the first page, and the one sentence that they come to. `read` asks Redis, the rest is pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import cast

from bridge.console import chart, present
from bridge.console.chart import Hour
from bridge.ledger import index, keys
from bridge.ledger.entry import Entry, State
from bridge.ledger.find import Wanted
from bridge.ledger.owed import PROCESS
from bridge.ledger.store import Store

HOURS = 24
URGENT = 5


@dataclass(frozen=True, slots=True)
class Verdict:
    """`level`: well, warning or bad. `where` names the call that a button leads to: the most `urgent` one, or the `oldest` that waits."""

    level: str
    say: str
    do: str = ""  # what to do about it
    where: str = ""


@dataclass(frozen=True, slots=True)
class Today:
    """All that the first page shows."""

    now: float
    verdict: Verdict
    accepted: int
    leads: int
    failures: int
    sizes: Mapping[State, int]
    oldest: Entry | None
    owed_since: float
    promised_at: float
    urgent: tuple[Entry, ...]
    picture: chart.Chart


def read(store: Store, listening: Callable[[], int], *, promise_s: float, zone: tzinfo) -> Today:
    """Constant work, however many calls there are. Raises redis.RedisError."""
    now, name = store.clock.now(), keys.owed(PROCESS)
    with store.connection.pipeline(transaction=False) as pipe:
        for state in State:
            pipe.zcard(keys.state_index(state))
        pipe.zcount(name, "-inf", f"({now - promise_s!r}")
        pipe.zrange(name, 0, 0, withscores=True)
        *sizes, late, waiting = pipe.execute()
    oldest, since = _oldest(store, waiting, now)
    last = index.hour(now)
    hours = store.hours(last - max(HOURS, 25) + 1, last)
    sums = of_today(hours, now, zone)
    known, overdue = dict(zip(State, cast("list[int]", sizes), strict=True)), store.find.overdue(now)
    return Today(
        now=now,
        verdict=judge(known, workers=listening(), overdue=overdue, late=late),
        accepted=sums["accepted"],
        leads=sums["leads"],
        failures=sums["failures"],
        sizes=known,
        oldest=oldest,
        owed_since=since,
        promised_at=since + promise_s,
        urgent=store.find.page(Wanted(), after=None, limit=URGENT, urgent=True).entries,
        picture=chart.draw([_hour(hours, hour, zone) for hour in range(last - HOURS + 1, last + 1)]),
    )


def _oldest(store: Store, rows: Sequence[tuple[bytes, float]], now: float) -> tuple[Entry | None, float]:
    """The call for which something has been owed longest, and since when. One for which it will be owed later does not wait yet."""
    if not rows or rows[0][1] > now:
        return None, now
    found = store.get_many([rows[0][0].decode()])
    return (found[0] if found else None), rows[0][1]


_BEGIN = ("See why, and what to do", "Begin with the most urgent one")


def judge(sizes: Mapping[State, int], *, workers: int, overdue: int, late: int) -> Verdict:
    """The worst thing first: a deployment that does not work comes before the calls that it leaves."""
    asks = sizes[State.NEEDS_ATTENTION]
    if not workers:
        return Verdict(
            "bad", "Calls are kept, but none is brought to GoHighLevel: no worker listens.", "Start the Procfile's worker process"
        )
    if overdue:
        calls = present.count(overdue, "call needs attention and is overdue", "calls need attention and are overdue")
        return Verdict("bad", f"{calls}.", _BEGIN[overdue > 1], "urgent")
    if late:
        calls = present.count(late, "call waits", "calls wait")
        return Verdict("warning", f"{calls} longer than promised.", "See what the oldest one waits for", "oldest")
    if asks:
        calls = present.count(asks, "call needs", "calls need")
        return Verdict("warning", f"{calls} attention; everything else is well.", _BEGIN[asks > 1], "urgent")
    return Verdict("well", "All is well: every call is a lead, or needs none.")


def of_today(hours: Mapping[tuple[int, str], int], now: float, zone: tzinfo) -> dict[str, int]:
    """The sums since midnight in `zone`. An hour belongs to the day in which it begins."""
    today = datetime.fromtimestamp(now, zone).date()
    sums = {"accepted": 0, "leads": 0, "failures": 0}
    for (hour, what), times in hours.items():
        if what in sums and datetime.fromtimestamp(hour * index.HOUR_S, zone).date() == today:
            sums[what] += times
    return sums


def _hour(hours: Mapping[tuple[int, str], int], hour: int, zone: tzinfo) -> Hour:
    calls, leads, failures = (hours.get((hour, what), 0) for what in ("accepted", "leads", "failures"))
    return Hour(f"{datetime.fromtimestamp(hour * index.HOUR_S, zone):%H:%M}", calls, leads, failures)

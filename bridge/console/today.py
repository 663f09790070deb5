"""Is all well? The figures of the first page, and the one sentence that they come to. `read` asks Redis, the rest is pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import cast

from bridge.console import chart, present
from bridge.console.chart import Hour
from bridge.ledger import index, keys
from bridge.ledger.entry import Entry, State
from bridge.ledger.find import Wanted
from bridge.ledger.store import Store

HOURS = 24
URGENT = 5
PROMISE_S = 120.0  # from the end of a call, or the end of the wait for it, to its lead


@dataclass(frozen=True, slots=True)
class Verdict:
    """`level`: well, warning or bad."""

    level: str
    say: str
    do: str = ""  # what to do about it


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
    promised_at: float | None
    urgent: tuple[Entry, ...]
    overdue: int
    picture: chart.Chart


def read(store: Store, listening: Callable[[], int], *, note_wait_s: float, zone: tzinfo) -> Today:
    """Constant work, however many calls there are. Raises redis.RedisError."""
    now = store.clock.now()
    with store.connection.pipeline(transaction=False) as pipe:
        for state in State:
            pipe.zcard(keys.state_index(state))
        for state in (State.ACCEPTED, State.RUNNING):
            pipe.zrange(keys.state_index(state), 0, 0)
        *sizes, accepted, running = cast("list[list[bytes]]", pipe.execute())
    waiting = store.get_many(row.decode() for row in [*accepted, *running])
    oldest = min(waiting, key=lambda entry: entry.accepted_at, default=None)
    known = dict(zip(State, cast("list[int]", sizes), strict=True))
    last = index.hour(now)
    hours = store.hours(last - max(HOURS, 25) + 1, last)
    sums = of_today(hours, now, zone)
    overdue, promised_at = store.find.overdue(now), promise(oldest, note_wait_s) if oldest else None
    return Today(
        now=now,
        verdict=judge(known, workers=listening(), overdue=overdue, late=promised_at is not None and promised_at < now),
        accepted=sums["accepted"],
        leads=sums["leads"],
        failures=sums["failures"],
        sizes=known,
        oldest=oldest,
        promised_at=promised_at,
        urgent=store.find.page(Wanted(), after=None, limit=URGENT, urgent=True).entries,
        overdue=overdue,
        picture=chart.draw([_hour(hours, hour, zone) for hour in range(last - HOURS + 1, last + 1)]),
    )


def judge(sizes: Mapping[State, int], *, workers: int, overdue: int, late: bool) -> Verdict:
    """The worst thing first: a deployment that does not work comes before the calls that it leaves."""
    asks = sizes[State.NEEDS_ATTENTION]
    if not workers:
        return Verdict(
            "bad", "Calls are kept, but none is brought to GoHighLevel: no worker listens.", "Start the Procfile's worker process."
        )
    if overdue:
        calls = present.count(overdue, "call needs attention and is overdue", "calls need attention and are overdue")
        return Verdict("bad", f"{calls}.", "Begin with the most urgent one.")
    if late:
        return Verdict("warning", "A call waits longer than promised.", "Look at why: it stands below.")
    if asks:
        calls = present.count(asks, "call needs", "calls need")
        return Verdict("warning", f"{calls} attention; everything else is well.", "Begin with the most urgent one.")
    return Verdict("well", "All is well: every call is a lead, or needs none.")


def promise(entry: Entry, note_wait_s: float) -> float:
    """Until when this call should be with its contact: from its end on, or from when its end is not awaited any longer."""
    over_at = entry.last_event_at if entry.facts.is_over else entry.last_event_at + note_wait_s
    return over_at + PROMISE_S


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

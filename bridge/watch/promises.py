"""What is promised for a process, what is the case, and which promises are broken. `read` asks Redis, the rest is pure.

A process has an owner, a promise and figures of its own. Today the calls of a deployment are one process; with one for each dialled
number, `bridge.ledger.owed.process` tells them apart, and nothing here changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from bridge.crm.pacing import Pacing
from bridge.errors import Transient
from bridge.ledger import index, keys, owed
from bridge.ledger.entry import Cause
from bridge.ledger.owed import BEYOND, BOUNDS, Reached
from bridge.ledger.store import Store
from bridge.settings import Settings

HOURS = 2  # this one and those before it, of which shares and percentiles are taken
ENOUGH = 20  # calls below which a share or a percentile says nothing
SLOW_SHARE = 0.05  # of the leads may take longer than promised
SHORT_OF_BUDGET = 0.1  # of a day's requests
AFFECTED_LIMIT = 500  # calls that are looked at to count their callers

# STRING, seconds by Redis's clock: when a sweeper first looked, since Redis was last empty.
WATCHED = "cb:silence:watched"
LATE, SLOW, FAILURES, BUDGET, SILENCE = "promise.late", "promise.slow", "failures.share", "crm.budget_left", "silence"
DIED, TIMED_OUT = "attempts.died", "attempts.timed_out"
CAUSES = (LATE, SLOW, FAILURES, DIED, TIMED_OUT, BUDGET, SILENCE, *(f"attention.{cause.value}" for cause in Cause))


@dataclass(frozen=True, slots=True)
class Process:
    """Who answers for a kind of work, and what is promised for it. Times in seconds."""

    name: str
    owner: str
    promise_s: float
    silence_s: float | None  # no call for this long is reported; None: silence is normal
    failure_share: float  # of the calls that ended, 0 to 1
    daily: int  # requests to the CRM allowed in a day


def processes(settings: Settings) -> tuple[Process, ...]:
    one = Process(
        name=owed.PROCESS,
        owner=settings.bridge_owner,
        promise_s=settings.promise_s,
        silence_s=settings.silence_s,
        failure_share=settings.failure_share,
        daily=settings.ghl_daily,
    )
    return (one,)


@dataclass(frozen=True, slots=True)
class Figures:
    """How a process does, as seen `at`. `took`, and what is counted from `leads` to `timed_out`, are of this hour and the one before."""

    oldest_s: float = 0.0  # age of the oldest waiting call, from when something was owed for it
    waiting: int = 0
    late: int = 0
    took: Mapping[str, int] | None = None  # upper bound of a bucket, seconds → how many leads took at most so long
    leads: int = 0
    failures: int = 0
    died: int = 0  # attempts whose process died or hung, or had no Redis until their lease had run out
    timed_out: int = 0  # attempts that ran into the job's time limit
    attention: Mapping[Cause, int] | None = None
    left_today: int | None = None  # requests to the CRM; None: not known
    silent_s: float | None = None  # since the newest call, else since somebody watches; None: nobody has watched yet
    has_calls: bool = True  # False: there was none yet
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class Breach:
    """One promise that is broken now."""

    cause: str
    count: int  # calls, or 1 where it is not about single calls
    say: str
    do: str
    page: str = ""  # of the console
    for_s: float = 0.0  # how long it has been so already, where that is known


def read(store: Store, process: Process, *, left_today: int | None = None) -> Figures:
    """Constant work, however many calls there are. Raises redis.RedisError."""
    now, name = store.clock.now(), keys.owed(process.name)
    with store.connection.pipeline(transaction=False) as pipe:
        pipe.zrange(name, 0, 0, withscores=True)
        pipe.zcount(name, "-inf", now)
        pipe.zcount(name, "-inf", f"({now - process.promise_s!r}")
        pipe.zrange(keys.ALL, -1, -1, withscores=True)
        pipe.get(WATCHED)
        for cause in Cause:
            pipe.zcard(keys.index("cause", cause.value))
        oldest, waiting, late, newest, watched, *attention = pipe.execute()
    last = newest[0][1] if newest else watched
    hours = _sums(store, now)
    prefix = f"{Reached.LEAD}_s:"
    return Figures(
        oldest_s=max(now - oldest[0][1], 0.0) if oldest else 0.0,
        waiting=waiting,
        late=late,
        took={what.removeprefix(prefix): times for what, times in hours.items() if what.startswith(prefix)},
        leads=hours.get("leads", 0),
        failures=hours.get("failures", 0),
        died=hours.get("died", 0),
        timed_out=hours.get("timed_out", 0),
        attention=dict(zip(Cause, attention, strict=True)),
        left_today=left_today,
        silent_s=None if last is None else max(now - float(last), 0.0),
        has_calls=bool(newest),
        at=now,
    )


def begin_watch(store: Store) -> None:
    """Remember since when somebody watches. The ledger's birth will not do: it is its first call, and there may never be one.

    Raises redis.RedisError.
    """
    store.connection.set(WATCHED, repr(store.clock.now()), nx=True)


def left_today(pacing: Pacing, location_id: str) -> int | None:
    """Requests to the CRM that are left, or None while Redis cannot say."""
    try:
        return pacing.remaining(location_id).daily
    except Transient:
        return None


def _sums(store: Store, now: float) -> dict[str, int]:
    last = index.hour(now)
    sums: dict[str, int] = {}
    for (_, what), times in store.hours(last - HOURS + 1, last).items():
        sums[what] = sums.get(what, 0) + times
    return sums


def breaches(process: Process, figures: Figures) -> tuple[Breach, ...]:
    """Which promises are broken, as sentences without anything personal."""
    of_calls = (_late(process, figures), _slow(process, figures), _failures(process, figures))
    found = (*of_calls, _died(figures), _timed_out(figures), _budget(process, figures))
    attention = (_attention(cause, count) for cause, count in (figures.attention or {}).items())
    return tuple(breach for breach in (*found, _silence(process, figures), *attention) if breach)


def _late(process: Process, figures: Figures) -> Breach | None:
    if not figures.late:
        return None
    say = (
        f"{counted(figures.late, 'call waits', 'calls wait')} longer than the promised {span(process.promise_s)}; "
        f"the oldest for {span(figures.oldest_s)}."
    )
    do = "Open the console: it says whether workers listen and what the oldest call waits for. Nothing is lost; they go on by themselves."
    return Breach(LATE, figures.late, say, do, for_s=figures.oldest_s - process.promise_s)


def certain_bound(promise_s: float) -> float:
    """The bound of the histogram's buckets beyond which a lead is late for certain: where PROMISE_S is none, the next one."""
    return next((bound for bound in BOUNDS if bound >= promise_s), BOUNDS[-1])


def _slow(process: Process, figures: Figures) -> Breach | None:
    took, bound = figures.took or {}, certain_bound(process.promise_s)
    leads = sum(took.values())
    late = sum(times for upto, times in took.items() if upto == BEYOND or float(upto) > bound)
    if leads < ENOUGH or late <= SLOW_SHARE * leads:
        return None
    say = f"{late} of the last hours' {leads} leads took more than {span(bound)}; {span(process.promise_s)} are promised."
    return Breach(SLOW, 1, say, "See whether calls wait for a worker (raise WORKERS) or for GoHighLevel (its status page, its rate limit).")


def _failures(process: Process, figures: Figures) -> Breach | None:
    ended = figures.leads + figures.failures
    if ended < ENOUGH or figures.failures <= process.failure_share * ended:
        return None
    say = f"{figures.failures} of the last hours' {ended} calls failed for good: {figures.failures / ended:.0%}."
    return Breach(FAILURES, figures.failures, say, "Look up the cause that most of them share in docs/errors.md.", "/attention")


def _died(figures: Figures) -> Breach | None:
    """Each such call is tried again and has no alert of its own: a worker that is killed for its memory now and then would go unseen."""
    if not figures.died:
        return None
    ended = "ended with the death of the process, or because Redis, the bridge's database, was away for too long"
    say = f"{counted(figures.died, 'attempt', 'attempts')} of the last hours {ended}. Nothing is lost: such calls are tried again."
    do = (
        "Look at the worker's log of that time. If it says that Redis was away, that was it. "
        "Otherwise it is memory most often: lower WORKERS, or give the worker more of it."
    )
    return Breach(DIED, figures.died, say, do)


def _timed_out(figures: Figures) -> Breach | None:
    if not figures.timed_out:
        return None
    say = f"{counted(figures.timed_out, 'attempt', 'attempts')} of the last hours ran into the time limit. The calls are tried again."
    do = (
        "Look for worker.timeout in the worker's log: it names the call, whose page in the console says which step takes so long. "
        "GoHighLevel may answer slowly, or Redis."
    )
    return Breach(TIMED_OUT, figures.timed_out, say, do)


def _budget(process: Process, figures: Figures) -> Breach | None:
    left = figures.left_today
    if left is None or left >= SHORT_OF_BUDGET * process.daily:
        return None
    say = f"{left} of {process.daily} requests to GoHighLevel are left for today. When they are spent, calls wait until tomorrow."
    return Breach(BUDGET, 1, say, "Stop what else uses this location's token, and leave backfills and replays for tomorrow.")


def _silence(process: Process, figures: Figures) -> Breach | None:
    if process.silence_s is None or figures.silent_s is None or figures.silent_s <= process.silence_s:
        return None
    since = "" if figures.has_calls else ", which is since the bridge was set up or Redis was emptied"
    say = f"No call has come for {span(figures.silent_s)}{since}."
    do = "Ring the number yourself. If nothing comes: the webhook's address and its log at the phone system."
    return Breach(SILENCE, 1, say, do, for_s=figures.silent_s)


_TO_DO = {
    Cause.PERMANENT: "Mend what the cause names (docs/errors.md), then replay.",
    Cause.EXHAUSTED: "See the attempts for what failed each time; when that is mended, replay.",
    Cause.UNCERTAIN: "Search GoHighLevel for the caller; say which contact it is, or replay to create one.",
    Cause.CONFLICT: "Compare the two versions, then replay or close.",
    Cause.STALE: "See what each says: find the caller in the phone system's list, or look at the contact and replay with a reason.",
}


def _attention(cause: Cause, count: int) -> Breach | None:
    say = f"{counted(count, 'call needs', 'calls need')} attention ({cause.value})."
    return Breach(f"attention.{cause.value}", count, say, _TO_DO[cause], "/attention") if count else None


def callers(store: Store, process: Process, breach: Breach, at: float) -> tuple[int, bool]:
    """How many different callers the calls of a breach that was seen `at` have, and whether there may be more. Raises redis.RedisError.

    Never more than the breach has calls: what has come since then is left out, so that both figures of one message fit together.
    """
    limit, since = min(breach.count, AFFECTED_LIMIT), 0.0
    if breach.cause == LATE:
        until = f"({at - process.promise_s!r}"
        rows = store.connection.zrange(keys.owed(process.name), "-inf", until, byscore=True, offset=0, num=limit)
    elif breach.cause == FAILURES:
        since = (index.hour(at) - HOURS + 1) * 3600.0  # of all that need attention, those of the hours that were counted
        rows = store.connection.zrange(keys.ATTENTION, 0, AFFECTED_LIMIT - 1, desc=True)
    elif breach.cause.startswith("attention."):
        rows = store.connection.zrange(keys.index("cause", breach.cause.partition(".")[2]), 0, limit - 1)
    else:
        return 0, False
    found = cast("list[bytes]", rows)
    entries = [entry for entry in store.get_many(row.decode() for row in found) if (entry.trouble.at if entry.trouble else at) >= since]
    who = {(entry.facts.caller.e164 if entry.facts.caller else None) or entry.call_key for entry in entries[:limit]}
    return len(who), breach.count > AFFECTED_LIMIT and len(found) == AFFECTED_LIMIT


def counted(number: int, one: str, more: str) -> str:
    return f"{number} {one if number == 1 else more}"


def span(seconds: float) -> str:
    """A time as people say it: 45 s, 3 min, 2 h, 4 days."""
    for unit, size, upto in (("s", 1, 120), ("min", 60, 7200), ("h", 3600, 172_800)):
        if seconds < upto:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / 86_400:.0f} days"

"""The only ways in which an entry may change. Pure: no I/O, no clock of its own; the store writes the result by compare-and-set.

accepted ──begin──▶ running ──finish──▶ done
    ▲  ▲               │ │                │
    │  └─wait, put_back┘ └─park──▶ needs attention ◀──conflict── (any)
    └──────── later news (done), replay (needs attention) ───────┘
"""

from __future__ import annotations

from dataclasses import replace

from bridge.call import Call, Direction, contradicts, merge
from bridge.errors import Fenced, WrongMove
from bridge.ledger.entry import DUE_IN_S, LEASE_GRACE_S, Attempt, Cause, Entry, Plan, Seen, State, StepDone, Taken, Trouble

ATTEMPTS_KEPT = 40
EVENTS_KEPT = 64
CONFLICTS_KEPT = 8
DEATHS_ALLOWED = 3
CHECK_QUEUED_AFTER_S = 10.0

MOVES: dict[State, frozenset[State]] = {
    State.ACCEPTED: frozenset({State.ACCEPTED, State.RUNNING, State.NEEDS_ATTENTION}),
    State.RUNNING: frozenset({State.RUNNING, State.ACCEPTED, State.DONE, State.NEEDS_ATTENTION}),
    State.DONE: frozenset({State.DONE, State.ACCEPTED, State.NEEDS_ATTENTION}),
    State.NEEDS_ATTENTION: frozenset({State.NEEDS_ATTENTION, State.ACCEPTED, State.DONE}),
}


def move(entry: Entry, state: State) -> Entry:
    """The entry in `state`. Raises WrongMove where the table knows no such move."""
    if state not in MOVES[entry.state]:
        raise WrongMove(f"{entry.call_key}: no move from {entry.state} to {state}")
    return replace(entry, state=state)


# --- an event comes in


def take(entry: Entry, news: Call, seen: Seen) -> tuple[Taken, Entry]:
    """What `entry` becomes with one more event. A repeat, and an event that tells nothing new, leave its version alone."""
    if any(seen.fingerprint == earlier.fingerprint for earlier in entry.events):
        return Taken.REPEAT, entry
    known = replace(entry, events=(*entry.events, seen)[-EVENTS_KEPT:])
    if contradicts(entry.facts, news):
        return Taken.CONFLICT, _conflict(known, news, seen.at)
    facts = _came_in(merge(entry.facts, news))
    if facts == entry.facts:
        return Taken.REPEAT, known
    told = replace(known, facts=facts, version=entry.version + 1, last_event_at=seen.at)
    return Taken.NEWS, told if entry.facts.caller else _answered(told)


def tell_direction(entry: Entry, direction: Direction, now: float) -> Entry:
    """Another event has told that this call did not come in. One that has a caller stays as it is: it may be a leg that was dialled."""
    if entry.facts.caller is not None or entry.facts.direction is direction:
        return entry
    told = replace(entry, facts=replace(entry.facts, direction=direction), version=entry.version + 1, last_event_at=now)
    return _answered(told)


def _came_in(facts: Call) -> Call:
    """Who calls has the last word on the direction, as only calls that come in name somebody here."""
    return replace(facts, direction=Direction.INBOUND) if facts.caller is not None else facts


def _answered(entry: Entry) -> Entry:
    """A call that nobody had named a caller for goes on by itself with the event that names one, or tells that nobody called: there is no
    question any more.
    """
    is_open = entry.facts.caller is None and entry.facts.direction is Direction.INBOUND
    if entry.trouble is None or entry.trouble.cause is not Cause.STALE or is_open:
        return entry
    return replace(move(entry, State.ACCEPTED), trouble=None, unreported=False, queued_at=None, check_at=None, spent=0, deaths=0)


def _conflict(entry: Entry, news: Call, now: float) -> Entry:
    """Keep both versions and stop. A running attempt is fenced off at its next write. A conflict already shown is not reported again."""
    trouble = Trouble(
        Cause.CONFLICT,
        "call.conflict",
        "Two deliveries under one call id name different callers or dialled numbers.",
        "Compare the two versions, then replay the call or close it with a reason.",
        now,
        now + DUE_IN_S,
    )
    kept = replace(entry, conflicts=(*entry.conflicts, news)[-CONFLICTS_KEPT:])
    if entry.trouble is not None and entry.trouble.cause is Cause.CONFLICT:
        return kept
    return park(kept, now, trouble, unreported=True)


# --- what happens next


def arrange(entry: Entry, plan: Plan, now: float) -> Entry:
    """Queue, wait, or be done: where an entry that nobody runs belongs, given what is left to do.

    One that runs is left alone: its attempt compares versions at its end and sees the news itself. So is one whose last try failed:
    news do not shorten the pause that the failure asked for. An accepted entry with nothing to do is queued all the same: an attempt
    is what ends it, and says why.
    """
    if entry.state in (State.RUNNING, State.NEEDS_ATTENTION) or entry.queued_at is not None or is_pausing(entry):
        return entry
    if plan.wait_until is not None:
        return replace(move(entry, State.ACCEPTED), next_try_at=plan.wait_until, waiting_for=plan.waiting_for)
    if plan.ready or entry.state is State.ACCEPTED:
        return queue(entry, now)
    return entry


def is_pausing(entry: Entry) -> bool:
    """Whether an entry waits because its last try failed, not because its call goes on."""
    return (
        entry.state is State.ACCEPTED and entry.next_try_at is not None and bool(entry.attempts) and entry.attempts[-1].outcome == "again"
    )


def queue(entry: Entry, now: float) -> Entry:
    """Ask the store to put the job."""
    return replace(
        move(entry, State.ACCEPTED),
        queued_at=now,
        check_at=now + CHECK_QUEUED_AFTER_S,
        next_try_at=None,
        waiting_for=None,
    )


def queue_again(entry: Entry, now: float) -> Entry:
    """Its job was lost: put another. The state stays, since a call that needs attention may be queued too, to be reported."""
    return replace(entry, queued_at=now, check_at=now + CHECK_QUEUED_AFTER_S)


def check_later(entry: Entry, now: float) -> Entry:
    """Its job is where it belongs."""
    return replace(entry, check_at=now + CHECK_QUEUED_AFTER_S)


def may_begin(entry: Entry, now: float) -> bool:
    """Whether a job that a worker took may run this entry: it is queued, or its last attempt's lease has run out."""
    if entry.state is State.RUNNING:
        return now >= (entry.lease_until or 0.0) + LEASE_GRACE_S
    return entry.state is State.ACCEPTED and entry.queued_at is not None


def begin(entry: Entry, now: float, *, lease_s: float, worker: str) -> Entry:
    """A new attempt, written before its first effect."""
    if entry.state is State.RUNNING:
        entry = replace(_ended(entry, now, outcome="died"), deaths=entry.deaths + 1)
    number = entry.attempt + 1
    return replace(
        move(entry, State.RUNNING),
        attempt=number,
        attempts=(*entry.attempts, Attempt(number, now, worker))[-ATTEMPTS_KEPT:],
        lease_until=now + lease_s,
        queued_at=None,
        check_at=None,
        next_try_at=None,
        waiting_for=None,
    )


def suspect(entry: Entry, since: float) -> Entry:
    """Earlier work on this call or its caller may be forgotten: look before the first write."""
    return entry if entry.suspect_since is not None else replace(entry, suspect_since=since)


def held(entry: Entry | None, attempt: int) -> Entry:
    """The entry, if `attempt` still runs it. Raises Fenced where another attempt, an operator or a conflict has taken over."""
    if entry is None or entry.state is not State.RUNNING or entry.attempt != attempt:
        raise Fenced("another attempt has taken this call over")
    return entry


def renew(entry: Entry, now: float, *, lease_s: float) -> Entry:
    return replace(entry, lease_until=now + lease_s)


def intend(entry: Entry, step: str, now: float, *, words: str | None = None) -> Entry:
    """Announce a write before it is sent: should its outcome never be written, the next attempt knows that it has to look, and for what."""
    announced = entry.announced | ({step: words} if words else {})
    return replace(entry, intents=entry.intents | {step: now}, announced=announced)


def withdraw(entry: Entry, step: str) -> Entry:
    """The announced write is known to have changed nothing."""
    intents = {name: at for name, at in entry.intents.items() if name != step}
    return replace(entry, intents=intents, announced={name: words for name, words in entry.announced.items() if name in intents})


def record(entry: Entry, step: str, now: float, *, version: int, result: dict[str, str] | None = None) -> Entry:
    """A step is done for `version` of the facts. Progress makes an end of a series of deaths."""
    done = StepDone(version, now, result or {})
    return replace(withdraw(entry, step), steps=entry.steps | {step: done}, deaths=0)


def adopt(entry: Entry, contact_id: str, *, created: bool) -> Entry:
    """This is the call's contact."""
    return replace(entry, contact_id=contact_id, contact_created=created)


def lose_contact(entry: Entry) -> Entry:
    """The contact is gone from the CRM (merged, deleted): every step starts over on whichever contact the caller has now."""
    return replace(
        entry,
        contact_id=None,
        contact_created=False,
        lost_contact_id=entry.contact_id or entry.lost_contact_id,  # written twice where the first answer was lost
        steps={},
        intents={},
        announced={},
        notes_unknown=True,
    )


def finish(entry: Entry, plan: Plan, now: float) -> Entry:
    """The end of an attempt that met no error. Only an entry with nothing left to do is done."""
    ended = replace(_ended(entry, now, outcome="done"), spent=0, deaths=0, reason=plan.reason)
    if plan.wait_until is not None:
        return replace(move(ended, State.ACCEPTED), next_try_at=plan.wait_until, waiting_for=plan.waiting_for)
    return replace(move(ended, State.DONE), suspect_since=None, is_replay=False, vouched=())


def wait(entry: Entry, now: float, *, delay: float, spend: bool, cause: str, message: str, step: str | None, trace_id: str | None) -> Entry:
    """An attempt that has to be made again in `delay` seconds."""
    again_at = now + delay
    ended = _ended(entry, now, outcome="again", step=step, cause=cause, message=message, trace_id=trace_id, next_try_at=again_at)
    return replace(move(ended, State.ACCEPTED), next_try_at=again_at, waiting_for=cause, spent=entry.spent + spend)


def put_back(entry: Entry, now: float, *, delay: float = 0.0) -> Entry:
    """The process of a running attempt died. After DEATHS_ALLOWED deaths in a row a person has to look: this call may be what kills it."""
    died = replace(_ended(entry, now, outcome="died"), deaths=entry.deaths + 1)
    if died.deaths >= DEATHS_ALLOWED:
        trouble = Trouble(
            Cause.EXHAUSTED,
            "worker.died",
            f"The worker process died {died.deaths} times in a row while it ran this call.",
            "Look at the worker's memory and its log at the times of the attempts, then replay the call.",
            now,
            now + DUE_IN_S,
        )
        return park(died, now, trouble, unreported=True)
    return replace(move(died, State.ACCEPTED), next_try_at=now + delay, waiting_for="worker.died")


def park(
    entry: Entry, now: float, trouble: Trouble, *, unreported: bool = False, step: str | None = None, trace_id: str | None = None
) -> Entry:
    """Needs attention. With `unreported` the store puts the job once more, which raises the failure to RQ and Sentry."""
    if entry.state is State.RUNNING:
        entry = _ended(entry, now, outcome="parked", step=step, cause=trouble.word, message=trouble.message, trace_id=trace_id)
    return replace(
        move(entry, State.NEEDS_ATTENTION),
        trouble=trouble,
        unreported=unreported,
        queued_at=now if unreported else None,
        check_at=now + CHECK_QUEUED_AFTER_S if unreported else None,
        next_try_at=None,
        waiting_for=None,
        is_replay=False,
        vouched=(),
    )


def reported(entry: Entry, *, by: str | None = None) -> Entry:
    """The job is about to raise the failure of an entry that somebody else parked."""
    return replace(entry, unreported=False, reported_by=by, queued_at=None, check_at=None)


def replay(entry: Entry, now: float) -> Entry:
    """A person puts the call back: a fresh budget, and the steps not done start over.

    Where the call asked whether a contact was created, the replay is the answer: there is none, one may be created.
    """
    asked = entry.trouble is not None and entry.trouble.cause is Cause.UNCERTAIN
    fresh = replace(
        entry,
        trouble=None,
        unreported=False,
        spent=0,
        deaths=0,
        reason=None,
        closed_by=None,
        answered_at=now if asked else entry.answered_at,
    )
    return queue(fresh, now)


def close(entry: Entry, *, reason: str, by: str) -> Entry:
    """Done, by hand."""
    return replace(
        move(entry, State.DONE),
        trouble=None,
        unreported=False,
        reason=reason,
        closed_by=by,
        queued_at=None,
        check_at=None,
        next_try_at=None,
    )


def _ended(
    entry: Entry,
    now: float,
    *,
    outcome: str,
    step: str | None = None,
    cause: str | None = None,
    message: str | None = None,
    trace_id: str | None = None,
    next_try_at: float | None = None,
) -> Entry:
    """The newest attempt, closed. The lease ends with it."""
    if not entry.attempts:
        return replace(entry, lease_until=None)
    last = replace(
        entry.attempts[-1],
        ended_at=now,
        outcome=outcome,
        step=step,
        cause=cause,
        message=message,
        trace_id=trace_id,
        next_try_at=next_try_at,
    )
    return replace(entry, attempts=(*entry.attempts[:-1], last), lease_until=None)

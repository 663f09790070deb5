"""In which indices an entry stands, and what it adds to the hours' figures. Pure; the store writes the difference from one to the next.

An index is a sorted set of call keys. Its score is the time at which the call was accepted, so that any of them gives a day by a range,
a page by a cursor, and two of them an intersection. Only `due` and `attention` have a score of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bridge.ledger import keys
from bridge.ledger.entry import Attempt, Entry, State

HOUR_S = 3600


def rows(entry: Entry) -> dict[str, float]:
    """Every index in which `entry` stands, with its score there."""
    at, facts, trouble = entry.accepted_at, entry.facts, entry.trouble
    phone = facts.caller.e164 if facts.caller else None
    attributes = {
        "state": entry.state.value,
        "provider": facts.provider,
        "location": entry.location_id,
        "dialled": keys.digest(facts.dialled) if facts.dialled else None,
        "contact": entry.contact_id,
        "caller": keys.digest(phone) if phone else None,
        "last4": last_four(phone) if phone else None,
        "cause": trouble.cause.value if trouble else None,
        "owner": entry.owner if trouble else None,
    }
    found = {keys.ALL: at} | {keys.index(name, value): at for name, value in attributes.items() if value}
    if trouble:
        found[keys.ATTENTION] = trouble.due_at
    if entry.look_at is not None:
        found[keys.DUE] = entry.look_at
    return found


def last_four(number: str) -> str:
    """By which people search for a caller: enough to find one, too little to ring one."""
    return number[-4:]


@dataclass(frozen=True, slots=True)
class Difference:
    """What has to be written so that the indices show the new entry instead of the old one."""

    gone: tuple[str, ...]
    changed: Mapping[str, float]


def difference(old: Entry | None, new: Entry) -> Difference:
    before, after = (rows(old) if old else {}), rows(new)
    changed = {name: score for name, score in after.items() if before.get(name) != score}
    return Difference(tuple(name for name in before if name not in after), changed)


def counted(old: Entry | None, new: Entry) -> tuple[str, ...]:
    """What this change adds to its hour: `accepted`, `leads`, `failures`, and the attempts that were cut short: `died`, `timed_out`.

    A call is one lead, however often it is reopened or its contact is merged away.
    """
    was_lead = old is not None and (old.contact_id is not None or old.lost_contact_id is not None)
    told = {
        "accepted": old is None,
        "leads": new.contact_id is not None and not was_lead,
        "failures": new.state is State.NEEDS_ATTENTION and (old is None or old.state is not State.NEEDS_ATTENTION),
        "died": _last_attempt(old, new, lambda attempt: attempt.outcome == "died" or attempt.cause == "worker.died"),
        "timed_out": _last_attempt(old, new, lambda attempt: attempt.cause == "worker.timeout"),
    }
    return tuple(what for what, is_so in told.items() if is_so)


def _last_attempt(old: Entry | None, new: Entry, ended_so: Callable[[Attempt], bool]) -> bool:
    """Whether the attempt that ran before this change has ended with it, and how."""
    if old is None or old.state is not State.RUNNING:
        return False
    ended = (attempt for attempt in new.attempts if attempt.number == old.attempt and attempt.ended_at is not None)
    return any(ended_so(attempt) for attempt in ended)


def ended(old: Entry | None, new: Entry) -> tuple[str, ...]:
    """The counters of this ending, whoever brings it about: a worker, the sweeper, or an event. What a person closes is counted nowhere."""
    if (old is not None and old.state is new.state) or new.closed_by:
        return ()
    if new.state is State.NEEDS_ATTENTION:
        return ("parked",)
    if new.state is not State.DONE:
        return ()
    return ("done",) if new.contact_id is not None or not new.reason else ("done", f"without_lead.{new.reason}")


def hour(at: float) -> int:
    """Hours since the epoch (UTC)."""
    return int(at // HOUR_S)

"""What is owed for a call, and since when: the clock of the promise. Pure; the store writes what follows in the EXEC of each change.

Something is owed from the moment at which there is something to bring to the CRM until it is there: from the event that makes a call, or
tells news of it, through queue, tries and pauses. Nothing is owed while the call itself is still going on and only its note waits for the
end, while nobody has named a caller, and while a replay waits for its turn; then the row says from when on it will be owed, so that a
sweeper that never comes shows as well. A call that needs attention is owed no longer by the machine but by its owner.

The score is when it began, not when it is too late: a changed PROMISE_S holds at once, and how many are late is one ZCOUNT.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from bridge.ledger.entry import Entry, State

PROCESS = "calls"
BOUNDS = (1, 2, 5, 10, 20, 30, 60, 120, 300, 900, 3600, 14_400, 86_400)  # seconds; upper bounds of the histograms' buckets
BEYOND = "+Inf"  # the last bucket
_FAILED = frozenset({"again", "died"})  # outcomes of an attempt after which a pause is part of the wait


class Reached(StrEnum):
    """What is timed."""

    LEAD = "lead"  # the caller's contact is known
    SETTLED = "settled"  # everything known of the call is in the CRM, its note included


@dataclass(frozen=True, slots=True)
class Row:
    """What to write into the index: a score, or None to take the call out."""

    score: float | None


def process(entry: Entry) -> str:
    """Whose promise this call is. One for the deployment."""
    del entry
    return PROCESS


def row(old: Entry | None, new: Entry, now: float) -> Row | None:
    """What the change from `old` to `new` does to the index; None for nothing."""
    is_owed, from_later = _is_owed(new), _owed_later(new)
    if from_later is not None:
        return Row(from_later) if old is None or _owed_later(old) != from_later else None
    if not is_owed:
        return Row(None) if old is not None and _is_open(old) else None
    if old is not None and _is_owed(old):
        return None
    earlier = _owed_later(old) if old else None
    return Row(now if earlier is None else min(earlier, now))


def reached(old: Entry | None, new: Entry) -> tuple[Reached, ...]:
    """What this change has brought about, to be timed from when it began to be owed.

    A contact that a person chose, or that replaces a lost one, says nothing about the bridge's pace.
    """
    if old is None or not _is_owed(old):
        return ()
    is_first_lead = old.contact_id is None and old.lost_contact_id is None and new.contact_id is not None
    told = {
        Reached.LEAD: is_first_lead and old.state is State.RUNNING,
        Reached.SETTLED: not _is_owed(new) and new.state is not State.NEEDS_ATTENTION,
    }
    return tuple(what for what, is_so in told.items() if is_so)


def _is_open(entry: Entry) -> bool:
    return entry.state in (State.ACCEPTED, State.RUNNING)


def _is_owed(entry: Entry) -> bool:
    return _is_open(entry) and _owed_later(entry) is None


def _owed_later(entry: Entry) -> float | None:
    """From when on something will be owed for a call that waits by plan; None where it is owed already or not at all."""
    if entry.state is not State.ACCEPTED or entry.queued_at is not None:
        return None
    has_failed = bool(entry.attempts) and entry.attempts[-1].outcome in _FAILED
    return None if has_failed else entry.next_try_at

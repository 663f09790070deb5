"""What the ledger knows of a call. Pure: values only; bridge/ledger/moves.py has the only ways in which they may change.

Times are seconds since the epoch (UTC) by Redis's clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from bridge.call import Call

LEASE_GRACE_S = 1.0
DUE_IN_S = 8 * 3600.0  # the next working morning at the latest


class State(StrEnum):
    """The four states that people see."""

    ACCEPTED = "accepted"  # stored; queued, or waiting for its next try
    RUNNING = "running"  # an attempt holds it
    DONE = "done"  # everything that is known has reached the CRM, or there was nothing to bring (`reason` says why)
    NEEDS_ATTENTION = "needs_attention"  # a person has to act; `trouble` says why


class Cause(StrEnum):
    """Why a call needs attention."""

    PERMANENT = "permanent"  # the CRM or the settings refuse it; no retry mends that
    EXHAUSTED = "exhausted"  # every try of the budget failed, or its worker died again and again
    UNCERTAIN = "uncertain"  # a contact may or may not have been created, and the settings say: ask
    CONFLICT = "conflict"  # two deliveries contradict each other about who called whom
    STALE = "stale"  # nothing has come that would say who called, or a replay met what somebody has to answer for


@dataclass(frozen=True, slots=True)
class Seen:
    """One event that was taken in."""

    fingerprint: str
    what: str
    at: float
    source: str = "webhook"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One run of the job. `outcome` is None while it runs, and for ever if its process died."""

    number: int
    began_at: float
    worker: str
    ended_at: float | None = None
    outcome: str | None = None  # done, again, parked, died
    step: str | None = None
    cause: str | None = None
    message: str | None = None
    trace_id: str | None = None
    next_try_at: float | None = None


@dataclass(frozen=True, slots=True)
class StepDone:
    """A step that has brought the CRM in line with `version`. `result` is the step's own memory (note id, digest, …)."""

    version: int
    at: float
    result: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a call needs attention, for the person who has to act."""

    cause: Cause
    word: str  # the error's stable word, such as crm.401_token: alerts are grouped by it
    message: str
    hint: str  # what to do next
    at: float
    due_at: float  # until when somebody should have acted


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One call in the ledger."""

    call_key: str
    facts: Call
    location_id: str
    owner: str
    accepted_at: float
    last_event_at: float
    state: State = State.ACCEPTED
    version: int = 1  # grows with every event that adds facts
    source: str = "webhook"  # of the first event: webhook, spool or backfill
    # Since when the ledger remembers, where the call is older: earlier work on it may be forgotten, so look first.
    suspect_since: float | None = None
    events: tuple[Seen, ...] = ()
    conflicts: tuple[Call, ...] = ()
    contact_id: str | None = None
    contact_created: bool = False  # by this call, in this ledger's memory
    lost_contact_id: str | None = None  # the contact that this call had before the CRM said that it is gone
    steps: dict[str, StepDone] = field(default_factory=dict)
    intents: dict[str, float] = field(default_factory=dict)  # step → when a write was announced whose outcome is not known
    announced: dict[str, str] = field(default_factory=dict)  # step → digest of the words of such a write; only those of `intents` count
    notes_unknown: bool = False  # the contact may already carry our note: list its notes before the first write
    reason: str | None = None  # done without a lead: why
    attempt: int = 0  # number of the newest attempt; the fencing token of whoever runs it
    attempts: tuple[Attempt, ...] = ()
    spent: int = 0  # failed tries of the budget since the last success or replay
    deaths: int = 0  # attempts in a row whose process died
    lease_until: float | None = None
    queued_at: float | None = None  # when its job was last put into the queue; a change of it makes the store put the job
    check_at: float | None = None  # queued: when the sweeper makes sure that the job still exists
    next_try_at: float | None = None
    waiting_for: str | None = None
    trouble: Trouble | None = None  # set while it needs attention
    unreported: bool = False  # parked by somebody other than the job: the job still has to raise it to RQ and Sentry
    reported_by: str | None = None  # the run that raised it, as in Attempt.worker; of two that try at once, one
    closed_by: str | None = None
    is_replay: bool = False  # put back by a person, and not through yet: it gives way to live calls, and looks before it sends
    vouched: tuple[str, ...] = ()  # what speaks against this replay, and was answered for by a typed reason (bridge/intake/replay.py)
    answered_at: float | None = None  # when a person answered an uncertain create by a replay: creates lost before that are settled

    @property
    def look_at(self) -> float | None:
        """When the sweeper has to look at this entry; None while nothing is open."""
        if self.state is State.RUNNING:
            return (self.lease_until or 0.0) + LEASE_GRACE_S
        if self.queued_at is not None:
            return self.check_at
        return self.next_try_at if self.state is State.ACCEPTED else None


@dataclass(frozen=True, slots=True)
class Plan:
    """What is left to do for an entry: something now, something later, or nothing. Made by handlers/steps.py."""

    ready: tuple[str, ...] = ()  # steps that can run now, in order
    wait_until: float | None = None
    waiting_for: str | None = None
    reason: str | None = None  # nothing is left and there is no lead: why


class Taken(StrEnum):
    """What an event was to the ledger."""

    NEW = "new"
    REPEAT = "repeat"
    NEWS = "news"
    CONFLICT = "conflict"
    IGNORED = "ignored"  # another event has told that this call did not come in, and this one tells nothing else

"""Which calls make no lead, and why: each ends as done, with its reason shown and counted, and costs no request to the CRM.

What the owner has listed (OWN_NUMBERS, SKIPPED_CALLERS) makes none, however often it is replayed. A call that was merely short
(SHORT_CALL_S) is judged by its looks, so a person who replays it has the last word.
"""

from __future__ import annotations

from functools import lru_cache

from bridge import numbers
from bridge.call import Call, Caller, CallerKind, Direction, Status
from bridge.ledger.entry import Entry
from bridge.settings import Anonymous, Settings
from handlers.step import READY, Need

CALLER_WAIT_S = 900.0

WHY_NO_LEAD = {
    CallerKind.WITHHELD: "the caller withheld the number",
    CallerKind.EMPTY: "the phone system sent no caller number",
    CallerKind.SIP: "the caller is a SIP address without a telephone number",
    CallerKind.CLIENT: "the caller is a soft phone without a telephone number",
    CallerKind.UNPARSED: "the caller id is not a telephone number",
}

NOT_OURS = {
    Direction.OUTBOUND: "it belongs to an outbound call",
    Direction.INTERNAL: "it belongs to an internal call",
}

OWN = "the caller is one of the business's own numbers (OWN_NUMBERS)"
SKIPPED = "the caller is one that makes no lead here (SKIPPED_CALLERS)"
SHORT = "the call was over at once, and nothing was pressed or said (SHORT_CALL_S)"


def need(entry: Entry, now: float, settings: Settings) -> Need:
    """READY where there is a lead to make; else why there is none, or until when that is open."""
    caller = entry.facts.caller
    if caller is None:
        return _without_caller(entry, now)
    listed = _listed(caller, settings)
    return Need(skipped=listed) if listed else _of_short_call(entry, now, settings)


def _without_caller(entry: Entry, now: float) -> Need:
    """There is no lead where another event has told that the call did not come in. Else somebody may still name the caller.

    Once nobody has in time: where the call's own event came without one, or nothing but legs of some call that we never saw
    begin (an agent's own call has such legs too), there is no lead to make. A recording alone is a call that somebody should look for.
    """
    if entry.facts.direction in NOT_OURS:
        return Need(skipped=NOT_OURS[entry.facts.direction])
    deadline = entry.accepted_at + CALLER_WAIT_S
    if now < deadline:
        return Need(wait_until=deadline, waiting_for="no event has named the caller yet")
    if entry.facts.dialled:
        return Need(skipped=WHY_NO_LEAD[CallerKind.EMPTY])
    if entry.facts.legs and not entry.facts.recordings:
        return Need(skipped="only other legs of a call were heard of, not the call itself")
    return READY


def _listed(caller: Caller, settings: Settings) -> str | None:
    """Why a caller never makes a lead, whatever the call was like."""
    if caller.e164 is None:
        return WHY_NO_LEAD[caller.kind] if settings.anonymous is Anonymous.IGNORE else None
    spellings, region = numbers.spellings(caller.e164), settings.default_region
    if not _lines(settings.own_numbers, region).isdisjoint(spellings):
        return OWN
    return None if _lines(settings.skipped_callers, region).isdisjoint(spellings) else SKIPPED


@lru_cache(maxsize=8)
def _lines(listed: tuple[str, ...], region: str) -> frozenset[str]:
    """The lines of a setting in the spelling that callers have here. Asked for every event, so parsed once."""
    return frozenset(e164 for one in listed if (e164 := numbers.identify(one, region=region).e164))


def _of_short_call(entry: Entry, now: float, settings: Settings) -> Need:
    """With SHORT_CALL_S the lead waits for the end of the call, as its note does, unless the caller has shown to be somebody before."""
    facts, least_s = entry.facts, settings.short_call_s
    if not least_s or entry.is_replay or _took_part(facts, least_s):
        return READY
    if facts.is_over:
        lasted = _lasted(facts)
        # Only an answered call says anything by its length: whoever was not answered may be a customer who was not helped.
        is_short = facts.status is Status.COMPLETED and lasted is not None and lasted < least_s
        return Need(skipped=SHORT) if is_short else READY
    quiet_at = entry.last_event_at + settings.note_wait_s
    return READY if now >= quiet_at else Need(wait_until=quiet_at, waiting_for="the call is still going on; short ones make no lead")


def _took_part(facts: Call, least_s: float) -> bool:
    """Whether a caller did more than ring. A recording counts by its length: some phone systems record every call."""
    recorded = any(one.duration_s is None or one.duration_s >= least_s for one in facts.recordings)
    said = any(one.value for one in facts.inputs) or any(one.text.strip() for one in facts.transcripts)
    return recorded or said or bool(facts.legs)


def _lasted(facts: Call) -> float | None:
    """Seconds, as told; else from the answer, or from the first ring, to the end. None where that is not known."""
    if facts.duration_s is not None:
        return facts.duration_s
    began = facts.answered_at or facts.started_at
    return (facts.ended_at - began).total_seconds() if began and facts.ended_at else None

"""Exactly one contact per location and caller: docs/road-of-a-call.md tells the rules, bridge/ledger/claims.py keeps the memory.

Which calls make none stands in handlers/no_lead.py. For the others:

1. The claim knows the contact: use it, after another look once a day.
2. Ask the CRM's own duplicate check. Only an explicit "none" is none.
3. None, but an earlier create has an open outcome: look again on a schedule that outlasts the index lag, then
4. announce the create, send it with a lease that outlives it, and write down what came of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile

from bridge import numbers
from bridge.call import Caller
from bridge.crm.base import Contact, Draft, Location
from bridge.crm.causes import HINTS, Cause
from bridge.errors import Ask, Permanent, StepFailed, Uncertain
from bridge.ledger import moves
from bridge.ledger.claims import Claim
from bridge.ledger.entry import Attempt, Entry
from bridge.ledger.trail import line
from bridge.settings import Anonymous, Settings, UncertainCreate
from bridge.work.attempt import Work
from bridge.work.retry import STALE
from handlers import no_lead
from handlers.note_text import inert
from handlers.settle_call import FIND, SECOND, look_again_later
from handlers.step import NOTHING, Need, Step
from handlers.tag_lead import are_there

NAME = FIND
UNKNOWN_NAME = "Unknown caller"
MAY_HAVE_CREATED = frozenset({Cause.UNPROCESSABLE, Cause.DUPLICATE_UNNAMED})  # refusals, and yet the contact may be there
REFUSALS_ALLOWED = 2
TRUSTED_S = 86_400.0  # how long a contact is used without another look: staff give numbers to other contacts, but not by the minute


def need(entry: Entry, now: float, settings: Settings) -> Need:
    return NOTHING if entry.contact_id is not None else no_lead.need(entry, now, settings)


def run(work: Work) -> None:
    caller = work.entry.facts.caller
    if caller is None:
        raise Permanent(
            "No event has told who called.",
            cause=STALE,
            hint="Look the call up at the phone system; check that its voice or status webhook points at this bridge.",
        )
    if caller.e164 is not None:
        _with_claim(work, caller.e164, caller)
    elif work.settings.anonymous is Anonymous.NOTE_ONLY and work.settings.anonymous_contact_id:
        _adopt(work, Contact(work.settings.anonymous_contact_id), how="anonymous contact")
    else:
        _with_claim(work, work.entry.call_key, caller)


def _with_claim(work: Work, who: str, caller: Caller) -> None:
    """Act for `who` while nobody else does. A contact that the claim knows needs no lease, except one that this call has lost."""
    location_id, lost = work.entry.location_id, work.entry.lost_contact_id
    if lost is not None:
        work.claims.forget(location_id, who, lost)
    claim = work.claims.acquire(location_id, who, owner=work.owner)
    known = _known(work, claim, caller)
    if known is None and claim.contact_id is not None:
        work.claims.forget(location_id, who, claim.contact_id)
        claim = work.claims.acquire(location_id, who, owner=work.owner)
        known = Contact(claim.contact_id) if claim.contact_id is not None else None  # another call was faster
    if known is not None:
        _adopt(work, known, how="known")
        return
    work.hold(claim)
    try:
        settled = _find_or_create(work, claim, caller)
    finally:
        work.hold(None)
        work.claims.release(claim)
    _adopt(work, settled.contact, how=settled.how, second=settled.second)


def _known(work: Work, claim: Claim, caller: Caller) -> Contact | None:
    """The contact that the claim knows; None where there is none, or where the CRM shows the caller's number elsewhere by now.

    A location that allows duplicates may show another contact with the same number, so there the claim's word stands.
    """
    if claim.contact_id is None:
        return None
    if caller.e164 is None or claim.contact_age_s < TRUSTED_S or work.crm.location().allows_duplicates:
        return Contact(claim.contact_id)
    found = next(_hits(work, claim, caller.e164), None)
    if found is None or found.id != claim.contact_id:
        return None
    work.claims.confirm(claim)
    return found


@dataclass(frozen=True, slots=True)
class _Settled:
    """Which contact is the call's, and how it came to be."""

    contact: Contact
    how: str
    second: Contact | None = None  # another contact has the same line, in another spelling


def _find_or_create(work: Work, claim: Claim, caller: Caller) -> _Settled:
    if caller.e164 is None:
        if claim.intent_age_s is not None and not _is_answered(work, claim.intent_age_s):
            raise _ask("A contact for a caller without a number may have been created: there is no number to look it up by.")
        return _create(work, claim, Draft(None, UNKNOWN_NAME, work.settings.lead_source, work.settings.lead_tags))
    hits = _hits(work, claim, caller.e164)
    found = next(hits, None)
    if found is not None:
        second = _second(hits, found)
        work.claims.resolve(claim, found.id)
        return _Settled(found, "found", second)
    location = work.crm.location()
    _settle(work, claim, location)
    return _create(work, claim, _draft(work, claim, caller), upsert=location.allows_duplicates)


def _hits(work: Work, claim: Claim, phone: str) -> Iterator[Contact]:
    """The caller's contacts, each asked for when it is wanted: by every spelling of the line; where none has shown, and a create is open,
    also by the search index, as a second opinion.
    """
    is_shown = False
    for spelling in numbers.spellings(phone):
        contact = work.crm.find_contact(spelling)
        if contact is not None and _has_line(contact, phone):
            is_shown = True
            yield contact
    if not is_shown and claim.intent_age_s is not None:
        yield from (contact for contact in work.crm.search_contacts(phone) if _has_line(contact, phone))


def _second(hits: Iterator[Contact], found: Contact) -> Contact | None:
    """Another contact of the same line: both stay as they are, and a person is told. A look that fails holds up no lead.

    Costs a request only where a line has further spellings (Mexico, Brazil, Argentina), once per caller.
    """
    try:
        return next((hit for hit in hits if hit.id != found.id), None)
    except StepFailed:
        return None


def _has_line(contact: Contact, phone: str) -> bool:
    """Whether a hit really is this caller: a CRM's search may also return similar numbers. One that shows no number was matched by it."""
    shown = [text for text in (contact.phone, *contact.additional_phones) if text]
    return not shown or any(numbers.same_line(text, phone, region=None) for text in shown)


def _settle(work: Work, claim: Claim, location: Location) -> None:
    """Nothing was found. Returns when a create is allowed; raises NotYet while it is too early, Ask where a person decides."""
    age = claim.intent_age_s
    if age is None and work.entry.suspect_since is not None and location.allows_duplicates:
        # The ledger is younger than this call: an earlier one may have created the contact just before it was lost.
        age = work.now - work.entry.suspect_since
    if age is None:
        return
    look_again_later("create", age, work.settings.settle_schedule_s)
    _stop_where_refused_again(work)
    asks = location.allows_duplicates and work.settings.uncertain_create is UncertainCreate.ASK
    if asks and claim.intent_age_s is not None and not _is_answered(work, claim.intent_age_s):
        raise _ask("A contact may have been created for this caller, and the location allows duplicates.")


def _stop_where_refused_again(work: Work) -> None:
    """Raise Permanent where two creates were refused and looking showed no contact: a third would be refused as well.

    Such a refusal may have had its effect all the same, so it is no verdict by itself. The second create held the number alone.
    """
    refusals = [attempt for attempt in since_parked(work.entry) if attempt.cause in MAY_HAVE_CREATED]
    if len(refusals) >= REFUSALS_ALLOWED:
        last = refusals[-1]
        cause = Cause(last.cause or "")
        said = last.message or ""  # it quotes the CRM
        raise Permanent("Two creates were refused, and no contact shows", cause=cause, hint=HINTS[cause], trace_id=last.trace_id, said=said)


def since_parked(entry: Entry) -> list[Attempt]:
    """The attempts since a person last put the call back."""
    return list(takewhile(lambda attempt: attempt.outcome != "parked", reversed(entry.attempts)))[::-1]


def _is_answered(work: Work, intent_age_s: float) -> bool:
    """Whether a person has looked since that create and put the call back. Without this every replay would ask the same again."""
    answered_at = work.entry.answered_at
    return answered_at is not None and work.now - intent_age_s < answered_at


def _draft(work: Work, claim: Claim, caller: Caller) -> Draft:
    """What the call really tells. After a lost create only the number: a field may have been what the CRM refused (422).

    A create that is known to have changed nothing (429, no connection) is sent again whole.
    """
    if claim.intent_age_s is not None:
        return Draft(caller.e164)
    return Draft(caller.e164, _name(work.entry.facts.caller_name), work.settings.lead_source, work.settings.lead_tags)


def _name(told: str | None) -> str | None:
    """What the network calls the caller, made inert: it is foreign text, and pages, templates and exported tables will read it."""
    return inert(told or "").lstrip("=+-@ ") or None


def _create(work: Work, claim: Claim, draft: Draft, *, upsert: bool = False) -> _Settled:
    """Announce, send, write down. With `upsert` the CRM still matches an existing contact in a location that allows duplicates."""
    announced = work.claims.announce(claim, timeout_s=work.settings.request_timeout_s)
    work.hold(announced)
    try:
        contact = work.crm.upsert_contact(draft.phone) if upsert and draft.phone else work.crm.create_contact(draft)
    except Uncertain:
        work.claims.lost(announced)
        raise
    except StepFailed:
        work.claims.withdraw(announced)
        raise
    work.claims.resolve(announced, contact.id)
    return _Settled(contact, "created" if contact.created else "adopted")


def _adopt(work: Work, contact: Contact, *, how: str, second: Contact | None = None) -> None:
    told = [line(work.now, "lead", contact_id=contact.id, how=how, trace_id=contact.trace_id)]
    result = {"how": how}
    if second is not None:
        told.append(line(work.now, "second contact", contact_id=second.id, trace_id=second.trace_id))
        result[SECOND] = second.id
    tagged = are_there(contact, work.settings.lead_tags)

    def change(entry: Entry, now: float) -> Entry:
        adopted = moves.adopt(entry, contact.id, created=contact.created)
        done = moves.record(adopted, NAME, now, version=work.entry.version, result=result)
        return moves.record(done, "tag_lead", now, version=work.entry.version) if tagged else done

    work.update(change, *told)


def _ask(message: str) -> Ask:
    return Ask(
        message,
        cause="settle.ask",
        hint="Look in GoHighLevel for the caller's contact. Adopt it where there is one, else replay the call.",
    )


STEP = Step(NAME, need, run)

"""What a replay of a call would do, judged before anything is sent: is its cause gone, what was done already, does it still matter?

Facts come from the ledger and, read only, from the CRM; the judgement is pure. Whoever replays in spite of a warning types a reason, which
is kept in the trail (bridge/console/actions.py carries it out).
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol

from bridge import numbers
from bridge.call import carries
from bridge.crm.base import Contact, Note
from bridge.crm.causes import Cause
from bridge.errors import Gone, NotYet, Permanent, StepFailed
from bridge.ledger import by_hand
from bridge.ledger.entry import Entry, Plan, State
from bridge.watch.masking import mask

FRESH_S = 3 * 86_400.0  # after that, a lead that is made now is rung back about a call that its caller has long forgotten
# Tags, as people spell them; case, hyphens and underscores do not count.
OPTED_OUT = frozenset(
    {
        "dnd",
        "dnc",
        "do not disturb",
        "do not contact",
        "do not call",
        "opt out",
        "optout",
        "opted out",
        "unsubscribe",
        "unsubscribed",
        "stop",
    }
)
# Causes that a look would meet again. A scope that is missing, or a body that is refused, shows only when something is written.
_SEEN_BY_A_LOOK = frozenset(
    {Cause.CONNECT, Cause.TIMEOUT, Cause.RESET, Cause.SERVER, Cause.NOT_NOW, Cause.RATE_LIMIT, Cause.DAILY_LIMIT, Cause.BUDGET}
    | {Cause.TOKEN, Cause.VERSION, Cause.REDIRECT, Cause.UNREADABLE}
)


# What GoHighLevel may show against a replay: the check's name → the cause under which a call comes back that nobody has answered for.
WORDS = {"opted out": "replay.opted_out", "gone": "replay.gone", "changed": "replay.changed"}
OF_NEW = ("gone", "changed")  # a contact that was made just now may look like that


class Reads(Protocol):
    """What is asked of a Crm here; a page asks it with an end (bridge/console/glance.py), a worker without."""

    def location(self) -> object: ...

    def find_contact(self, phone: str) -> Contact | None: ...

    def list_notes(self, contact_id: str) -> tuple[Note, ...]: ...


class Level(StrEnum):
    WELL = "well"
    UNKNOWN = "unknown"  # it could not be asked; why that is no danger, or that a reason is needed, is said beside it
    WARNING = "warning"  # replaying in spite of it needs a typed reason
    STOP = "stop"  # there is nothing to replay


@dataclass(frozen=True, slots=True)
class Check:
    """One question that was asked, and its answer in a sentence. `name` is a stable word."""

    name: str
    level: Level
    say: str


@dataclass(frozen=True, slots=True)
class InCrm:
    """What the CRM shows of a call now. `failure` set: it refused or, with `is_silent`, gave no answer; what was not shown is unknown."""

    failure: str | None = None
    is_silent: bool = False
    unasked: tuple[str, ...] = ()  # what is not known for that reason, in a person's words
    found_id: str | None = None  # the contact that the caller's number leads to
    tags: tuple[str, ...] = ()
    is_opted_out: bool = False  # "do not disturb" is set on the contact
    notes: int | None = None  # that carry this call's key; None: there is no contact to look at
    is_gone: bool = False  # the contact that the ledger remembers

    @property
    def says_of_cause(self) -> str | None:
        """What a failure means for the cause: a refusal is an answer, silence is none."""
        means = (
            "Whether the cause has gone could not be asked" if self.is_silent else "The cause still stands. GoHighLevel was asked just now"
        )
        return f"{means}: {self.failure}" if self.failure else None


@dataclass(frozen=True, slots=True)
class Preview:
    """A replay, before it is one. `seen` is the mark of the entry that was judged: another one needs another look."""

    entry: Entry
    seen: str
    checks: tuple[Check, ...]
    will_do: tuple[str, ...]  # steps that would run, in order
    from_step: str | None = None

    @property
    def is_possible(self) -> bool:
        return all(check.level is not Level.STOP for check in self.checks)

    @property
    def needs_reason(self) -> bool:
        return bool(self.doubts)

    @property
    def doubts(self) -> tuple[str, ...]:
        """Names of the checks that ask for a reason; one that is given answers for these and no others."""
        return tuple(check.name for check in self.checks if check.level is Level.WARNING)


def look(crm: Reads, entry: Entry) -> InCrm:
    """Ask the CRM all that a page shows of a call. Never raises StepFailed: what was shown before something failed stands."""
    known = None
    try:
        known = _whose(crm, entry)
        return _with_notes(crm, entry, known, entry.contact_id or known.found_id)
    except StepFailed as error:
        return failed(error, known)


def look_at_many(crm: Reads, entries: Iterable[Entry], *, limit: int, within_s: float) -> dict[str, InCrm]:
    """Call key → what the CRM shows, for as many calls as `limit` contacts and `within_s` seconds allow; each contact is asked for once.

    The first look that fails is the last: what follows would fail as well, or has to wait. None at all where the budget is spent for the
    moment. Never raises StepFailed.
    """
    until = time.monotonic() + within_s
    shown: dict[tuple[str | None, str | None], InCrm] = {}
    told: dict[str, InCrm] = {}
    for entry in entries:
        whose = _phone(entry), entry.contact_id
        if whose not in shown:
            if len(shown) >= limit or (shown and time.monotonic() >= until):
                continue
            try:
                shown[whose] = replace(ask(crm, entry), notes=None)  # they are this one call's
            except StepFailed as error:
                is_busy = isinstance(error, NotYet) and error.cause == Cause.BUDGET  # nothing was asked, so nothing speaks against it
                return told if told or is_busy else {entry.call_key: failed(error)}
        told[entry.call_key] = shown[whose]
    return told


def ask(crm: Reads, entry: Entry) -> InCrm:
    """What the CRM shows of a call: one read, one more where its contact is known. Raises StepFailed."""
    return _with_notes(crm, entry, _whose(crm, entry), entry.contact_id)


def _whose(crm: Reads, entry: Entry) -> InCrm:
    phone = _phone(entry)
    if phone is None and entry.contact_id is None:
        crm.location()  # nobody to ask about: at least whether it answers
    found = _find(crm, phone) if phone else None
    return InCrm(found_id=found.id, tags=found.tags or (), is_opted_out=found.dnd is True) if found else InCrm()


def _with_notes(crm: Reads, entry: Entry, known: InCrm, contact_id: str | None) -> InCrm:
    if contact_id is None:
        return known
    try:
        notes = sum(carries(note.body, entry.call_key) for note in crm.list_notes(contact_id))
    except Gone:
        return replace(known, is_gone=True)
    return replace(known, notes=notes)


_OF_NOTES = "what the contact carries of this call already"
_OF_CONTACT = ("which contact the caller has", "whether it wants to be contacted", _OF_NOTES)


def failed(error: StepFailed, known: InCrm | None = None) -> InCrm:
    """What a look comes to that failed; `known` is what it had been shown until then."""
    said = mask(str(error))
    told = f"{said.rstrip('.')}. {error.hint}" if error.hint else said
    unasked = (_OF_NOTES,) if known else _OF_CONTACT
    return replace(known or InCrm(), failure=told, is_silent=not isinstance(error, Permanent), unasked=unasked)


def _phone(entry: Entry) -> str | None:
    return entry.facts.caller.e164 if entry.facts.caller else None


def _find(crm: Reads, phone: str) -> Contact | None:
    """The caller's contact, by every spelling of the line, as the step will look for it."""
    for spelling in numbers.spellings(phone):
        found = crm.find_contact(spelling)
        shown = [text for text in (found.phone, *found.additional_phones) if text] if found else []
        if found and (not shown or any(numbers.same_line(text, phone, region=None) for text in shown)):
            return found
    return None


def judge(
    entry: Entry,
    fresh: Entry,
    plan: Plan,
    now: float,
    *,
    crm: InCrm | None,
    later: Entry | None,
    from_step: str | None = None,
    order: Sequence[str] = (),
    fresh_s: float = FRESH_S,
) -> Preview:
    """The preview of a replay that makes `fresh` of `entry`, for which `plan` is what would be left to do.

    `crm` None: it was not asked (in bulk it is asked about a few). `later` is a call of the same caller that began after this one and has
    its lead. `order` names all steps. A call older than `fresh_s` seconds needs a reason.
    """
    checks = tuple(_checks(entry, plan, now, crm=crm, later=later, from_step=from_step, fresh_s=fresh_s))
    left = tuple(name for name in order if name not in fresh.steps or name in plan.ready)
    return Preview(entry, by_hand.mark(entry), checks, left if plan.ready else (), from_step)


def _checks(
    entry: Entry, plan: Plan, now: float, *, crm: InCrm | None, later: Entry | None, from_step: str | None, fresh_s: float
) -> Iterator[Check]:
    if entry.state in (State.ACCEPTED, State.RUNNING):
        yield Check("state", Level.STOP, "It is under way already: there is nothing to replay.")
        return
    if crm is not None:
        yield _cause(entry, crm)
    if crm is not None and crm.unasked and (_phone(entry) or entry.contact_id):
        yield _unasked(crm)
    yield from _done(entry, plan, crm, from_step=from_step)
    yield from (
        _NOT_MADE_AGAIN if check.name == "gone" and not plan.ready else check for check in _relevance(entry, now, crm, later, fresh_s)
    )


def _cause(entry: Entry, crm: InCrm) -> Check:
    if crm.says_of_cause:
        return Check("cause", Level.WARNING, f"{crm.says_of_cause.rstrip('.')}.")
    if entry.trouble is not None and entry.trouble.word not in {*_SEEN_BY_A_LOOK, *WORDS.values()}:
        say = (
            "GoHighLevel answers, and accepts the token to read. Whether the cause itself is mended, a look cannot show: you have to know."
        )
        return Check("cause", Level.WELL, say)
    return Check("cause", Level.WELL, "GoHighLevel answers, and accepts the token for this location.")


def _unasked(crm: InCrm) -> Check:
    what = ", ".join(crm.unasked)
    say = f"Could not be asked: {what}. The replay asks again before it sends anything, and sends nothing while there is no answer."
    return Check("unasked", Level.UNKNOWN, say)


def _done(entry: Entry, plan: Plan, crm: InCrm | None, *, from_step: str | None) -> Iterator[Check]:
    told = ", ".join(name.replace("_", " ") for name in entry.steps)
    yield Check(
        "done",
        Level.WELL,
        f"Done already, as the ledger knows: {told}." if told else "Nothing of it is in GoHighLevel, as far as the ledger knows.",
    )
    if not plan.ready and plan.wait_until is None:
        why = plan.reason or "everything that is known has been brought already"
        yield Check("satisfied", Level.WARNING, f"Nothing is left to do: {why}.")
    elif entry.state is State.DONE:
        yield Check("satisfied", Level.WARNING, "The call is done. What is done again is looked for first, so that nothing is doubled.")
    if from_step and from_step in entry.steps:
        yield Check("again", Level.WARNING, "A step that has been done would be done again, from its record in the ledger on.")
    if crm is not None and crm.notes:
        times = "the note of this call" if crm.notes == 1 else f"{crm.notes} notes of this call"
        yield Check("note", Level.WELL, f"The contact carries {times} already; it is brought up to date, not written twice.")
    if crm is not None and (crm.found_id or not crm.failure) and entry.contact_id is None and plan.ready:
        yield Check("contact", Level.WELL, _CONTACT[crm.found_id is not None, _phone(entry) is not None])
    if entry.intents:
        yield Check(
            "open", Level.WELL, "A write was announced whose outcome is not known; the replay looks for it before it sends anything."
        )


# Whether the caller's contact was found, and whether there is a number to search for.
_CONTACT = {
    (True, True): "The caller has a contact in GoHighLevel; it is used, and none is created.",
    (False, True): "GoHighLevel shows no contact for this caller. It is searched for again; if nothing is found, one is created.",
    (False, False): "The caller sent no number, so there is nobody to search for: the call gets the contact that the settings say.",
}


def began_at(entry: Entry) -> float:
    """When somebody rang, by the phone system's word; where it gave none, when the call came in. A call from a list is older than that."""
    started = entry.facts.started_at
    return min(started.timestamp(), entry.accepted_at) if started else entry.accepted_at


def _relevance(entry: Entry, now: float, crm: InCrm | None, later: Entry | None, fresh_s: float) -> Iterator[Check]:
    age_s = now - began_at(entry)
    if age_s > fresh_s:
        yield Check("age", Level.WARNING, f"The call is {age_s / 86_400:.0f} days old, {fresh_s / 86_400:.0f} are the limit.")
    else:
        yield Check("age", Level.WELL, f"The call is recent: younger than {fresh_s / 86_400:.0f} days.")
    if later is not None:
        yield Check("later", Level.WARNING, f"A later call of the same caller has been brought already: {later.call_key}.")
    shown = tuple(doubts(entry, crm)) if crm is not None else ()
    yield from shown
    if crm is None or crm.failure:
        yield from (check for check in _came_back(entry) if check.name not in {one.name for one in shown})


def doubts(entry: Entry, crm: InCrm) -> Iterator[Check]:
    """What the CRM shows against a replay. Their names are those of WORDS."""
    if crm.is_gone:
        then = (
            "The caller's number leads to another one now, which is used."
            if crm.found_id
            else "The caller is searched for anew; if nothing is found, a new contact is created."
        )
        yield Check("gone", Level.WARNING, f"Its contact has been deleted or merged since. {then}")
    elif crm.found_id and entry.contact_id and crm.found_id != entry.contact_id:
        yield Check("changed", Level.WARNING, "The caller's number leads to another contact now than the one that this call has.")
    opted_out = sorted({tag for tag in crm.tags if " ".join(re.split(r"[\W_]+", tag.casefold())).strip() in OPTED_OUT})
    if crm.is_opted_out:
        yield Check("opted out", Level.WARNING, "The contact does not want to be contacted (do not disturb is set).")
    elif opted_out:
        yield Check("opted out", Level.WARNING, f"The contact does not want to be contacted (tag: {', '.join(opted_out)}).")


# Of a call for which everything is done: nothing of it runs that could miss the contact.
_NOT_MADE_AGAIN = Check(
    "gone",
    Level.WARNING,
    "Its contact has been deleted or merged since. This replay does not make it again; one from its first step does.",
)


def _came_back(entry: Entry) -> Iterator[Check]:
    """Where the CRM is not asked, what stopped the last replay still stands."""
    if entry.trouble is not None:
        yield from (Check(name, Level.WARNING, entry.trouble.message) for name, word in WORDS.items() if word == entry.trouble.word)

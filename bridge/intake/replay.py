"""What a replay of a call would do, judged before anything is sent: is its cause gone, what was done already, does it still matter?

Facts come from the ledger and, read only, from the CRM; the judgement is pure. Whoever replays in spite of a warning types a reason, which
is kept in the trail (bridge/console/actions.py carries it out).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from bridge.crm.base import Crm
from bridge.errors import Gone, StepFailed
from bridge.ledger import by_hand
from bridge.ledger.entry import Entry, Plan, State
from bridge.watch.masking import mask

FRESH_S = 3 * 86_400.0  # after that, a lead that is made now is rung back about a call that its caller has long forgotten
OPTED_OUT = frozenset(
    {"dnd", "do not contact", "do not call", "opt out", "opted out", "unsubscribed", "stop"}
)  # tags, as people spell them


class Level(StrEnum):
    WELL = "well"
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
    """What the CRM shows of a call now. `failure` set: it could not be asked, and the rest is unknown."""

    failure: str | None = None
    found_id: str | None = None  # the contact that the caller's number leads to
    tags: tuple[str, ...] = ()
    is_opted_out: bool = False  # "do not disturb" is set on the contact
    notes: int | None = None  # that carry this call's key; None: there is no contact to look at
    is_gone: bool = False  # the contact that the ledger remembers


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
        return any(check.level is Level.WARNING for check in self.checks)


def look(crm: Crm, entry: Entry) -> InCrm:
    """Ask the CRM: two reads at most. Never raises StepFailed; what fails is the answer to whether the cause has gone."""
    phone = entry.facts.caller.e164 if entry.facts.caller else None
    try:
        found = crm.find_contact(phone) if phone else None
        if phone is None and entry.contact_id is None:
            crm.location()
    except StepFailed as error:
        return InCrm(failure=f"{mask(str(error))} {error.hint}".strip())
    contact_id = entry.contact_id or (found.id if found else None)
    known = InCrm(found_id=found.id, tags=found.tags or (), is_opted_out=found.dnd is True) if found else InCrm()
    if contact_id is None:
        return known
    try:
        notes = sum(carries(note.body, entry.call_key) for note in crm.list_notes(contact_id))
    except Gone:
        return replace(known, is_gone=True)
    except StepFailed as error:
        return InCrm(failure=f"{mask(str(error))} {error.hint}".strip())
    return replace(known, notes=notes)


def carries(body: str, call_key: str) -> bool:
    """Whether a note belongs to this call: it holds exactly this key."""
    return re.search(rf"(?<![A-Za-z0-9_-]){re.escape(call_key)}(?![A-Za-z0-9_-])", body) is not None


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

    `crm` None: it was not asked (in bulk it is asked once). `later` is the newest call of the same caller that has its lead, if it came
    after this one. `order` names all steps. A call older than `fresh_s` seconds needs a reason.
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
    yield from _done(entry, plan, crm, from_step=from_step)
    yield from _relevance(entry, now, crm, later, fresh_s)


def _cause(entry: Entry, crm: InCrm) -> Check:
    if crm.failure:
        return Check("cause", Level.WARNING, f"The cause still stands. GoHighLevel was asked just now: {crm.failure}")
    if entry.trouble is not None and not entry.trouble.word.startswith("crm."):
        return Check(
            "cause", Level.WELL, "GoHighLevel answers, and accepts the token. Whether the cause itself is mended, you have to know."
        )
    return Check("cause", Level.WELL, "GoHighLevel answers, and accepts the token for this location.")


def _done(entry: Entry, plan: Plan, crm: InCrm | None, *, from_step: str | None) -> Iterator[Check]:
    told = ", ".join(name.replace("_", " ") for name in entry.steps)
    yield Check(
        "done",
        Level.WELL,
        f"Done already, as the ledger knows: {told}." if told else "Nothing of it is in GoHighLevel, as far as the ledger knows.",
    )
    if not plan.ready and plan.wait_until is None:
        yield Check("satisfied", Level.WARNING, "Nothing is left to do: everything that is known has been brought already.")
    elif entry.state is State.DONE:
        yield Check("satisfied", Level.WARNING, "The call is done. What is done again is looked for first, so that nothing is doubled.")
    if from_step and from_step in entry.steps:
        yield Check("again", Level.WARNING, "A step that has been done would be done again, from its record in the ledger on.")
    if crm is not None and crm.notes:
        times = "the note of this call" if crm.notes == 1 else f"{crm.notes} notes of this call"
        yield Check("note", Level.WELL, f"The contact carries {times} already; it is brought up to date, not written twice.")
    if crm is not None and not crm.failure and entry.contact_id is None:
        has, has_not = (
            "The caller has a contact in GoHighLevel; it is used, and none is created.",
            "GoHighLevel shows no contact for this caller.",
        )
        yield Check("contact", Level.WELL, has if crm.found_id else has_not)
    if entry.intents:
        yield Check(
            "open", Level.WELL, "A write was announced whose outcome is not known; the replay looks for it before it sends anything."
        )


def _relevance(entry: Entry, now: float, crm: InCrm | None, later: Entry | None, fresh_s: float) -> Iterator[Check]:
    age_s = now - entry.accepted_at
    if age_s > fresh_s:
        yield Check("age", Level.WARNING, f"The call is {age_s / 86_400:.0f} days old, {fresh_s / 86_400:.0f} are the limit.")
    else:
        yield Check("age", Level.WELL, f"The call is recent: younger than {fresh_s / 86_400:.0f} days.")
    if later is not None:
        yield Check("later", Level.WARNING, f"A later call of the same caller has been brought already: {later.call_key}.")
    if crm is None:
        return
    if crm.is_gone:
        yield Check("gone", Level.WARNING, "Its contact has been deleted or merged since; the caller is looked up anew.")
    elif crm.found_id and entry.contact_id and crm.found_id != entry.contact_id:
        yield Check("changed", Level.WARNING, "The caller's number leads to another contact now than the one that this call has.")
    opted_out = sorted({tag for tag in crm.tags if tag.strip().casefold() in OPTED_OUT})
    if crm.is_opted_out:
        yield Check("opted out", Level.WARNING, "The contact does not want to be contacted (do not disturb is set).")
    elif opted_out:
        yield Check("opted out", Level.WARNING, f"The contact does not want to be contacted (tag: {', '.join(opted_out)}).")

"""Tags of a lead, added by a call of their own: an upsert with tags would replace what staff has set."""

from __future__ import annotations

from bridge.crm.base import Contact
from bridge.ledger.entry import Entry
from bridge.ledger.trail import line
from bridge.settings import Anonymous, Settings
from bridge.work.attempt import Work
from handlers.settle_call import patience_with_a_new_contact
from handlers.step import NOTHING, READY, Need, Step

NAME = "tag_lead"


def need(entry: Entry, _now: float, settings: Settings) -> Need:
    """Every call of a caller tags its lead, except on the contact that merely collects notes of callers without a number."""
    if entry.contact_id is None or NAME in entry.steps or not settings.lead_tags:
        return NOTHING
    collects_notes = settings.anonymous is Anonymous.NOTE_ONLY and entry.contact_id == settings.anonymous_contact_id
    return NOTHING if collects_notes else READY


def run(work: Work) -> None:
    """Adding a tag twice changes nothing, so a lost answer is simply sent again."""
    if work.entry.contact_id is None:
        return
    with patience_with_a_new_contact(work):
        work.crm.add_tags(work.entry.contact_id, work.settings.lead_tags)
    work.record(NAME, line(work.now, "tagged"))


def are_there(contact: Contact, tags: tuple[str, ...]) -> bool:
    """Whether the CRM has shown that a contact has all of `tags`. It compares and stores them without regard to case."""
    shown = {tag.casefold() for tag in contact.tags or ()}
    return bool(tags) and all(tag.casefold() in shown for tag in tags)


STEP = Step(NAME, need, run)

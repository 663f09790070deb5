"""One note per call on the lead, carrying the call key. Later facts, such as a recording, update the same note."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from bridge.call import Call
from bridge.crm.base import Note
from bridge.crm.causes import Cause
from bridge.errors import Gone, Permanent
from bridge.ledger.entry import Entry
from bridge.ledger.trail import line
from bridge.settings import Settings
from bridge.work.attempt import Work
from handlers import note_text
from handlers.settle_call import look_again_later, patience_with_a_new_contact
from handlers.step import NOTHING, READY, Need, Step

NAME = "note_call"
SHORT_CHARS = 1000
REFUSED_FOR_ITS_TEXT = frozenset({Cause.INVALID, Cause.BAD_REQUEST, Cause.UNPROCESSABLE, Cause.STATUS})  # 413 among the last


def need(entry: Entry, now: float, settings: Settings) -> Need:
    """The note is written when the call is over, or when nothing has been heard of it for NOTE_WAIT_S."""
    if entry.contact_id is None or _written(entry).get("digest") == digest(entry.facts):
        return NOTHING
    quiet_at = entry.last_event_at + settings.note_wait_s
    if entry.facts.is_over or now >= quiet_at:
        return READY
    return Need(wait_until=quiet_at, waiting_for="the call is still going on; its note is written when it is over")


def run(work: Work) -> None:
    contact_id = work.entry.contact_id
    if contact_id is None:
        return
    facts = work.entry.facts
    zone = work.crm.location().timezone
    body = note_text.render(facts, zone=zone, limit=work.settings.note_max_chars)
    try:
        with patience_with_a_new_contact(work):
            _bring(work, contact_id, body)
    except Permanent as refused:
        short = note_text.render(facts, zone=zone, limit=SHORT_CHARS)
        if refused.cause not in REFUSED_FOR_ITS_TEXT or len(short) >= len(body):
            raise
        # The CRM's limit is documented nowhere: no note shall be lost for its length.
        _bring(work, contact_id, short)


def _bring(work: Work, contact_id: str, body: str) -> None:
    """Bring this call's note in line with `body`: the one that is there, else a new one."""
    facts = work.entry.facts
    earlier = _earlier_note(work, contact_id)
    if earlier is not None and _update(work, contact_id, earlier, body):
        _record(work, earlier, facts, "note updated")
    else:
        note = work.send(NAME, lambda: work.crm.add_note(contact_id, body))
        _record(work, Earlier(note.id), facts, "note written")


@dataclass(frozen=True, slots=True)
class Earlier:
    """This call's note as it stands in the CRM."""

    id: str
    body: str | None = None  # None: this ledger wrote it and knows all that it says, so it may be replaced
    foreign: bool = False  # written before this ledger began: it may say more than the ledger knows, so it is only added to


def _earlier_note(work: Work, contact_id: str) -> Earlier | None:
    """This call's note, if there is one: as the ledger remembers it, or, where its memory may have a gap, as the CRM shows it."""
    written = _written(work.entry)
    foreign = "foreign" in written
    if "note_id" in written and not foreign:
        return Earlier(written["note_id"])
    announced_at = work.entry.intents.get(NAME)
    forgotten = work.entry.suspect_since is not None and not work.entry.contact_created
    if announced_at is None and not forgotten and not foreign and not work.entry.notes_unknown:
        return None
    note = _listed(work, contact_id)
    if note is not None:
        return Earlier(note.id, note.body, foreign=foreign or (forgotten and announced_at is None))
    if announced_at is not None:
        look_again_later("note", work.now - announced_at - work.settings.request_timeout_s, work.settings.settle_schedule_s)
    return None


def _update(work: Work, contact_id: str, earlier: Earlier, body: str) -> bool:
    """Bring a note up to date. False where it is gone; if its whole contact is, writing a new one will tell."""
    wanted = note_text.extend(earlier.body or "", body) if earlier.foreign else body
    if wanted == earlier.body:
        return True
    try:
        work.crm.update_note(contact_id, earlier.id, wanted)
    except Gone:
        return False
    return True


def _listed(work: Work, contact_id: str) -> Note | None:
    return next((note for note in work.crm.list_notes(contact_id) if note_text.carries(note.body, work.entry.call_key)), None)


def _record(work: Work, note: Earlier, facts: Call, told: str) -> None:
    result = {"note_id": note.id, "digest": digest(facts)} | ({"foreign": "yes"} if note.foreign else {})
    work.record(NAME, line(work.now, told, note_id=note.id), **result)


def _written(entry: Entry) -> dict[str, str]:
    done = entry.steps.get(NAME)
    return done.result if done else {}


def digest(facts: Call) -> str:
    """What a note says, in short: the note is written again when this changes."""
    return hashlib.sha256(note_text.render(facts, zone=None, limit=None).encode()).hexdigest()[:16]


STEP = Step(NAME, need, run)

"""One note per call on the lead, carrying the call key. Later facts, such as a recording, update the same note."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import partial

from bridge.call import Call, carries
from bridge.crm.base import Note
from bridge.crm.causes import Cause
from bridge.errors import Gone, Permanent
from bridge.ledger.entry import Entry
from bridge.ledger.trail import line
from bridge.settings import Settings
from bridge.work.attempt import Work
from handlers import note_text
from handlers.settle_call import FIND, SECOND, look_again_later, patience_with_a_new_contact
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
    found = work.entry.steps.get(FIND)
    say = partial(note_text.render, facts, zone=zone, second=found.result.get(SECOND) if found else None)
    body = say(limit=work.settings.note_max_chars)
    with patience_with_a_new_contact(work):
        earlier = _earlier_note(work, contact_id, body)
        try:
            _bring(work, contact_id, earlier, facts, body)
        except Permanent as refused:
            short = say(limit=SHORT_CHARS)
            if refused.cause not in REFUSED_FOR_ITS_TEXT or len(short) >= len(body):
                raise
            # The CRM's limit is documented nowhere: no note shall be lost for its length.
            _bring(work, contact_id, earlier, facts, short)


@dataclass(frozen=True, slots=True)
class Earlier:
    """This call's note as it stands in the CRM."""

    id: str
    body: str | None = None  # None: the CRM does not show it
    foreign: bool = False  # it says more than the ledger knows, of another hand or from before this ledger: it is only added to


def _bring(work: Work, contact_id: str, earlier: Earlier | None, facts: Call, body: str) -> None:
    """Bring this call's note in line with `body`: the one that is there, else a new one."""
    wanted = note_text.extend(earlier.body or "", body) if earlier is not None and earlier.foreign else body
    if earlier is not None and _update(work, contact_id, earlier, wanted):
        _record(work, earlier, facts, wanted, "note updated")
    else:
        note = work.send(NAME, lambda: work.crm.add_note(contact_id, body), words=note_text.words_digest(body))
        _record(work, Earlier(note.id), facts, body, "note written")


def _earlier_note(work: Work, contact_id: str, body: str) -> Earlier | None:
    """This call's note, if there is one: the one that the ledger remembers, or, where its memory may have a gap, one that carries the key.

    `body` is what it shall say now: a text that holds more than that, and is not ours as we sent it, is not to be replaced.
    """
    written = _written(work.entry)
    announced_at = work.entry.intents.get(NAME)
    if "note_id" in written and announced_at is None:
        return _remembered(work, contact_id, written, body)
    forgotten = work.entry.suspect_since is not None and not work.entry.contact_created
    if announced_at is None and not forgotten and not work.entry.notes_unknown:
        return None
    note = _listed(work, contact_id)
    if note is not None:
        # An entry announced before 2.0.0 has no digest of the words.
        is_as_sent = announced_at is not None and work.entry.announced.get(NAME) == note_text.words_digest(note.body)
        is_ours = is_as_sent or (not forgotten and note_text.holds_all(body, note.body))
        return Earlier(note.id, note.body, foreign="foreign" in written or not is_ours)
    if announced_at is not None:
        look_again_later("note", work.now - announced_at - work.settings.request_timeout_s, work.settings.settle_schedule_s)
    return None


def _remembered(work: Work, contact_id: str, written: dict[str, str], body: str) -> Earlier | None:
    """The note that this ledger wrote, as it stands there now: somebody may have written into it since."""
    note_id, foreign = written["note_id"], "foreign" in written
    try:
        note = work.crm.get_note(contact_id, note_id)
    except Gone:
        # Seconds after it was written a read may not show it yet. Whether one of ours is gone, its update tells.
        return None if foreign else Earlier(note_id)
    # An entry written before 2.0.0 has no digest of the words: such a note is replaced where that loses no line.
    is_ours = written.get("words") == note_text.words_digest(note.body) or note_text.holds_all(body, note.body)
    return Earlier(note_id, note.body, foreign=foreign or not is_ours)


def _update(work: Work, contact_id: str, earlier: Earlier, wanted: str) -> bool:
    """Bring a note up to date. False where it is gone; if its whole contact is, writing a new one will tell."""
    if wanted == earlier.body:
        return True
    try:
        work.crm.update_note(contact_id, earlier.id, wanted)
    except Gone:
        return False
    return True


def _listed(work: Work, contact_id: str) -> Note | None:
    return next((note for note in work.crm.list_notes(contact_id) if carries(note.body, work.entry.call_key)), None)


def _record(work: Work, note: Earlier, facts: Call, sent: str, told: str) -> None:
    """A foreign note stays one: its text as a whole is never ours to replace, even where it is what we sent last."""
    known = {"foreign": "yes"} if note.foreign else {"words": note_text.words_digest(sent)}
    work.record(NAME, line(work.now, told, note_id=note.id), note_id=note.id, digest=digest(facts), **known)


def _written(entry: Entry) -> dict[str, str]:
    done = entry.steps.get(NAME)
    return done.result if done else {}


def digest(facts: Call) -> str:
    """What a note says, in short: the note is written again when this changes."""
    return hashlib.sha256(note_text.render(facts, zone=None, limit=None).encode()).hexdigest()[:16]


STEP = Step(NAME, need, run)

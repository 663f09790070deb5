"""The note endpoints (highlevel-api-docs, apps/contacts.json). Notes know no idempotency: the same body twice makes two."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bridge.sandbox.ghl import fields
from bridge.sandbox.ghl.asked import Asked, note_document
from bridge.sandbox.ghl.book import StoredNote
from bridge.sandbox.ghl.replies import Reply, answer, note_not_found, unprocessable


def list_notes(asked: Asked) -> Reply:
    """All notes at once: the endpoint has no paging."""
    contact = asked.contact()
    return answer(200, notes=[note_document(note) for note in asked.book.notes(contact.id)], contact_id=contact.id)


def create_note(asked: Asked) -> Reply:
    _check(asked, fields.NOTE)
    contact = asked.contact()
    note = asked.book.add_note(contact.id, asked.body["body"], _more(asked))
    return answer(201, note=note_document(note), effect=True, contact_id=contact.id)


def get_note(asked: Asked) -> Reply:
    return answer(200, note=note_document(_note(asked)), contact_id=asked.params["contact_id"])


def update_note(asked: Asked) -> Reply:
    _check(asked, fields.NOTE_UPDATE)
    note = _note(asked)
    changed = replace(note, body=asked.body.get("body", note.body), fields={**note.fields, **_more(asked)})
    asked.book.keep_note(changed)
    return answer(200, note=note_document(changed), effect=changed != note, contact_id=note.contact_id)


def delete_note(asked: Asked) -> Reply:
    note = _note(asked)
    asked.book.keep_note(replace(note, deleted=True))
    return answer(200, **asked.done(), effect=True, contact_id=note.contact_id)


def _note(asked: Asked) -> StoredNote:
    note = asked.book.note(asked.contact().id, asked.params["note_id"])
    if note is None:
        raise note_not_found(asked.params["note_id"])
    return note


def _check(asked: Asked, shape: fields.Body) -> None:
    fields.check(asked.body, shape)
    if len(asked.body.get("body", "")) > asked.world.note_max_chars:
        raise unprocessable([f"body must be shorter than or equal to {asked.world.note_max_chars} characters"])


def _more(asked: Asked) -> dict[str, Any]:
    return {name: value for name, value in asked.body.items() if name != "body"}

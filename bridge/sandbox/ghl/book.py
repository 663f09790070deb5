"""The contacts and notes of the stand-in: kept in memory, nothing ever forgotten, so that a proof can count what was merged or deleted."""

from __future__ import annotations

import secrets
import string
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

_ALPHABET = string.ascii_letters + string.digits


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredContact:
    """A contact at one moment. `fields` are named as in the API; `born` and `gone` are on the book's own clock, for the index lag."""

    id: str
    fields: Mapping[str, Any]
    tags: tuple[str, ...] = ()
    additional_phones: tuple[str, ...] = ()
    added_at: datetime
    updated_at: datetime
    born: float
    gone: float | None = None
    merged_into: str | None = None

    @property
    def alive(self) -> bool:
        return self.gone is None

    @property
    def phone(self) -> str | None:
        return self.fields.get("phone") or None

    @property
    def email(self) -> str | None:
        return self.fields.get("email") or None

    @property
    def name(self) -> str:
        given = " ".join(str(self.fields[part]) for part in ("firstName", "lastName") if self.fields.get(part))
        return str(self.fields.get("name") or given)

    def shown_at(self, moment: float) -> bool:
        """Whether it was there at `moment`: an index that lags by N seconds shows the state of N seconds ago."""
        return self.born <= moment and (self.gone is None or self.gone > moment)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredNote:
    id: str
    contact_id: str
    body: str
    added_at: datetime
    fields: Mapping[str, Any] = field(default_factory=dict)
    deleted: bool = False


class ContactBook:
    """All contacts and notes. Every method is atomic; hold `lock` to make several of them one act. `revision` grows with each change."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.lock = threading.RLock()
        self.revision = 0
        self._clock = clock
        self._contacts: dict[str, StoredContact] = {}
        self._notes: dict[str, StoredNote] = {}
        self._notes_of: dict[str, list[str]] = {}
        self._index: dict[tuple[str, str], list[str]] = {}

    def add(self, fields: Mapping[str, Any], *, tags: tuple[str, ...] = (), additional_phones: tuple[str, ...] = ()) -> StoredContact:
        now = _now()
        contact = StoredContact(
            id=_new_id(),
            fields=dict(fields),
            tags=lowered(tags),
            additional_phones=additional_phones,
            added_at=now,
            updated_at=now,
            born=self._clock(),
        )
        return self._keep(contact)

    def get(self, contact_id: str) -> StoredContact | None:
        """The living contact of this id."""
        contact = self._contacts.get(contact_id)
        return contact if contact is not None and contact.alive else None

    def change(self, contact_id: str, fields: Mapping[str, Any], *, tags: tuple[str, ...] | None = None) -> StoredContact:
        """Overwrite what is given and nothing else. Raises KeyError for a contact that was never there."""
        with self.lock:
            known = self._contacts[contact_id]
            kept_tags = known.tags if tags is None else lowered(tags)
            return self._keep(replace(known, fields={**known.fields, **fields}, tags=kept_tags, updated_at=_now()))

    def retire(self, contact_id: str) -> StoredContact:
        """Delete a contact. Raises KeyError where none of this id lives."""
        with self.lock:
            return self._keep(replace(self._living(contact_id), gone=self._clock()))

    def merge(self, contact_id: str, into: str) -> StoredContact:
        """Merge a contact into another, which takes over its tags, its notes and, as additional ones, its phones; return that other.

        Raises KeyError where one of the two does not live.
        """
        with self.lock:
            gone, master = self._living(contact_id), self._living(into)
            self._keep(replace(gone, gone=self._clock(), merged_into=into))
            return self._take_over(gone, master)

    def find(self, kind: str, value: str, *, lag_s: float = 0, additional: bool = False) -> StoredContact | None:
        """The oldest contact whose `kind` (phone or email) is `value`, as an index that lags by `lag_s` shows it."""
        moment = self._clock() - lag_s
        kinds = (kind, "additional") if additional and kind == "phone" else (kind,)
        with self.lock:
            found = [self._contacts[one] for which in kinds for one in self._index.get((which, value.casefold()), ())]
        shown = [contact for contact in found if contact.shown_at(moment) and _has(contact, kinds, value)]
        return min(shown, key=lambda contact: contact.born, default=None)

    def shown(self, *, lag_s: float = 0, phone: str | None = None) -> list[StoredContact]:
        """What an index that lags by `lag_s` shows, oldest first; with `phone`, only the contacts that ever had it."""
        moment = self._clock() - lag_s
        with self.lock:
            ids = list(self._contacts) if phone is None else list(dict.fromkeys(self._index.get(("phone", phone.casefold()), ())))
            return [contact for contact in (self._contacts[one] for one in ids) if contact.shown_at(moment)]

    def everything(self) -> list[StoredContact]:
        with self.lock:
            return list(self._contacts.values())

    def add_note(self, contact_id: str, body: str, fields: Mapping[str, Any]) -> StoredNote:
        return self.keep_note(StoredNote(id=_new_id(), contact_id=contact_id, body=body, added_at=_now(), fields=dict(fields)))

    def note(self, contact_id: str, note_id: str) -> StoredNote | None:
        note = self._notes.get(note_id)
        return note if note is not None and note.contact_id == contact_id and not note.deleted else None

    def notes(self, contact_id: str) -> list[StoredNote]:
        """The living notes of a contact, newest first."""
        with self.lock:
            notes = [self._notes[one] for one in self._notes_of.get(contact_id, ())]
        return [note for note in reversed(notes) if not note.deleted and note.contact_id == contact_id]

    def every_note(self) -> list[StoredNote]:
        with self.lock:
            return list(self._notes.values())

    def keep_note(self, note: StoredNote) -> StoredNote:
        """Store a note, or what became of it."""
        with self.lock:
            known = self._notes.get(note.id)
            if known is None or known.contact_id != note.contact_id:
                self._notes_of.setdefault(note.contact_id, []).append(note.id)
            self._notes[note.id] = note
            self.revision += 1
        return note

    def restore(self, contacts: list[StoredContact], notes: list[StoredNote]) -> None:
        """Take back what a state file holds. It is old news: no index lags behind it."""
        with self.lock:
            for contact in contacts:
                self._keep(contact)
            for note in notes:
                self.keep_note(note)

    def clear(self) -> None:
        with self.lock:
            for part in (self._contacts, self._notes, self._notes_of, self._index):
                part.clear()
            self.revision += 1

    def _keep(self, contact: StoredContact) -> StoredContact:
        with self.lock:
            self._contacts[contact.id] = contact
            self.revision += 1
            for key in _keys(contact):
                ids = self._index.setdefault(key, [])
                if contact.id not in ids:
                    ids.append(contact.id)
        return contact

    def _living(self, contact_id: str) -> StoredContact:
        contact = self.get(contact_id)
        if contact is None:
            raise KeyError(contact_id)
        return contact

    def _take_over(self, gone: StoredContact, master: StoredContact) -> StoredContact:
        phones = [phone for phone in (gone.phone, *gone.additional_phones) if phone and phone != master.phone]
        additional = tuple(dict.fromkeys((*master.additional_phones, *phones)))
        fields = {**gone.fields, **{name: value for name, value in master.fields.items() if value}}
        for note in reversed(self.notes(gone.id)):
            self.keep_note(replace(note, contact_id=master.id))
        tags = lowered((*master.tags, *gone.tags))
        return self._keep(replace(master, fields=fields, tags=tags, additional_phones=additional, updated_at=_now()))


def lowered(tags: tuple[str, ...]) -> tuple[str, ...]:
    """Tags as they are stored: in lower case, each once. Undocumented; reported alike by many users of the live API."""
    return tuple(dict.fromkeys(tag.lower() for tag in tags))


def _keys(contact: StoredContact) -> Iterator[tuple[str, str]]:
    if contact.phone:
        yield "phone", contact.phone.casefold()
    if contact.email:
        yield "email", contact.email.casefold()
    for phone in contact.additional_phones:
        yield "additional", phone.casefold()


def _has(contact: StoredContact, kinds: tuple[str, ...], value: str) -> bool:
    """The index keeps every value that a contact ever had; only the present ones count."""
    return any(key == (kind, value.casefold()) for key in _keys(contact) for kind in kinds)


def _new_id() -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(20))


def _now() -> datetime:
    return datetime.now(UTC)

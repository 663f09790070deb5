"""A CRM in memory: one location, whose answers can be lost, refused, delayed or watched."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

from bridge.crm.base import Contact, Draft, Location, Note
from bridge.errors import Gone, Uncertain

TIMEOUT_S = 13.05


def lost(_result: object = None) -> Uncertain:
    """The request took effect and its answer did not arrive."""
    return Uncertain("no answer in time", cause="crm.timeout", trace_id="trace-lost")


class FakeCrm:
    """Implements bridge.crm.base.Crm. `requests` is what arrived, in order; `refuse`, `lose` and `watch` say what else happens."""

    def __init__(self, *, allows_duplicates: bool = False) -> None:
        self.before_request: Callable[[float], None] | None = None
        self.allows_duplicates = allows_duplicates
        self.timezone: str | None = "America/Chicago"
        self.contacts: dict[str, Contact] = {}
        self.notes: dict[str, list[Note]] = {}
        self.drafts: list[Draft] = []
        self.requests: list[str] = []
        self.index_lags = False  # neither search shows a contact
        self._refusals: dict[str, list[BaseException]] = {}
        self._losses: dict[str, list[BaseException]] = {}
        self._watchers: dict[str, Callable[[], None]] = {}
        self._ids = itertools.count(1)

    # What a test sets up

    def refuse(self, request: str, *errors: BaseException) -> None:
        """The next requests of this name fail with these errors and change nothing."""
        self._refusals.setdefault(request, []).extend(errors)

    def lose(self, request: str, *errors: BaseException) -> None:
        """The next request of this name takes effect and fails all the same."""
        self._losses.setdefault(request, []).extend(errors or (lost(),))

    def watch(self, request: str, watcher: Callable[[], None]) -> None:
        """Called when such a request has arrived, before it takes effect."""
        self._watchers[request] = watcher

    def add(self, phone: str | None, **details) -> Contact:
        contact = Contact(f"c{next(self._ids)}", phone, **details)
        self.contacts[contact.id] = contact
        self.notes[contact.id] = []
        return contact

    def delete(self, contact_id: str) -> None:
        del self.contacts[contact_id], self.notes[contact_id]

    def bodies(self, contact_id: str) -> list[str]:
        return [note.body for note in self.notes[contact_id]]

    # What a step may ask

    def location(self, *, fresh: bool = False) -> Location:
        del fresh
        return Location("loc1", self.allows_duplicates, self.timezone)

    def find_contact(self, phone: str) -> Contact | None:
        self._arrive("find_contact")
        return self._answer("find_contact", self._known(phone) if not self.index_lags else None)

    def search_contacts(self, phone: str) -> tuple[Contact, ...]:
        self._arrive("search_contacts")
        known = None if self.index_lags else self._known(phone)
        return self._answer("search_contacts", (known,) if known else ())

    def create_contact(self, draft: Draft) -> Contact:
        self._arrive("create_contact")
        self.drafts.append(draft)
        known = None if self.allows_duplicates or draft.phone is None else self._known(draft.phone)
        contact = known or replace(self.add(draft.phone, tags=draft.tags), created=True)
        return self._answer("create_contact", contact)

    def upsert_contact(self, phone: str) -> Contact:
        self._arrive("upsert_contact")
        known = None if self.index_lags else self._known(phone)
        return self._answer("upsert_contact", known or replace(self.add(phone), created=True))

    def add_tags(self, contact_id: str, tags: tuple[str, ...]) -> None:
        self._arrive("add_tags")
        contact = self._existing(contact_id)
        merged = tuple(dict.fromkeys((*(contact.tags or ()), *tags)))
        self.contacts[contact_id] = Contact(contact.id, contact.phone, tags=merged)
        self._answer("add_tags", None)

    def list_notes(self, contact_id: str) -> tuple[Note, ...]:
        self._arrive("list_notes")
        self._existing(contact_id)
        return self._answer("list_notes", tuple(self.notes[contact_id]))

    def get_note(self, contact_id: str, note_id: str) -> Note:
        self._arrive("get_note")
        place = self._place(contact_id, note_id)
        return self._answer("get_note", self.notes[contact_id][place])

    def add_note(self, contact_id: str, body: str) -> Note:
        self._arrive("add_note")
        self._existing(contact_id)
        note = Note(f"n{next(self._ids)}", body)
        self.notes[contact_id].append(note)
        return self._answer("add_note", note)

    def update_note(self, contact_id: str, note_id: str, body: str) -> None:
        self._arrive("update_note")
        place = self._place(contact_id, note_id)
        self.notes[contact_id][place] = Note(note_id, body)
        self._answer("update_note", None)

    def _arrive(self, request: str) -> None:
        if self.before_request is not None:
            self.before_request(TIMEOUT_S)
        self.requests.append(request)
        if request in self._watchers:
            self._watchers[request]()
        if self._refusals.get(request):
            raise self._refusals[request].pop(0)

    def _answer(self, request: str, result):
        if self._losses.get(request):
            raise self._losses[request].pop(0)
        return result

    def _known(self, phone: str) -> Contact | None:
        return next((contact for contact in self.contacts.values() if contact.phone == phone), None)

    def _place(self, contact_id: str, note_id: str) -> int:
        self._existing(contact_id)
        place = next((place for place, note in enumerate(self.notes[contact_id]) if note.id == note_id), None)
        if place is None:
            raise Gone("no such note", cause="crm.gone")
        return place

    def _existing(self, contact_id: str) -> Contact:
        if contact_id not in self.contacts:
            raise Gone("no such contact", cause="crm.gone", trace_id="trace-gone")
        return self.contacts[contact_id]

"""What really happened, for tests and proofs: every request, every contact and note, deleted and merged ones included, and the counts.

A bridge never sees this; a proof compares what the bridge believes with it.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from bridge.sandbox.ghl.asked import Request
from bridge.sandbox.ghl.book import ContactBook, StoredContact, StoredNote
from bridge.sandbox.ghl.faults import Fault


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """One request. `status` is what went out on the wire, None where nothing did or it is still under way."""

    number: int
    at: datetime
    method: str
    path: str
    endpoint: str  # method and template, or "unknown"
    query: str  # decoded
    body: str
    status: int | None = None
    fault: str | None = None
    spoiled: bool = False  # the caller did not get the API's own answer, whole and in time
    effect: bool = False  # the CRM's data were changed
    effect_at: datetime | None = None
    contact_id: str | None = None

    def is_about(self, phone: str, contact_ids: set[str]) -> bool:
        """Whether it names the phone or one of the contacts, in its path or in its answer."""
        named = not contact_ids.isdisjoint((self.contact_id, *self.path.split("/")))
        return named or phone in self.query or phone in self.body


class Truth:
    """The log of requests, and a view of the book. Everything is kept in order of arrival until `clear`."""

    def __init__(self, book: ContactBook) -> None:
        self._book = book
        self._lock = threading.Lock()
        self._served: dict[int, Served] = {}
        self._numbers = 0

    def arrived(self, request: Request, endpoint: str, fault: Fault | None) -> int:
        """Log a request before anything comes of it; the number is for `settled`."""
        with self._lock:
            served = Served(
                number=self._numbers,
                at=datetime.now(UTC),
                method=request.method,
                path=request.path,
                endpoint=endpoint,
                query="&".join(f"{name}={value}" for name, value in request.query.items()),
                body=request.body.decode("utf-8", "replace"),
                fault=fault.kind if fault else None,
                spoiled=fault is not None and fault.spoils,
            )
            self._served[served.number] = served
            self._numbers += 1  # never used again, so that what settles after a `clear` finds nothing
            return served.number

    def settled(self, number: int, *, status: int | None, effect: bool, contact_id: str | None) -> None:
        """Add what came of a request. A late effect is added when it comes."""
        with self._lock:
            if number in self._served:  # else the log was cleared while the request was under way
                when = datetime.now(UTC) if effect else None
                known = self._served[number]
                self._served[number] = replace(known, status=status, effect=effect, effect_at=when, contact_id=contact_id)

    def clear(self) -> None:
        with self._lock:
            self._served.clear()

    def requests(self, *, endpoint: str | None = None, phone: str | None = None, since: int = 0) -> list[Served]:
        """The log from number `since` on; with `endpoint`, of that one; with `phone`, those about that caller.

        About a caller is a request that names the phone or a contact which has or had it: with one call per caller, what one call cost.
        """
        with self._lock:
            served = [one for number, one in self._served.items() if number >= since]
        ids = (
            {contact.id for contact in self._book.everything() if phone in (contact.phone, *contact.additional_phones)} if phone else set()
        )
        return [one for one in served if (endpoint is None or one.endpoint == endpoint) and (phone is None or one.is_about(phone, ids))]

    def lost_answers(self) -> list[Served]:
        """The requests that changed something and whose caller was not told so by the API's own answer."""
        return [one for one in self.requests() if one.effect and one.spoiled]

    def requests_per_endpoint(self) -> Mapping[str, int]:
        return _counted(self.requests(), lambda one: one.endpoint)

    def answers_per_status(self) -> Mapping[str, int]:
        return _counted(self.requests(), lambda one: str(one.status))

    def contacts(self, phone: str | None = None) -> list[StoredContact]:
        """All that ever were, in order of creation; with `phone`, those with that phone now."""
        return [contact for contact in self._book.everything() if phone is None or contact.phone == phone]

    def contacts_per_phone(self) -> Mapping[str, int]:
        """Living contacts only."""
        return Counter(contact.phone for contact in self._book.everything() if contact.alive and contact.phone)

    def duplicates(self) -> Mapping[str, tuple[str, ...]]:
        """Each phone that more than one living contact has, with their ids. Empty is the promise of the bridge."""
        twice = [phone for phone, count in self.contacts_per_phone().items() if count > 1]
        return {phone: tuple(contact.id for contact in self.contacts(phone) if contact.alive) for phone in twice}

    def notes(self, contact_id: str | None = None) -> list[StoredNote]:
        """All that ever were, deleted ones included."""
        return [note for note in self._book.every_note() if contact_id is None or note.contact_id == contact_id]

    def notes_with(self, text: str) -> Mapping[str, int]:
        """How many living notes hold `text`, per contact id. Give a call key: anything but one contact with one note is a fault."""
        return Counter(note.contact_id for note in self.notes() if text in note.body and not note.deleted)

    def counts(self) -> Mapping[str, object]:
        """The sums of everything, as one JSON document."""
        contacts, notes = self.contacts(), self.notes()
        return {
            "requests": len(self.requests()),
            "requests_per_endpoint": self.requests_per_endpoint(),
            "answers_per_status": self.answers_per_status(),
            "faults": _counted([one for one in self.requests() if one.fault], lambda one: str(one.fault)),
            "lost_answers": len(self.lost_answers()),
            "contacts": sum(contact.alive for contact in contacts),
            "contacts_gone": sum(not contact.alive for contact in contacts),
            "contacts_per_phone": self.contacts_per_phone(),
            "duplicates": self.duplicates(),
            "notes": sum(not note.deleted for note in notes),
            "notes_deleted": sum(note.deleted for note in notes),
        }


def _counted(served: list[Served], key: Callable[[Served], str]) -> Mapping[str, int]:
    return dict(sorted(Counter(key(one) for one in served).items()))

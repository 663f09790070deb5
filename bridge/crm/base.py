"""The port to a CRM: what the steps may ask of it, in the words of the business.

Every method raises one of `Transient`, `Uncertain`, `Permanent` or `Gone` (bridge/errors.py) and nothing else:

* Reads never raise `Uncertain`: a read that failed changed nothing, so it is `Transient` or `Permanent`.
* `create_contact`, `upsert_contact` and `add_note` are not safe to repeat: whatever leaves their effect open is `Uncertain`.
* `add_tags` and `update_note` may be sent again as often as needed, so a lost answer is `Transient` there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Contact:
    id: str
    phone: str | None = None  # as the CRM shows it, not normalized
    additional_phones: tuple[str, ...] = ()
    tags: tuple[str, ...] | None = None  # None: the answer did not tell
    trace_id: str | None = None
    created: bool = False  # this very request made it
    dnd: bool | None = None  # "do not disturb", for all channels or for calls; None: the answer did not tell


@dataclass(frozen=True, slots=True)
class Note:
    id: str
    body: str


@dataclass(frozen=True, slots=True)
class Draft:
    """A contact to create. Only what a call really tells; never a placeholder, since it could land on a real customer."""

    phone: str | None  # E.164; None for callers without a number
    name: str | None = None
    source: str | None = None
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Location:
    """A sub-account. `allows_duplicates` decides which rules of find-or-create hold there."""

    id: str
    allows_duplicates: bool
    timezone: str | None = None
    country: str | None = None
    is_assumed: bool = False  # it could not be read: this is the stricter of the two kinds


class Crm(Protocol):
    """One location of a CRM.

    `before_request`, where set, is called with the longest time in seconds that the next request can take, right before it is sent.
    It may raise, to say that a lease would not outlive the request: nothing is sent then.

    `background` says that the work may wait (backfill): a part of the request budget is left to calls that ring now.
    """

    before_request: Callable[[float], None] | None
    background: bool

    def location(self, *, fresh: bool = False) -> Location:
        """The location's own settings, at most an hour old, or asked for now."""

    def find_contact(self, phone: str) -> Contact | None:
        """The contact that the CRM's duplicate check matches for `phone` (E.164). None only where the CRM said so in a 2xx."""

    def search_contacts(self, phone: str) -> tuple[Contact, ...]:
        """A second opinion from the search index, which may lag by a minute."""

    def create_contact(self, draft: Draft) -> Contact:
        """Create. A refusal as a duplicate that names the existing contact is a success: that contact is returned."""

    def upsert_contact(self, phone: str) -> Contact:
        """Create or match by phone and nothing else, so that nothing of an existing contact is overwritten."""

    def add_tags(self, contact_id: str, tags: tuple[str, ...]) -> None:
        """Add tags; those already there stay. Raises Gone where the contact does not exist any more."""

    def list_notes(self, contact_id: str) -> tuple[Note, ...]:
        """Every note of a contact. Raises Gone where the contact does not exist any more."""

    def get_note(self, contact_id: str, note_id: str) -> Note:
        """One note as it stands there now, markup included. Raises Gone where it or its contact does not exist any more."""

    def add_note(self, contact_id: str, body: str) -> Note:
        """Raises Gone where the contact does not exist any more."""

    def update_note(self, contact_id: str, note_id: str, body: str) -> None:
        """Replace a note's text. Raises Gone where the note or its contact does not exist any more."""

"""A request on its way through the stand-in, and the API's view of a contact and a note."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from bridge.sandbox.ghl.book import ContactBook, StoredContact, StoredNote
from bridge.sandbox.ghl.replies import Refusal as Refused
from bridge.sandbox.ghl.replies import contact_not_found, wrong_location
from bridge.sandbox.ghl.world import World


@dataclass(frozen=True, slots=True)
class Request:
    """What came over the wire. `path` and `query` are decoded; header names are in lower case."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a handler is given: a request that passed the gate, and the state that it may work on."""

    params: Mapping[str, str]
    query: Mapping[str, str]
    body: Mapping[str, Any]
    v3: bool
    book: ContactBook
    world: World
    wait: Callable[[float], object]

    def check_location(self, location_id: str) -> None:
        """A token belongs to one location; any other answers 403."""
        if location_id != self.world.location_id:
            raise Refused(wrong_location())

    def contact(self) -> StoredContact:
        """The living contact that the path names. Raises Refusal (400) where there is none."""
        contact = self.book.get(self.params["contact_id"])
        if contact is None:
            raise contact_not_found(self.params["contact_id"])
        return contact

    def done(self) -> dict[str, bool]:
        """2021-07-28 spells it `succeded`; the v3 schemas hold both spellings (apps/contacts.json, apps/v3/contacts-v3.json)."""
        return {"succeded": True, "succeeded": True} if self.v3 else {"succeded": True}


def contact_document(contact: StoredContact, world: World) -> dict[str, Any]:
    """A contact as GET /contacts/{id} shows it. What is not set is absent, as in the body quoted in highlevel-api-docs issue 289.

    `additionalPhones` are objects here by analogy with the `additionalEmails` of that body.
    """
    fields = {name: value for name, value in contact.fields.items() if value is not None and name != "customFields"}
    return {
        "id": contact.id,
        "locationId": world.location_id,
        "type": "lead",
        "dnd": False,
        "country": world.country,
        **fields,
        **_lower_case(fields, contact),
        "tags": list(contact.tags),
        "customFields": [_custom_field(one) for one in contact.fields.get("customFields") or []],
        "additionalPhones": [{"phone": phone} for phone in contact.additional_phones],
        "dateAdded": stamp(contact.added_at),
        "dateUpdated": stamp(contact.updated_at),
    }


def hit_document(contact: StoredContact, world: World) -> dict[str, Any]:
    """A contact as POST /contacts/search shows it: additional phones are plain strings there (the documentation linked by the spec)."""
    after = [int(contact.added_at.timestamp() * 1000), contact.id]
    return {**contact_document(contact, world), "additionalPhones": list(contact.additional_phones), "searchAfter": after}


def note_document(note: StoredNote) -> dict[str, Any]:
    return {"id": note.id, "body": note.body, "contactId": note.contact_id, "dateAdded": stamp(note.added_at), **note.fields}


def stamp(moment: datetime) -> str:
    """2021-07-02T05:18:26.704Z"""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _lower_case(fields: Mapping[str, Any], contact: StoredContact) -> dict[str, str]:
    sources = {"firstNameLowerCase": "firstName", "lastNameLowerCase": "lastName", "emailLowerCase": "email"}
    lowered = {name: str(fields[source]).lower() for name, source in sources.items() if fields.get(source)}
    return lowered | ({"fullNameLowerCase": contact.name.lower(), "name": contact.name} if contact.name else {})


def _custom_field(given: object) -> dict[str, Any]:
    """Reads give id and value, never the key (highlevel-api-docs issue 177); writes spell the value in three ways."""
    item = given if isinstance(given, dict) else {}
    values = [item[name] for name in ("field_value", "fieldValue", "value") if name in item]
    return {"id": str(item.get("id", item.get("key", ""))), "value": values[0] if values else ""}

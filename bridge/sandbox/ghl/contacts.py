"""The contact endpoints and their duplicate rules (highlevel-api-docs, apps/contacts.json). What that leaves open is a setting of World."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from bridge.sandbox.ghl import fields, search
from bridge.sandbox.ghl.asked import Asked, contact_document, hit_document
from bridge.sandbox.ghl.book import StoredContact
from bridge.sandbox.ghl.replies import Refusal, Reply, answer, duplicate, refusal
from bridge.sandbox.ghl.world import OwnCheck

_NO_FIELDS_OF_A_CONTACT = frozenset({"tags", "locationId", "gender", "createNewIfDuplicateAllowed"})


@dataclass(frozen=True, slots=True)
class Match:
    contact: StoredContact
    field: str


def get_location(asked: Asked) -> Reply:
    """apps/locations.json: the duplicate switches are readable, the order of the match fields is not."""
    world = asked.world
    asked.check_location(asked.params["location_id"])
    settings = {
        "allowDuplicateContact": world.allow_duplicate_contact,
        "allowDuplicateOpportunity": False,
        "allowFacebookNameMerge": False,
        "disableContactTimezone": False,
    }
    location = {"id": world.location_id, "companyId": "sandboxCompany000001", "name": world.name, "country": world.country}
    return answer(200, location={**location, "timezone": world.timezone, "settings": settings})


def search_duplicate(asked: Asked) -> Reply:
    """Where duplicates are allowed e-mail comes first and phone second, else the order that the location is set to (spec text)."""
    if not asked.query.get("locationId"):
        raise refusal(400, "locationId can't be undefined")
    asked.check_location(asked.query["locationId"])
    number, email = asked.query.get("number"), asked.query.get("email")
    if not (number or email):
        raise refusal(400, "Pass at least one of number, email query parameter")
    order = ("email", "phone") if asked.world.allow_duplicate_contact else asked.world.match_order
    found = _match(asked, {"phone": number, "email": email}, order, lag_s=asked.world.duplicate_lag_s)
    document = contact_document(found.contact, asked.world) if found else None
    return answer(200, contact=document, contact_id=found.contact.id if found else None)


def search_contacts(asked: Asked) -> Reply:
    fields.check(asked.body, fields.SEARCH)
    asked.check_location(asked.body["locationId"])
    search.check_page(asked.body)
    filters, query, limit = asked.body.get("filters", []), asked.body.get("query", ""), asked.body["pageLimit"]
    search.check_filters(filters)
    shown = asked.book.shown(lag_s=asked.world.search_lag_s, phone=search.wanted_phone(filters))
    hits = [contact for contact in reversed(shown) if search.matches(contact, filters, query)]
    start = _start(hits, asked.body)
    page = [hit_document(contact, asked.world) for contact in hits[start : start + limit]]
    return answer(200, contacts=page, total=len(hits), contact_id=page[0]["id"] if page else None)


def _start(hits: list[StoredContact], body: Mapping[str, Any]) -> int:
    """Where the page begins: behind the record that `searchAfter` names, else by `page`."""
    after = body.get("searchAfter")
    if after:
        return next((place + 1 for place, contact in enumerate(hits) if contact.id == after[-1]), len(hits))
    return int((body.get("page", 1) - 1) * body["pageLimit"])


def create_contact(asked: Asked) -> Reply:
    """201, or 400 naming the contact that is already there. Where duplicates are allowed, always 201."""
    fields.check(asked.body, fields.CREATE)
    asked.check_location(asked.body["locationId"])
    found, contact = _match_or_add(asked, _told(asked), look=not asked.world.allow_duplicate_contact)
    if found:
        raise Refusal(duplicate(found.contact.id, found.contact.name, found.field))
    return answer(201, contact=contact_document(contact, asked.world), effect=True, contact_id=contact.id)


def upsert_contact(asked: Asked) -> Reply:
    """Match and overwrite, or create. `createNewIfDuplicateAllowed` counts only where duplicates are allowed (UpsertContactDto)."""
    fields.check(asked.body, fields.UPSERT)
    asked.check_location(asked.body["locationId"])
    told = _told(asked)
    if not (told.get("phone") or told.get("email")):
        raise refusal(400, "Pass at least one of phone, email")  # required (highlevel-api-docs issue 59); the wording is ours
    blind = asked.world.allow_duplicate_contact and asked.body.get("createNewIfDuplicateAllowed") is True
    found, contact = _match_or_add(asked, told, look=not blind)
    if found:
        contact = _overwrite(asked, found, told)
    document = contact_document(contact, asked.world)
    effect = found is None or not _same(found.contact, contact)
    return answer(200, new=found is None, contact=document, effect=effect, contact_id=contact.id)


def _overwrite(asked: Asked, found: Match, told: dict[str, Any]) -> StoredContact:
    """Everything that was sent replaces what was there, tags as a whole. A second identifier that belongs to another contact is ignored."""
    kept = dict(told)
    for name in ("phone", "email"):
        other = _match(asked, {name: told.get(name)}, (name,), lag_s=0)
        if other and other.contact.id != found.contact.id:
            kept.pop(name, None)
    return asked.book.change(found.contact.id, kept, tags=_tags(asked))


def get_contact(asked: Asked) -> Reply:
    contact = asked.contact()
    return answer(200, contact=contact_document(contact, asked.world), contact_id=contact.id)


def update_contact(asked: Asked) -> Reply:
    """PUT. Tags are replaced as a whole; an identifier that belongs to another contact is refused like a duplicate create."""
    fields.check(asked.body, fields.UPDATE)
    contact = asked.contact()
    told = _told(asked)
    with asked.book.lock:
        found = None if asked.world.allow_duplicate_contact else _own_match(asked, told)
        if found and found.contact.id != contact.id:
            raise Refusal(duplicate(found.contact.id, found.contact.name, found.field))
        changed = asked.book.change(contact.id, told, tags=_tags(asked))
    document = contact_document(changed, asked.world)
    return answer(200, **asked.done(), contact=document, effect=not _same(contact, changed), contact_id=contact.id)


def delete_contact(asked: Asked) -> Reply:
    with asked.book.lock:
        contact = asked.book.retire(asked.contact().id)
    return answer(200, **asked.done(), effect=True, contact_id=contact.id)


def add_tags(asked: Asked) -> Reply:
    return _change_tags(asked, 201, adding=True)


def remove_tags(asked: Asked) -> Reply:
    return _change_tags(asked, 200, adding=False)


def _change_tags(asked: Asked, status: int, *, adding: bool) -> Reply:
    fields.check(asked.body, fields.TAGS)
    with asked.book.lock:
        contact = asked.contact()
        named = [tag.lower() for tag in asked.body["tags"]]
        tags = (*contact.tags, *named) if adding else tuple(tag for tag in contact.tags if tag not in named)
        changed = asked.book.change(contact.id, {}, tags=tags)
    return answer(status, tags=list(changed.tags), effect=changed.tags != contact.tags, contact_id=contact.id)


def _same(before: StoredContact, after: StoredContact) -> bool:
    return (before.fields, before.tags) == (after.fields, after.tags)


def _told(asked: Asked) -> dict[str, Any]:
    """The fields that a body sets. `gender` is accepted and thrown away, as reported of the real service (highlevel-api-docs issue 313)."""
    told = {name: value for name, value in asked.body.items() if name not in _NO_FIELDS_OF_A_CONTACT}
    if told.get("phone"):
        region = told.get("country") or asked.world.country
        told["phone"] = fields.e164(told["phone"], region, bad_phone_status=asked.world.bad_phone_status)
    return told


def _tags(asked: Asked) -> tuple[str, ...] | None:
    return tuple(asked.body["tags"]) if "tags" in asked.body else None


def _match_or_add(asked: Asked, told: dict[str, Any], *, look: bool) -> tuple[Match | None, StoredContact]:
    """The duplicate check and the insert. With a window between them two requests at the same instant both pass the check."""
    window = asked.world.create_window_s
    with nullcontext() if window else asked.book.lock:
        found = _own_match(asked, told) if look else None
        if found:
            return found, found.contact
        asked.wait(window)
        return None, asked.book.add(told, tags=_tags(asked) or ())


def _own_match(asked: Asked, told: dict[str, Any]) -> Match | None:
    lag_s = asked.world.duplicate_lag_s if asked.world.own_check is OwnCheck.LAGGING else 0
    return _match(asked, told, asked.world.match_order, lag_s=lag_s)


def _match(asked: Asked, told: dict[str, Any], order: tuple[str, ...], *, lag_s: float) -> Match | None:
    for name in order:
        if value := told.get(name):
            contact = asked.book.find(name, value, lag_s=lag_s, additional=asked.world.match_additional_phones)
            if contact:
                return Match(contact, name)
    return None

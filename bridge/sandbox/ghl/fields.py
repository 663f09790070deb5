"""What a body may hold: one table for each endpoint, from the OpenAPI file apps/contacts.json (GoHighLevel/highlevel-api-docs).

Anything else is refused with 422 "property X should not exist". The real validator reports every fault at once, and so does this one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import phonenumbers
from phonenumbers import NumberParseException, PhoneNumberFormat

from bridge.sandbox.ghl.replies import refusal, unprocessable

Rule = Callable[[str, object], str | None]


def text(name: str, value: object) -> str | None:
    return None if isinstance(value, str) else f"{name} must be a string"


def text_or_null(name: str, value: object) -> str | None:
    return None if value is None else text(name, value)


def flag(name: str, value: object) -> str | None:
    return None if isinstance(value, bool) else f"{name} must be a boolean value"


def whole_number(name: str, value: object) -> str | None:
    right = isinstance(value, int) and not isinstance(value, bool) and value > 0
    return None if right else f"{name} must be a positive number"


def texts(name: str, value: object) -> str | None:
    right = isinstance(value, list) and all(isinstance(one, str) for one in value)
    return None if right else f"each value in {name} must be a string"


def listing(name: str, value: object) -> str | None:
    return None if isinstance(value, list) else f"{name} must be an array"


def mapping(name: str, value: object) -> str | None:
    return None if isinstance(value, dict) else f"{name} must be an object"


def anything(name: str, value: object) -> str | None:
    del name, value
    return None


def country(name: str, value: object) -> str | None:
    """ISO 3166-1 alpha-2; the wording is reported by users of the live API."""
    return None if isinstance(value, str) and value in phonenumbers.SUPPORTED_REGIONS else f"{name} must be valid"


@dataclass(frozen=True, slots=True)
class Body:
    """One body: which properties it may hold, and which it must hold with something in them."""

    rules: Mapping[str, Rule]
    required: tuple[str, ...] = ()


_UPDATE: Mapping[str, Rule] = {
    **dict.fromkeys(("firstName", "lastName", "name", "email", "phone", "address1", "city", "state"), text_or_null),
    **dict.fromkeys(("website", "timezone", "source", "assignedTo"), text_or_null),
    "postalCode": text,
    "country": country,
    "dnd": flag,
    "dndSettings": mapping,
    "inboundDndSettings": mapping,
    "tags": texts,
    "customFields": listing,
    "dateOfBirth": anything,
}
_CREATE: Mapping[str, Rule] = {
    **_UPDATE,
    "locationId": text,
    "gender": text,
    "companyName": text_or_null,
    "source": text,
    "assignedTo": text,
}
_NOTE: Mapping[str, Rule] = {"body": text, "userId": text, "title": text, "color": text, "pinned": flag}

CREATE = Body(_CREATE, required=("locationId",))
UPSERT = Body({**_CREATE, "createNewIfDuplicateAllowed": flag}, required=("locationId",))
UPDATE = Body(_UPDATE)  # no locationId, gender or companyName: the OpenAPI file lists none of them for PUT
TAGS = Body({"tags": texts}, required=("tags",))
NOTE = Body(_NOTE, required=("body",))
NOTE_UPDATE = Body(_NOTE)
SEARCH = Body(  # The OpenAPI file gives an empty schema here; the names are those of the documentation that it links to.
    {
        "locationId": text,
        "pageLimit": whole_number,
        "page": whole_number,
        "searchAfter": listing,
        "filters": listing,
        "sort": listing,
        "query": text,
    },
    required=("locationId", "pageLimit"),
)


def check(body: Mapping[str, Any], shape: Body) -> None:
    """Raises Refusal (422) with every fault of `body`."""
    faults = [f"property {name} should not exist" for name in body if name not in shape.rules]
    faults += [f"{name} should not be empty" for name in shape.required if body.get(name) in (None, "", [])]
    faults += [fault for name, value in body.items() if name in shape.rules and (fault := shape.rules[name](name, value))]
    if faults:
        raise unprocessable(list(dict.fromkeys(faults)))


_PHONE_FAULTS = {  # the words of Google's libphonenumber; that the real service passes them on is reported by users of the live API
    NumberParseException.INVALID_COUNTRY_CODE: "Invalid country calling code",
    NumberParseException.NOT_A_NUMBER: "The string supplied did not seem to be a phone number",
    NumberParseException.TOO_SHORT_AFTER_IDD: "Phone number too short after IDD",
    NumberParseException.TOO_SHORT_NSN: "The string supplied is too short to be a phone number",
    NumberParseException.TOO_LONG: "The string supplied is too long to be a phone number",
}


def e164(phone: str, region: str, *, bad_phone_status: int) -> str:
    """A phone as it is stored. Raises Refusal for what libphonenumber cannot parse; the status of that refusal is undocumented."""
    try:
        number = phonenumbers.parse(phone, region)
    except NumberParseException as fault:
        message = _PHONE_FAULTS.get(fault.error_type, "Invalid phone number")
        raise refusal(bad_phone_status, [message] if bad_phone_status == 422 else message) from None
    return phonenumbers.format_number(number, PhoneNumberFormat.E164)

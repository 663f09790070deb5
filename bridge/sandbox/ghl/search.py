"""The filters of POST /contacts/search. The OpenAPI file leaves their schema empty; this follows the documentation that it links to
(doc.clickup.com/8631005, "Search Contacts") as far as a bridge needs it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bridge.sandbox.ghl.book import StoredContact
from bridge.sandbox.ghl.replies import refusal, unprocessable

FIELDS = frozenset(
    {
        "id",
        "phone",
        "email",
        "firstName",
        "lastName",
        "firstNameLowerCase",
        "lastNameLowerCase",
        "source",
        "tags",
        "city",
        "state",
        "country",
    }
)
OPERATORS = frozenset({"eq", "not_eq", "contains", "not_contains", "exists", "not_exists"})
MAX_VALUE_CHARS = 75
MAX_PAGE_LIMIT = 500
MAX_WINDOW = 10_000


def check_page(body: Mapping[str, Any]) -> None:
    """Raises Refusal where more is asked for than the service gives: 500 a page, and `page` no further than 10,000 records."""
    if body["pageLimit"] > MAX_PAGE_LIMIT:
        raise unprocessable([f"pageLimit must not be greater than {MAX_PAGE_LIMIT}"])
    if body.get("page", 1) * body["pageLimit"] > MAX_WINDOW:
        raise refusal(400, f"page * pageLimit must not be greater than {MAX_WINDOW}: use searchAfter")
    if len(body.get("query", "")) > MAX_VALUE_CHARS:
        raise unprocessable([f"query must be shorter than or equal to {MAX_VALUE_CHARS} characters"])


def wanted_phone(filters: list[Any]) -> str | None:
    """The phone that every hit must have, where the filters name one: it saves looking at every contact."""
    for one in filters:
        if isinstance(one, dict) and one.get("field") == "phone" and one.get("operator") == "eq" and isinstance(one.get("value"), str):
            return str(one["value"])
    return None


def check_filters(filters: list[Any]) -> None:
    """Raises Refusal (400) for a filter that the service does not know ("Invalid field …": highlevel-api-docs issue 289)."""
    for one in filters:
        if not isinstance(one, dict):
            raise refusal(400, "Invalid filter")
        if "group" in one:
            check_filters(_members(one))
        else:
            _check_filter(one)


def _check_filter(one: Mapping[str, Any]) -> None:
    if one.get("field") not in FIELDS:
        raise refusal(400, f"Invalid field {one.get('field')}")
    if one.get("operator") not in OPERATORS:
        raise refusal(400, f"Invalid operator {one.get('operator')}")
    value = one.get("value", "")
    if isinstance(value, str) and len(value) > MAX_VALUE_CHARS:
        raise refusal(400, f"Value of {one['field']} is too long")
    if one["operator"] in {"contains", "not_contains"} and not _is_plain(str(value)):
        raise refusal(400, f"Special characters are not allowed in contains on {one['field']}")


def _is_plain(value: str) -> bool:
    return all(char.isalnum() or char.isspace() for char in value)


def matches(contact: StoredContact, filters: list[Any], query: str) -> bool:
    """Whether a contact passes all filters and holds the query in its name, e-mail or phone."""
    return all(_passes(contact, one) for one in filters) and _holds(contact, query)


def _passes(contact: StoredContact, one: Mapping[str, Any]) -> bool:
    if "group" in one:
        verdicts = [_passes(contact, member) for member in _members(one)]
        return any(verdicts) if one["group"] == "OR" else all(verdicts)
    values = _values(contact, one["field"])
    sought = str(one.get("value", "")).casefold()
    operator = str(one["operator"])
    negated, operator = operator.startswith("not_"), operator.removeprefix("not_")
    if operator == "exists":
        found = bool(values)
    elif operator == "contains":
        found = any(sought in value for value in values)
    else:
        found = sought in values
    return found is not negated


def _members(group: Mapping[str, Any]) -> list[Any]:
    members = group.get("filters")
    return members if isinstance(members, list) else []


def _values(contact: StoredContact, name: str) -> list[str]:
    if name == "id":
        return [contact.id.casefold()]
    if name == "tags":
        return [tag.casefold() for tag in contact.tags]
    value = contact.fields.get(name.removesuffix("LowerCase"))
    return [str(value).casefold()] if value else []


def _holds(contact: StoredContact, query: str) -> bool:
    """Phones are compared by their digits, as a person types them."""
    sought = query.strip().casefold()
    if not sought:
        return True
    digits = "".join(char for char in sought if char.isdigit())
    in_phone = bool(digits) and not any(char.isalpha() for char in sought) and digits in (contact.phone or "")
    return in_phone or sought in contact.name.casefold() or sought in (contact.email or "").casefold()

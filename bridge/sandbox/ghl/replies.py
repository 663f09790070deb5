"""What the stand-in answers, as values; and the error bodies, each with the place where somebody saw it.

Bodies marked "undocumented" are not in the OpenAPI files of GoHighLevel/highlevel-api-docs; their source is named, or that there is none.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from http.client import responses
from typing import Any

JSON_TYPE = "application/json; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer. `document` goes out as JSON unless `raw` replaces it; `effect` tells whether the CRM's data were changed by it."""

    status: int
    document: Mapping[str, Any] = field(default_factory=dict)
    raw: bytes | None = None
    content_type: str = JSON_TYPE
    headers: Mapping[str, str] = field(default_factory=dict)
    effect: bool = False
    contact_id: str | None = None

    @property
    def content(self) -> bytes:
        return json.dumps(self.document, ensure_ascii=False).encode() if self.raw is None else self.raw

    def with_headers(self, headers: Mapping[str, str]) -> Reply:
        return replace(self, headers={**self.headers, **headers})


class Refusal(Exception):
    """Ends the handling of a request with an error reply, before anything was changed."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply.status)
        self.reply = reply


def phrase(status: int) -> str:
    """The usual words for a status; those that proxies invent (520, …) have none."""
    return responses.get(status, "Unknown Error")


def answer(status: int, *, effect: bool = False, contact_id: str | None = None, **document: object) -> Reply:
    """A JSON answer with a trace id of its own, as every documented body may carry one."""
    return Reply(status, {**document, "traceId": str(uuid.uuid4())}, effect=effect, contact_id=contact_id)


def error(status: int, message: str | list[str]) -> Reply:
    """An error body: `statusCode`, `message`, `error` (BadRequestDTO and its siblings in common-schemas.json) and a trace id."""
    return answer(status, statusCode=status, message=message, error=phrase(status))


def refusal(status: int, message: str | list[str]) -> Refusal:
    return Refusal(error(status, message))


def unprocessable(faults: list[str]) -> Refusal:
    """A body that the validator refuses: `message` is a list (UnprocessableDTO; highlevel-api-docs issues 262 and 313)."""
    return refusal(422, faults)


def invalid_token() -> Reply:
    """Undocumented wording; highlevel-api-docs issue 213."""
    return answer(401, statusCode=401, message="Invalid JWT")


def scope_missing() -> Reply:
    """Undocumented wording; highlevel-api-docs issue 217."""
    return answer(401, statusCode=401, message="The token is not authorized for this scope.")


def wrong_location() -> Reply:
    """Undocumented; highlevel-api-docs issue 213 and n8n-io/n8n issue 11353."""
    return answer(403, statusCode=403, message="The token does not have access to this location.")


def version_missing() -> Reply:
    """Undocumented: a 401 that is no matter of the token. Reported alike by several independent users of the live API."""
    return answer(401, statusCode=401, message="version header was not found.")


def version_unknown() -> Reply:
    """Undocumented; reported by users of the live API for a date that was never published."""
    return answer(401, statusCode=401, message="version header is invalid")


def duplicate(contact_id: str, contact_name: str, matching_field: str) -> Reply:
    """The refusal of a second contact. Undocumented; quoted alike by many independent users of the live API."""
    meta = {"contactId": contact_id, "contactName": contact_name, "matchingField": matching_field}
    return answer(400, statusCode=400, message="This location does not allow duplicated contacts.", meta=meta, contact_id=contact_id)


def contact_not_found(contact_id: str) -> Refusal:
    """Undocumented: an unknown contact answers 400, not 404, as reported by users of the live API."""
    return refusal(400, f"Contact with id {contact_id} not found")


def note_not_found(note_id: str) -> Refusal:
    """Undocumented and not reported: modelled after the answer for an unknown contact."""
    return refusal(400, f"Note with id {note_id} not found")


def too_many_requests() -> Reply:
    """The documentation names the limits and the headers; the body of a 429 is undocumented, so no client may depend on it."""
    return error(429, "Too Many Requests")


def unknown_route(method: str, path: str) -> Reply:
    """Undocumented: the words of the framework (NestJS) that the other bodies come from."""
    return error(404, f"Cannot {method} {path}")

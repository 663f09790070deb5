"""What a fault makes of an answer, as far as that is a matter of its content. What happens on the wire is in wire.py."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime

from bridge.sandbox.ghl import replies
from bridge.sandbox.ghl.asked import Request, contact_document, hit_document
from bridge.sandbox.ghl.book import ContactBook, StoredContact
from bridge.sandbox.ghl.faults import Fault, Spoil
from bridge.sandbox.ghl.replies import Reply
from bridge.sandbox.ghl.world import World

_STRANGER = StoredContact(
    id="strangerContact00001",
    fields={"phone": "+12025550199", "firstName": "Somebody", "lastName": "Else"},
    added_at=datetime(2024, 1, 1, tzinfo=UTC),
    updated_at=datetime(2024, 1, 1, tzinfo=UTC),
    born=0,
)

_HTML = """<!DOCTYPE html>
<html><head><title>{status} {phrase}</title></head>
<body><h1>{status} {phrase}</h1><p>The server could not complete your request.</p></body></html>
"""


def spoiled(reply: Reply, fault: Fault, request: Request, world: World, book: ContactBook) -> Reply:
    """The answer that goes out instead of `reply`. Whether there was an effect stays as it was."""
    make = _MAKERS.get(fault.shape.spoil)
    other = make(fault) if make else _changed(reply, fault, request, world, book)
    return replace(other, headers=_headers(reply, fault, world), effect=reply.effect, contact_id=reply.contact_id)


def _error(fault: Fault) -> Reply:
    """5xx bodies are generic; a 422 names the field that the validator claims to dislike, though the contact exists all the same
    (highlevel-api-docs issue 64).
    """
    if fault.shape.status == 422:
        return replies.error(422, ["source must be valid"])
    message = "Internal server error" if fault.shape.status == 500 else replies.phrase(fault.shape.status)
    return replies.answer(fault.shape.status, statusCode=fault.shape.status, message=message)


def _html(fault: Fault) -> Reply:
    page = _HTML.format(status=fault.shape.status, phrase=replies.phrase(fault.shape.status))
    return Reply(fault.shape.status, raw=page.encode(), content_type="text/html")


_MAKERS: Mapping[Spoil, Callable[[Fault], Reply]] = {
    Spoil.ERROR: _error,
    Spoil.HTML: _html,
    Spoil.TEXT: lambda fault: Reply(fault.shape.status, raw=fault.text.encode(), content_type="text/plain; charset=utf-8"),
    Spoil.BURST: lambda _: replies.too_many_requests(),
    Spoil.DAILY: lambda _: replies.too_many_requests(),
    Spoil.INVALID_TOKEN: lambda _: replies.invalid_token(),
    Spoil.SCOPE_MISSING: lambda _: replies.scope_missing(),
    Spoil.WRONG_LOCATION: lambda _: replies.wrong_location(),
}


def _changed(reply: Reply, fault: Fault, request: Request, world: World, book: ContactBook) -> Reply:
    """The faults that alter the API's own answer. A spoil of searches leaves every other answer as it is."""
    if fault.shape.spoil is Spoil.EMPTY:
        return replace(reply, raw=b"", status=fault.status or reply.status)
    if fault.shape.spoil is Spoil.FINDS_NOTHING:
        return _finding(reply, request, world, [])
    if fault.shape.spoil is Spoil.FINDS_ANOTHER:
        return _finding(reply, request, world, [_another(fault, request, book)])
    return reply


def _finding(reply: Reply, request: Request, world: World, hits: list[StoredContact]) -> Reply:
    """The same search with other hits."""
    path = request.path.rstrip("/")
    if reply.status == 200 and path == "/contacts/search":
        found = [hit_document(hit, world) for hit in hits]
        return replace(reply, document={**reply.document, "contacts": found, "total": len(hits)})
    if reply.status == 200 and path == "/contacts/search/duplicate":
        return replace(reply, document={**reply.document, "contact": contact_document(hits[0], world) if hits else None})
    return reply


def _another(fault: Fault, request: Request, book: ContactBook) -> StoredContact:
    """A contact that was not asked for: the one that the fault names, else any whose phone was not, else an invented one."""
    named = book.get(fault.contact_id) if fault.contact_id else None
    sought = f"{request.query.get('number')} {request.body.decode('utf-8', 'replace')}"
    others = (contact for contact in book.shown() if contact.phone and contact.phone not in sought)
    return named or next(others, _STRANGER)


def _headers(reply: Reply, fault: Fault, world: World) -> Mapping[str, str]:
    """The rate headers tell the cause of a 429. A proxy's page has none: the API never saw that request."""
    spoil = fault.shape.spoil
    bare = not fault.rate_headers or spoil is Spoil.HTML
    headers = {name: value for name, value in reply.headers.items() if not (bare and _is_rate(name))}
    if spoil is Spoil.BURST and not bare and world.rate_headers:
        headers["X-RateLimit-Remaining"] = "0"
    if spoil is Spoil.DAILY and not bare and world.rate_headers:
        headers["X-RateLimit-Daily-Remaining"] = "0"
    if fault.retry_after_s is not None:
        headers["Retry-After"] = f"{fault.retry_after_s:g}"
    return headers


def _is_rate(name: str) -> bool:
    return name.startswith("X-RateLimit-")


def without_field(request: Request, name: str) -> Request:
    """The request as the CRM takes it when it silently drops a field."""
    try:
        body = json.loads(request.body)
    except ValueError:
        return request
    if not isinstance(body, dict):
        return request
    return replace(request, body=json.dumps({key: value for key, value in body.items() if key != name}).encode())

"""The table of endpoints, and the gate before them: token, version, rate limit, body."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bridge.sandbox.ghl import contacts, notes, replies
from bridge.sandbox.ghl.asked import Asked, Request
from bridge.sandbox.ghl.replies import Refusal, Reply
from bridge.sandbox.ghl.world import TokenState, World

# 2021-07-28 is the one version that the OpenAPI files list for these endpoints, and v3 is what the official SDK always sends. The live API
# is reported to take 2021-04-15 and 2023-02-21 too; refusing them here shows a client that mixes the versions of two services.
VERSIONS = frozenset({"2021-07-28", "v3"})

Handler = Callable[[Asked], Reply]


@dataclass(frozen=True, slots=True)
class Route:
    """`template` is the path as the OpenAPI file writes it, with our names in the braces."""

    method: str
    template: str
    handler: Handler

    @property
    def label(self) -> str:
        return f"{self.method} {self.template}"

    def params(self, method: str, path: str) -> Mapping[str, str] | None:
        """The values in the braces, or None where this is another endpoint. A trailing slash makes no difference."""
        ours, theirs = _parts(self.template), _parts(path)
        if method != self.method or len(ours) != len(theirs):
            return None
        pairs = list(zip(ours, theirs, strict=True))
        if any(our != their for our, their in pairs if not our.startswith("{")):
            return None
        return {our[1:-1]: their for our, their in pairs if our.startswith("{")}


def _parts(path: str) -> list[str]:
    return path.strip("/").split("/")


_CONTACT = "/contacts/{contact_id}"
_NOTE = "/contacts/{contact_id}/notes/{note_id}"
ROUTES = (
    Route("GET", "/locations/{location_id}", contacts.get_location),
    Route("GET", "/contacts/search/duplicate", contacts.search_duplicate),
    Route("POST", "/contacts/search", contacts.search_contacts),
    Route("POST", "/contacts/upsert", contacts.upsert_contact),
    Route("POST", "/contacts/", contacts.create_contact),
    Route("GET", _CONTACT, contacts.get_contact),
    Route("PUT", _CONTACT, contacts.update_contact),
    Route("DELETE", _CONTACT, contacts.delete_contact),
    Route("POST", f"{_CONTACT}/tags", contacts.add_tags),
    Route("DELETE", f"{_CONTACT}/tags", contacts.remove_tags),
    Route("GET", f"{_CONTACT}/notes", notes.list_notes),
    Route("POST", f"{_CONTACT}/notes", notes.create_note),
    Route("GET", _NOTE, notes.get_note),
    Route("PUT", _NOTE, notes.update_note),
    Route("DELETE", _NOTE, notes.delete_note),
)


def find_route(method: str, path: str) -> tuple[Route, Mapping[str, str]] | None:
    for route in ROUTES:
        params = route.params(method, path)
        if params is not None:
            return route, params
    return None


def check_access(request: Request, world: World) -> None:
    """Raises Refusal: first the token, then the version, as users of the live API report."""
    if request.headers.get("authorization") != f"Bearer {world.token}":
        raise Refusal(replies.invalid_token())
    if world.token_state is not TokenState.VALID:
        raise Refusal(_token_refusal(world.token_state))
    version = request.headers.get("version")
    if not version:
        raise Refusal(replies.version_missing())
    if version not in VERSIONS:
        raise Refusal(replies.version_unknown())


def _token_refusal(state: TokenState) -> Reply:
    if state is TokenState.SCOPE_MISSING:
        return replies.scope_missing()
    return replies.wrong_location() if state is TokenState.WRONG_LOCATION else replies.invalid_token()


def read_body(request: Request) -> Mapping[str, Any]:
    """The body as an object; no body is an empty one. Raises Refusal (400) for what is no JSON object."""
    if not request.body:
        return {}
    try:
        body = json.loads(request.body)
    except ValueError:
        raise replies.refusal(400, "Unexpected token in JSON") from None
    if not isinstance(body, dict):
        raise replies.refusal(400, "The body must be a JSON object")
    return body

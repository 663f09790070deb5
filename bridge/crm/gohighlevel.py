"""GoHighLevel (HighLevel, LeadConnector) behind the port of bridge/crm/base.py, for one location and one private integration token.

Source: the vendor's OpenAPI files in https://github.com/GoHighLevel/highlevel-api-docs (apps/contacts.json, apps/locations.json), API
version 2021-07-28; where they are silent, the issue (#N) in that repository that shows the behaviour.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NoReturn
from urllib.parse import quote

import phonenumbers

from bridge.crm.base import Contact, Draft, Location, Note
from bridge.crm.http import Http, Timeouts
from bridge.crm.location_cache import LocationCache
from bridge.crm.outcomes import Kind, Request, Response, Success, another_phone, judge, unreadable
from bridge.crm.pacing import Pacing
from bridge.errors import Permanent, StepFailed
from bridge.numbers import same_line

log = logging.getLogger(__name__)

_SEARCH_PAGE = 100  # contacts that share one number; the API takes up to 500


@dataclass(frozen=True, slots=True)
class _Endpoint:
    """One call of the API.

    `fields` are all that its body may hold: any other is refused with 422 (#262), `locationId` below a contact too.
    """

    method: str
    path: str
    request: Request
    fields: frozenset[str] = field(default_factory=frozenset)


def _endpoint(method: str, path: str, name: str, kind: Kind, scope: str, fields: Iterable[str] = ()) -> _Endpoint:
    on_contact = "{contact_id}" in path
    return _Endpoint(method, path, Request(name, kind, scope, on_contact=on_contact), frozenset(fields))


_READ, _WRITE = "contacts.readonly", "contacts.write"
_LOCATION = _endpoint("GET", "/locations/{location_id}", "read location", Kind.READ, "locations.readonly")
_FIND = _endpoint("GET", "/contacts/search/duplicate", "find contact", Kind.READ, _READ)
_SEARCH = _endpoint(
    "POST", "/contacts/search", "search contacts", Kind.READ, _READ, ("locationId", "pageLimit", "page", "filters")
)  # without locationId or pageLimit: 422 (#31)
_CREATE = _endpoint("POST", "/contacts/", "create contact", Kind.CREATE, _WRITE, ("locationId", "phone", "name", "source", "tags"))
# Only what matches: name and source would overwrite those of a known customer, tags would replace all that are there.
_UPSERT = _endpoint("POST", "/contacts/upsert", "upsert contact", Kind.CREATE, _WRITE, ("locationId", "phone"))
_ADD_TAGS = _endpoint("POST", "/contacts/{contact_id}/tags", "add tags", Kind.IDEMPOTENT_WRITE, _WRITE, ("tags",))
_LIST_NOTES = _endpoint("GET", "/contacts/{contact_id}/notes", "list notes", Kind.READ, _READ)
_GET_NOTE = _endpoint("GET", "/contacts/{contact_id}/notes/{note_id}", "read note", Kind.READ, _READ)
_ADD_NOTE = _endpoint("POST", "/contacts/{contact_id}/notes", "add note", Kind.CREATE, _WRITE, ("body",))
_UPDATE_NOTE = _endpoint("PUT", "/contacts/{contact_id}/notes/{note_id}", "update note", Kind.IDEMPOTENT_WRITE, _WRITE, ("body",))


class GoHighLevel:
    """The Crm of one location.

    `before_request` is called with the longest time that the request can take, in seconds, after the budget has been granted and
    right before the request is sent. It may raise, to say that a lease would not outlive the request: nothing is sent then.
    `background` leaves part of the budget to live calls. One instance belongs to one thread.
    """

    def __init__(
        self,
        *,
        base_url: str,
        token: str,
        location_id: str,
        timeouts: Timeouts,
        pacing: Pacing,
        cache: LocationCache,
        background: bool = False,
    ) -> None:
        self.before_request: Callable[[float], None] | None = None
        self._http = Http(base_url=base_url, token=token, timeouts=timeouts)
        self._location_id = location_id
        self._pacing = pacing
        self._cache = cache
        self.background = background

    def close(self) -> None:
        """Close the idle connections. The next request opens a new one."""
        self._http.close()

    def location(self, *, fresh: bool = False) -> Location:
        known = None if fresh else self._cache.get(self._location_id)
        if known:
            return known
        try:
            answer = self._call(_LOCATION)
        except Permanent as refused:
            # A token without `locations.readonly` still makes leads. Not knowing is treated like the stricter of the two kinds.
            log.warning("the location's settings cannot be read; assuming that it allows duplicates", extra={"cause": refused.cause})
            assumed = Location(self._location_id, allows_duplicates=True, is_assumed=True)
            self._cache.put(assumed)
            return assumed
        data = answer.data.get("location")
        if not isinstance(data, dict):
            self._fail_unreadable(_LOCATION, answer, "no location")
        settings = data.get("settings")
        told = settings.get("allowDuplicateContact") if isinstance(settings, dict) else None
        # Where the answer does not tell, the stricter rules of find-or-create hold: they are right in both kinds of location.
        location = Location(self._location_id, told is not False, _text(data.get("timezone")), _text(data.get("country")))
        self._cache.put(location)
        return location

    def find_contact(self, phone: str) -> Contact | None:
        # The parameter is called `number`; `phone` is ignored, and the search then finds nobody.
        answer = self._call(_FIND, query={"locationId": self._location_id, "number": phone})
        if "contact" not in answer.data:
            self._fail_unreadable(_FIND, answer, "neither a contact nor an explicit null")
        found = answer.data["contact"]
        return None if found is None else self._contact(_FIND, answer, found)

    def search_contacts(self, phone: str) -> tuple[Contact, ...]:
        body = {
            "locationId": self._location_id,
            "pageLimit": _SEARCH_PAGE,
            "page": 1,
            "filters": [{"field": "phone", "operator": "eq", "value": phone}],
        }
        answer = self._call(_SEARCH, body=body)
        found = answer.data.get("contacts")
        if not isinstance(found, list):
            self._fail_unreadable(_SEARCH, answer, "no list of contacts")
        return tuple(self._contact(_SEARCH, answer, one) for one in found)

    def create_contact(self, draft: Draft) -> Contact:
        told = {"phone": draft.phone, "name": draft.name, "source": draft.source, "tags": list(draft.tags)}
        # What the call does not tell is left out: an explicit null or "" may blank a field.
        body: dict[str, object] = {"locationId": self._location_id} | {name: value for name, value in told.items() if value}
        return self._created(_CREATE, self._call(_CREATE, body=body), draft.phone, is_new=True)

    def upsert_contact(self, phone: str) -> Contact:
        body = {"locationId": self._location_id, "phone": phone}
        answer = self._call(_UPSERT, body=body)
        return self._created(_UPSERT, answer, phone, is_new=answer.data.get("new") is True)

    def add_tags(self, contact_id: str, tags: tuple[str, ...]) -> None:
        self._call(_ADD_TAGS, contact_id=contact_id, body={"tags": list(tags)})

    def list_notes(self, contact_id: str) -> tuple[Note, ...]:
        answer = self._call(_LIST_NOTES, contact_id=contact_id)
        notes = answer.data.get("notes")
        if not isinstance(notes, list):
            self._fail_unreadable(_LIST_NOTES, answer, "no list of notes")
        return tuple(self._note(_LIST_NOTES, answer, one) for one in notes)

    def get_note(self, contact_id: str, note_id: str) -> Note:
        answer = self._call(_GET_NOTE, contact_id=contact_id, note_id=note_id)
        data = answer.data.get("note")
        if isinstance(data, dict) and "body" not in data:
            # Taken for an empty note, it would be replaced, and with it whatever really stands there.
            self._fail_unreadable(_GET_NOTE, answer, "a note without a body")
        return self._note(_GET_NOTE, answer, data)

    def add_note(self, contact_id: str, body: str) -> Note:
        answer = self._call(_ADD_NOTE, contact_id=contact_id, body={"body": body})
        return self._note(_ADD_NOTE, answer, answer.data.get("note"))

    def update_note(self, contact_id: str, note_id: str, body: str) -> None:
        self._call(_UPDATE_NOTE, contact_id=contact_id, note_id=note_id, body={"body": body})

    def _call(
        self,
        endpoint: _Endpoint,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, object] | None = None,
        contact_id: str = "",
        note_id: str = "",
    ) -> Success:
        """Wait for the budget, ask whether the request may go out, send it, judge its outcome. Raises what the verdict is."""
        unknown = set(body or ()) - endpoint.fields
        if unknown:
            raise ValueError(f"`{endpoint.request.name}` takes no {', '.join(sorted(unknown))}")
        path = endpoint.path.format(location_id=_part(self._location_id), contact_id=_part(contact_id), note_id=_part(note_id))
        self._pacing.wait(self._location_id, background=self.background)
        if self.before_request:
            self.before_request(self._http.timeouts.total_s)
        outcome = self._http.send(endpoint.method, path, kind=endpoint.request.kind, query=query, body=body)
        if isinstance(outcome, Response):
            self._pacing.learn(self._location_id, outcome.status, outcome.headers)
        verdict = judge(endpoint.request, outcome)
        if isinstance(verdict, StepFailed):
            raise verdict
        return verdict

    def _created(self, endpoint: _Endpoint, answer: Success, phone: str | None, *, is_new: bool) -> Contact:
        if answer.existing_id:
            return Contact(answer.existing_id, trace_id=answer.trace_id)
        contact = self._contact(endpoint, answer, answer.data.get("contact"))
        if phone and contact.phone and not any(_same_phone(phone, other) for other in (contact.phone, *contact.additional_phones)):
            raise another_phone(endpoint.request, answer.trace_id)
        return replace(contact, created=is_new)

    def _contact(self, endpoint: _Endpoint, answer: Success, data: object) -> Contact:
        contact_id = _text(data.get("id")) if isinstance(data, dict) else None
        if not isinstance(data, dict) or not contact_id:
            self._fail_unreadable(endpoint, answer, "a contact without an id")
        if _text(data.get("locationId")) not in {None, self._location_id}:
            self._fail_unreadable(endpoint, answer, "a contact of another location")
        tags = data.get("tags")
        return Contact(
            id=contact_id,
            phone=_text(data.get("phone")),
            additional_phones=_phones(data.get("additionalPhones")),
            tags=tuple(tag for tag in tags if isinstance(tag, str)) if isinstance(tags, list) else None,
            trace_id=answer.trace_id,
            dnd=_dnd(data),
        )

    def _note(self, endpoint: _Endpoint, answer: Success, data: object) -> Note:
        note_id = _text(data.get("id")) if isinstance(data, dict) else None
        if not isinstance(data, dict) or not note_id:
            self._fail_unreadable(endpoint, answer, "a note without an id")
        return Note(note_id, _text(data.get("body")) or "")

    @staticmethod
    def _fail_unreadable(endpoint: _Endpoint, answer: Success, lack: str) -> NoReturn:
        raise unreadable(endpoint.request, answer.trace_id, lack)


def _part(value: str) -> str:
    """An id as one part of a path, whatever stands in it."""
    return quote(value, safe="")


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _dnd(contact: Mapping[str, object]) -> bool | None:
    """`dnd` is for all channels; of single ones the one for calls counts. `active` and `permanent` mean that it holds.

    DndSettingsSchema in https://github.com/GoHighLevel/highlevel-api-docs/blob/main/apps/contacts.json; API v3 spells the channels small.
    """
    told, channels = contact.get("dnd"), contact.get("dndSettings")
    named = [setting for name, setting in channels.items() if name.casefold() == "call"] if isinstance(channels, dict) else []
    if any(isinstance(setting, dict) and setting.get("status") in {"active", "permanent"} for setting in named):
        return True
    return told if isinstance(told, bool) else None


def _phones(value: object) -> tuple[str, ...]:
    """Second numbers. No spec shows their shape (#331): texts and objects with a `phone` are read, anything else is left out."""
    numbers = [one.get("phone") if isinstance(one, dict) else one for one in value] if isinstance(value, list) else []
    return tuple(number for number in numbers if isinstance(number, str) and number)


def _same_phone(sent: str, shown: str) -> bool:
    """Whether the CRM shows the line that was sent, in whichever spelling: +12025550143, +1 202-555-0143, (202) 555-0143."""
    same = {phonenumbers.MatchType.EXACT_MATCH, phonenumbers.MatchType.NSN_MATCH}
    return same_line(shown, sent, region=None) or phonenumbers.is_number_match(sent, shown) in same

"""Plivo's list of calls: /v1/Account/{auth_id}/Call/.

https://www.plivo.com/docs/voice/api/call/retrieve-all-calls · https://www.plivo.com/docs/voice/api/call/the-call-object

Times in the filter, and those in the answer that have no offset, are in the account's own time zone. Without PLIVO_TIME_ZONE the filter
is widened to cover every zone, and a time without an offset is not believed. A call is listed when it has ended; 20 rows a page.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from bridge.errors import WrongSettings
from bridge.providers import reading
from bridge.providers.base import Heard, Ignored, Provider
from bridge.providers.lists.base import Ask, Lister, Page, Window, basic, link, members, needed, with_times
from bridge.providers.plivo import TOKEN
from bridge.settings import ProviderSetting, Settings

BASE_URL = "https://api.plivo.com"
PAGE_SIZE = 20
_ZONES_APART = timedelta(hours=14)  # from UTC to the farthest zone

ACCOUNT = ProviderSetting("PLIVO_AUTH_ID", "Auth ID whose list of calls is read, beside PLIVO_AUTH_TOKEN: Plivo Console, Overview.")
ZONE = ProviderSetting("PLIVO_TIME_ZONE", "Time zone of the account, such as America/Chicago; unset: lists are asked for more widely.")
SETTINGS = (ACCOUNT, ZONE)
_FIELDS = {"call_uuid": "CallUUID", "from_number": "From", "to_number": "To", "call_direction": "Direction", "call_duration": "Duration"}


class PlivoList(Lister):
    name = "plivo"

    def __init__(self, settings: Settings, adapter: Provider) -> None:
        self._auth_id, _ = needed(settings, ACCOUNT.name, TOKEN.name)
        headers = basic(self._auth_id, settings.words(TOKEN.name)[0])
        super().__init__(settings, adapter, BASE_URL, headers, f"{ACCOUNT.name} and {TOKEN.name}")
        self._zone = _zone(settings.value(ZONE.name).strip())

    def first(self, window: Window) -> Ask:
        since = datetime.fromtimestamp(window.since, UTC)
        local = since.astimezone(self._zone) if self._zone else since - _ZONES_APART
        # No upper end: a call that began in the window may have ended since.
        limits = (("call_direction", "inbound"), ("end_time__gte", f"{local:%Y-%m-%d %H:%M:%S}"), ("limit", str(PAGE_SIZE)))
        return Ask(f"/v1/Account/{self._auth_id}/Call/", limits)

    def following(self, ask: Ask, page: Page, rows: int) -> Ask | None:
        """`meta.next` says that there is more."""
        offset = int(dict(ask.query).get("offset", "0")) + rows
        return ask.turned(offset=str(offset)) if link(page, "meta", "next") and rows else None

    def rows(self, page: Page) -> list[Mapping[str, Any]]:
        return members(page, "objects")

    def read(self, row: Mapping[str, Any]) -> Heard | Ignored:
        if reading.told(row.get("parent_call_uuid")):
            return Ignored("a leg of another call")
        fields = {ours: row.get(theirs) for theirs, ours in _FIELDS.items()} | {"CallStatus": _status(row)}
        names = {"started": "initiation_time", "answered": "answer_time", "ended": "end_time"}
        return with_times(self.as_form(fields), **{ours: self._instant(row.get(theirs)) for ours, theirs in names.items()})

    def _instant(self, value: object) -> datetime | None:
        try:
            found = datetime.fromisoformat(reading.told(value) or "")
        except ValueError:
            return None
        if found.tzinfo is None and self._zone is None:
            return None
        return (found if found.tzinfo else found.replace(tzinfo=self._zone)).astimezone(UTC)


def _status(row: Mapping[str, Any]) -> str:
    """What is listed has ended: `ANSWER` says that somebody took it, not that it goes on."""
    told = (reading.told(row.get("call_state")) or "").casefold()
    return told if told not in {"", "answer"} else "completed"


def build(settings: Settings, adapter: Provider) -> list[Lister]:
    return [PlivoList(settings, adapter)]


def _zone(name: str) -> ZoneInfo | None:
    try:
        return ZoneInfo(name) if name else None
    except (ZoneInfoNotFoundError, ValueError, OSError):  # the last one: a folder of zones
        raise WrongSettings([f"{ZONE.name}: a time zone such as America/Chicago or Europe/Berlin"]) from None

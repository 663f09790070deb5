"""Vonage's calls: /v1/calls of the Voice API, or /v2/reports/records with product VOICE-CALL.

https://developer.vonage.com/en/api/voice#getCalls · https://developer.vonage.com/en/reports/overview

A call is joined with its webhooks by its conversation. The Voice API tells it; reports may not, and a record that names none is left out,
with that reason, rather than made a second call. So with an application's id and key the Voice API is asked, and with API key and secret
alone the reports: 24 hours a request at most, so a longer window is asked for piece by piece. Times in UTC. Calls live in one region; that
of the application is named by BACKFILL_BASE_URLS where it is not found at the common address.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from typing import Any

import jwt

from bridge.errors import WrongSettings
from bridge.providers import documents, reading
from bridge.providers.base import Heard, Ignored, Provider
from bridge.providers.lists.base import Ask, Lister, Page, Post, Window, basic, iso, link, members, needed, number_in, parameter, with_times
from bridge.settings import DAY_S, ProviderSetting, Settings

BASE_URL = "https://api.nexmo.com"
PAGE_SIZE = 100
_TOKEN_LIFE_S = 900

KEY = ProviderSetting("VONAGE_API_KEY", "API key of the account whose reports are read: Vonage Dashboard, API settings.")
SECRET = ProviderSetting("VONAGE_API_SECRET", "API secret beside it (not the signature secret).", secret=True)
APPLICATION = ProviderSetting("VONAGE_APPLICATION_ID", "Voice application whose calls are listed: Vonage Dashboard, Applications.")
PRIVATE_KEY = ProviderSetting(
    "VONAGE_PRIVATE_KEY", "Private key of that application, PEM; line breaks may be written as \\n.", secret=True, free=True
)
SETTINGS = (APPLICATION, PRIVATE_KEY, KEY, SECRET)


class VoiceCalls(Lister):
    name = "vonage"

    def __init__(self, settings: Settings, adapter: Provider) -> None:
        self._application, key = needed(settings, APPLICATION.name, PRIVATE_KEY.name)
        super().__init__(settings, adapter, BASE_URL, {}, f"{APPLICATION.name} and {PRIVATE_KEY.name}")
        self._key = key.replace("\\n", "\n")
        self._token()  # a key that cannot sign is found at the start

    def authorize(self, post: Post) -> Mapping[str, str]:
        del post
        return {"Authorization": f"Bearer {self._token()}"}

    def first(self, window: Window) -> Ask:
        return Ask("/v1/calls", (("date_start", iso(window.since)), ("date_end", iso(window.until)), ("page_size", str(PAGE_SIZE))))

    def following(self, ask: Ask, page: Page, rows: int) -> Ask | None:
        """Real answers link to the next page (fixtures of the SDK, voice/tests/data), those of the reference tell a count alone."""
        at = int(dict(ask.query).get("record_index", "0"))
        uri, seen = link(page, "_links", "next", "href"), at + rows
        index = parameter(uri, "record_index") or str(seen)
        has_next = bool(uri) or seen < (number_in(page, "count") or 0)
        return ask.turned(record_index=index) if has_next and rows and index != str(at) else None

    def rows(self, page: Page) -> list[Mapping[str, Any]]:
        return members(page, "_embedded", "calls")

    def read(self, row: Mapping[str, Any]) -> Heard | Ignored:
        ends = {end: documents.part(row, end).get("number") for end in ("from", "to")}
        return _read(self, reading.told(row.get("conversation_uuid")), {**row, **ends}, row.get("start_time"), row.get("end_time"))

    def _token(self) -> str:
        """https://developer.vonage.com/en/getting-started/concepts/authentication#json-web-tokens"""
        now = int(time.time())
        claims = {"application_id": self._application, "iat": now, "exp": now + _TOKEN_LIFE_S, "jti": uuid.uuid4().hex}
        try:
            return jwt.encode(claims, self._key, algorithm="RS256")
        except (jwt.PyJWTError, ValueError, TypeError):
            raise WrongSettings(
                [f"{PRIVATE_KEY.name}: the application's private key, as in private.key (-----BEGIN PRIVATE KEY-----…)"]
            ) from None


class Reports(Lister):
    name = "vonage"

    def __init__(self, settings: Settings, adapter: Provider) -> None:
        self._key, secret = needed(settings, KEY.name, SECRET.name)
        super().__init__(settings, adapter, BASE_URL, basic(self._key, secret), f"{KEY.name} and {SECRET.name}")
        self._window = Window(0.0, 0.0)
        self._since = 0.0

    def first(self, window: Window) -> Ask:
        self._window = window
        return self._piece(window.since)

    def following(self, ask: Ask, page: Page, rows: int) -> Ask | None:
        """The next page of this day, then the next day."""
        del ask, rows
        uri = link(page, "_links", "next", "href")
        if uri:
            return Ask(uri)
        after = self._since + DAY_S
        return self._piece(after) if after < self._window.until else None

    def rows(self, page: Page) -> list[Mapping[str, Any]]:
        return members(page, "records")

    def read(self, row: Mapping[str, Any]) -> Heard | Ignored:
        conversation = reading.told(row.get("conversation_id")) or reading.told(row.get("conversation_uuid"))
        return _read(self, conversation, row, row.get("date_start"), row.get("date_end"))

    def _piece(self, since: float) -> Ask:
        self._since = since
        until = min(since + DAY_S, self._window.until)
        asked = (("account_id", self._key), ("product", "VOICE-CALL"), ("direction", "inbound"))
        return Ask("/v2/reports/records", (*asked, ("date_start", iso(since)), ("date_end", iso(until))))


def build(settings: Settings, adapter: Provider) -> list[Lister]:
    if settings.value(APPLICATION.name).strip():
        return [VoiceCalls(settings, adapter)]
    return [Reports(settings, adapter)]


def _read(lister: Lister, conversation: str | None, row: Mapping[str, Any], started: object, ended: object) -> Heard | Ignored:
    if not conversation:
        return Ignored("the record names no conversation, which joins it with its webhooks")
    told = {name: row.get(name) for name in ("from", "to", "direction", "status", "duration")}
    heard = lister.as_json({"conversation_uuid": conversation, **told, "start_time": started, "end_time": ended})
    return with_times(heard, started=reading.instant(started), ended=reading.instant(ended))

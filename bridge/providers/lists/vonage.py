"""Vonage's records of calls: /v2/reports/records with product VOICE-CALL.

https://developer.vonage.com/en/reports/overview

24 hours a request at most, so a longer window is asked for piece by piece; times in UTC. A call is joined with its webhooks by its
conversation: a record that names none is left out, with that reason, rather than made a second call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

from bridge.providers import reading
from bridge.providers.base import Heard, Ignored, Provider
from bridge.providers.lists.base import Ask, Lister, Page, Window, basic, iso, link, members, needed, with_times
from bridge.settings import DAY_S, ProviderSetting, Settings

BASE_URL = "https://api.nexmo.com"
PATH = "/v2/reports/records"

KEY = ProviderSetting("VONAGE_API_KEY", "API key of the account whose reports are read: Vonage Dashboard, API settings.")
SECRET = ProviderSetting("VONAGE_API_SECRET", "API secret beside it (not the signature secret).", secret=True)
SETTINGS = (KEY, SECRET)


class VonageRecords(Lister):
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
        if uri and parse_qs(urlsplit(uri).query):
            return Ask(uri)
        after = self._since + DAY_S
        return self._piece(after) if after < self._window.until else None

    def rows(self, page: Page) -> list[Mapping[str, Any]]:
        return members(page, "records")

    def read(self, row: Mapping[str, Any]) -> Heard | Ignored:
        conversation = reading.told(row.get("conversation_id")) or reading.told(row.get("conversation_uuid"))
        if not conversation:
            return Ignored("the record names no conversation, which joins it with its webhooks")
        told = {name: row.get(name) for name in ("from", "to", "direction", "status", "duration")}
        times = {"start_time": row.get("date_start"), "end_time": row.get("date_end")}
        heard = self.as_json({"conversation_uuid": conversation, **told, **times})
        return with_times(heard, started=reading.instant(row.get("date_start")), ended=reading.instant(row.get("date_end")))

    def _piece(self, since: float) -> Ask:
        self._since = since
        until = min(since + DAY_S, self._window.until)
        asked = (("account_id", self._key), ("product", "VOICE-CALL"), ("direction", "inbound"))
        return Ask(PATH, (*asked, ("date_start", iso(since)), ("date_end", iso(until))))


def build(settings: Settings, adapter: Provider) -> list[Lister]:
    return [VonageRecords(settings, adapter)]

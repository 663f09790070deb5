"""Aircall's list of calls: /v1/calls.

https://developer.aircall.io/api-references/#list-all-calls

Times are seconds since the epoch; 50 rows a page, 60 requests a minute. A row is the same object that a webhook holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bridge.providers.base import Heard, Ignored, Provider
from bridge.providers.lists.base import Ask, Lister, Page, Window, basic, link, members, needed
from bridge.settings import ProviderSetting, Settings

BASE_URL = "https://api.aircall.io"
PAGE_SIZE = 50

ID = ProviderSetting("AIRCALL_API_ID", "API ID to read the list of calls with: Aircall Dashboard, Integrations, API keys.")
TOKEN = ProviderSetting("AIRCALL_API_TOKEN", "API token beside it (not the webhook's token).", secret=True)
SETTINGS = (ID, TOKEN)


class AircallList(Lister):
    name = "aircall"

    def first(self, window: Window) -> Ask:
        times = (("from", f"{window.since:.0f}"), ("to", f"{window.until:.0f}"))
        return Ask("/v1/calls", (*times, ("order", "asc"), ("per_page", str(PAGE_SIZE))))

    def following(self, ask: Ask, page: Page, rows: int) -> Ask | None:
        number = int(dict(ask.query).get("page", "1")) + 1
        return ask.turned(page=str(number)) if link(page, "meta", "next_page_link") and rows else None

    def rows(self, page: Page) -> list[Mapping[str, Any]]:
        return members(page, "calls")

    def read(self, row: Mapping[str, Any]) -> Heard | Ignored:
        return self.as_json({"resource": "call", "event": "call.ended", "data": row})


def build(settings: Settings, adapter: Provider) -> list[Lister]:
    api_id, token = needed(settings, ID.name, TOKEN.name)
    return [AircallList(settings, adapter, BASE_URL, basic(api_id, token), f"{ID.name} and {TOKEN.name}")]

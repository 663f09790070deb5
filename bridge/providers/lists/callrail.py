"""CallRail's list of calls: /v3/a/{account_id}/calls.json.

https://apidocs.callrail.com/#listing-all-calls

`start_date` and `end_date` are days in the account's time zone, so a day more is asked for on both sides. `id` is the API's (CAL…), which
webhooks call `resource_id`. 1000 requests an hour. A call without a recording or transcript may wait 20 minutes for its last webhook.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bridge.providers.base import Heard, Ignored, Provider
from bridge.providers.lists.base import Ask, Lister, Page, Window, day, link, members, needed
from bridge.settings import DAY_S, ProviderSetting, Settings

BASE_URL = "https://api.callrail.com"
PAGE_SIZE = 250

KEY = ProviderSetting("CALLRAIL_API_KEY", "API V3 key to read the list of calls with: CallRail, Settings, API keys.", secret=True)
ACCOUNT = ProviderSetting("CALLRAIL_ACCOUNT_ID", "Account id whose list of calls is read: in the address of the dashboard.")
SETTINGS = (KEY, ACCOUNT)


class CallRailList(Lister):
    name = "callrail"
    webhook_within_s = 25 * 60.0

    def __init__(self, settings: Settings, adapter: Provider) -> None:
        key, self._account_id = needed(settings, KEY.name, ACCOUNT.name)
        super().__init__(settings, adapter, BASE_URL, {"Authorization": f'Token token="{key}"'}, f"{KEY.name} and {ACCOUNT.name}")

    def first(self, window: Window) -> Ask:
        days = (("start_date", day(window.since - DAY_S)), ("end_date", day(window.until + DAY_S)))
        paging = (("relative_pagination", "true"), ("per_page", str(PAGE_SIZE)))
        return Ask(f"/v3/a/{self._account_id}/calls.json", (*days, *paging, ("fields", "call_type")))

    def following(self, ask: Ask, page: Page, rows: int) -> Ask | None:
        del ask, rows
        has_next = isinstance(page.document, dict) and page.document.get("has_next_page") is True
        uri = link(page, "next_page")
        return Ask(uri) if has_next and uri else None

    def rows(self, page: Page) -> list[Mapping[str, Any]]:
        return members(page, "calls")

    def read(self, row: Mapping[str, Any]) -> Heard | Ignored:
        return self.as_json(row, "post-call")


def build(settings: Settings, adapter: Provider) -> list[Lister]:
    return [CallRailList(settings, adapter)]

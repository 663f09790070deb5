"""Bandwidth's list of calls: /api/v2/accounts/{accountId}/calls.

https://dev.bandwidth.com/apis/voice/#tag/Calls

Kept for 7 days after the end. Times in UTC; the next page is named by the header Link. Access by the credentials of an API user, which
are not those that the webhooks carry.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from bridge.providers import reading
from bridge.providers.base import Heard, Ignored, Provider
from bridge.providers.lists.base import Ask, Lister, Page, Window, basic, iso, needed
from bridge.settings import ProviderSetting, Settings

BASE_URL = "https://voice.bandwidth.com"
PAGE_SIZE = 1000  # more are allowed today, and were not always

ACCOUNT = ProviderSetting("BANDWIDTH_ACCOUNT_ID", "Account id whose list of calls is read: Bandwidth App, Account.")
USER = ProviderSetting("BANDWIDTH_API_USER", "User name of an API user of the account.", free=True)
PASSWORD = ProviderSetting("BANDWIDTH_API_PASSWORD", "Password of that API user.", secret=True, free=True)
SETTINGS = (ACCOUNT, USER, PASSWORD)
# The webhook that tells the same, by `state`. More states may come: such a call has ended only where it has an end.
EVENTS: Mapping[str, str] = {
    "queued": "initiate", "initiated": "initiate", "answered": "answer", "disconnected": "disconnect", "completed": "disconnect",
}  # fmt: skip


class BandwidthList(Lister):
    name = "bandwidth"

    def __init__(self, settings: Settings, adapter: Provider) -> None:
        self._account_id, user, password = needed(settings, ACCOUNT.name, USER.name, PASSWORD.name)
        super().__init__(settings, adapter, BASE_URL, basic(user, password), f"{ACCOUNT.name}, {USER.name} and {PASSWORD.name}")

    def first(self, window: Window) -> Ask:
        times = (("minStartTime", iso(window.since)), ("maxStartTime", iso(window.until)))
        return Ask(f"/api/v2/accounts/{self._account_id}/calls", (*times, ("pageSize", str(PAGE_SIZE))))

    def following(self, ask: Ask, page: Page, rows: int) -> Ask | None:
        del ask, rows
        found = re.search(r'<([^>]+)>\s*;\s*rel="?next"?', page.headers.get("link", ""))
        return Ask(found[1]) if found else None

    def rows(self, page: Page) -> list[Mapping[str, Any]]:
        return [row for row in page.document if isinstance(row, dict)] if isinstance(page.document, list) else []

    def read(self, row: Mapping[str, Any]) -> Heard | Ignored:
        if reading.told(row.get("parentCallId")):
            return Ignored("a leg of another call")
        otherwise = "disconnect" if reading.told(row.get("endTime")) else "unknown"
        event = EVENTS.get((reading.told(row.get("state")) or "").casefold(), otherwise)
        return self.as_json({**row, "eventType": event, "cause": row.get("disconnectCause")})


def build(settings: Settings, adapter: Provider) -> list[Lister]:
    return [BandwidthList(settings, adapter)]

"""Dialpad's list of calls: /api/v2/call, concluded calls alone, the newest first.

https://developers.dialpad.com/reference/calllist

Times are milliseconds since the epoch. A visit to a department is one row there and one for each person who took it; all of them name
the same entry point, so they are one call here. 1200 requests a minute; an admin's key with the scope calls:list.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from bridge.providers.base import Heard, Ignored, Provider
from bridge.providers.lists.base import Ask, Lister, Page, Window, link, members, needed
from bridge.settings import ProviderSetting, Settings

BASE_URL = "https://dialpad.com"

KEY = ProviderSetting("DIALPAD_API_KEY", "Admin API key with the scope calls:list: Admin Portal, My Company, Authentication.", secret=True)
SETTINGS = (KEY,)


class DialpadList(Lister):
    name = "dialpad"

    def first(self, window: Window) -> Ask:
        times = (("started_after", f"{window.since * 1000:.0f}"), ("started_before", f"{window.until * 1000:.0f}"))
        return Ask("/api/v2/call", times)

    def following(self, ask: Ask, page: Page, rows: int) -> Ask | None:
        del rows
        cursor = link(page, "cursor")
        times = tuple(pair for pair in ask.query if pair[0] != "cursor")
        return Ask(ask.url, (*times, ("cursor", cursor))) if cursor else None

    def rows(self, page: Page) -> list[Mapping[str, Any]]:
        return members(page, "items")

    def read(self, row: Mapping[str, Any]) -> Heard | Ignored:
        """As the claims of a webhook's token, whose proof is not asked for here."""
        claims = base64.urlsafe_b64encode(json.dumps(dict(row) | {"state": row.get("state") or "hangup"}).encode())
        return self.as_body(b"e30." + claims + b".")


def build(settings: Settings, adapter: Provider) -> list[Lister]:
    (key,) = needed(settings, KEY.name)
    return [DialpadList(settings, adapter, BASE_URL, {"Authorization": f"Bearer {key}"}, KEY.name)]

"""Quo's list of calls: /calls of the API 2026-03-30, the whole workspace's, the newest first.

https://www.quo.com/docs/2026-03-30/calls/list-calls · https://www.quo.com/docs/2026-03-30/introduction

The older /v1/calls cannot be used: it wants one number of the workspace and the very caller that is looked for. `createdAt[gte]` and
`[lte]` take times in UTC, both included; 50 rows a page, 10 requests a second. A row lists who took part, and by `actorId` who of them
belongs to the workspace; not who rang whom. Where several outsiders took part, nothing tells who of them called.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bridge.providers import documents, reading
from bridge.providers.base import Heard, Ignored, Provider
from bridge.providers.lists.base import Ask, Lister, Page, Window, iso, link, members, needed
from bridge.settings import ProviderSetting, Settings

BASE_URL = "https://api.quo.com"
VERSION = "2026-03-30"
PAGE_SIZE = 50

KEY = ProviderSetting("QUO_API_KEY", "API key to read the list of calls with: Quo, Settings, API; an owner or admin makes it.", secret=True)
SETTINGS = (KEY,)


class QuoList(Lister):
    name = "quo"

    def first(self, window: Window) -> Ask:
        times = (("createdAt[gte]", iso(window.since)), ("createdAt[lte]", iso(window.until)))
        return Ask("/calls", (*times, ("include", "voicemail"), ("limit", str(PAGE_SIZE))))

    def following(self, ask: Ask, page: Page, rows: int) -> Ask | None:
        del rows
        cursor = link(page, "nextCursor")
        return ask.turned(after=cursor) if cursor else None

    def rows(self, page: Page) -> list[Mapping[str, Any]]:
        return members(page, "data")

    def read(self, row: Mapping[str, Any]) -> Heard | Ignored:
        outsiders = _numbers(row, of_workspace=False)
        if len(outsiders) > 1 and reading.told(row.get("direction")) == "incoming":
            return Ignored("several outsiders took part, and nothing tells who called")
        own = _numbers(row, of_workspace=True)
        participants = {"external": outsiders, "workspace": own if len(own) == 1 else []}
        return self.as_json({"data": {"resource": row, "context": {"participants": participants}}})


def _numbers(row: Mapping[str, Any], *, of_workspace: bool) -> list[str]:
    """The numbers of one side, each once: several colleagues may have been on the same one."""
    told = (
        reading.word(one.get("phoneNumber"))
        for one in documents.members(row, "participants")
        if documents.is_told(one, "actorId") is of_workspace
    )
    return list(dict.fromkeys(number for number in told if number is not None))


def build(settings: Settings, adapter: Provider) -> list[Lister]:
    (key,) = needed(settings, KEY.name)
    return [QuoList(settings, adapter, BASE_URL, {"Authorization": key, "Quo-Api-Version": VERSION}, KEY.name)]

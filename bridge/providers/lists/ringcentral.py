"""RingCentral's call log of the company: /restapi/v1.0/account/~/call-log.

https://developers.ringcentral.com/guide/voice/call-log/api · https://developers.ringcentral.com/guide/authentication/jwt-flow

A record is joined with its webhooks by `telephonySessionId`. Times in UTC. Access by a token that is asked for with a JWT credential; it
is good for an hour, and a new one is asked for each time. A record comes when the call has ended, as a rule within a minute.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bridge.errors import Permanent
from bridge.providers import documents, reading
from bridge.providers.base import Heard, Ignored, Provider
from bridge.providers.lists.base import Ask, Lister, Page, Post, Window, basic, iso, members, needed, with_times
from bridge.settings import ProviderSetting, Settings

BASE_URL = "https://platform.ringcentral.com"
PAGE_SIZE = 250
GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"

CLIENT = ProviderSetting("RINGCENTRAL_CLIENT_ID", "Client ID of the app with the permission Read Call Log: RingCentral Developer Console.")
SECRET = ProviderSetting("RINGCENTRAL_CLIENT_SECRET", "Client secret of that app.", secret=True)
JWT = ProviderSetting("RINGCENTRAL_JWT", "JWT credential of an admin for that app: Developer Console, Credentials.", secret=True)
SETTINGS = (CLIENT, SECRET, JWT)

# `result` of a record as the reason of a webhook's `Disconnected`; any other was an ordinary end.
REASONS: Mapping[str, str] = {
    "missed": "NoAnswer",
    "no answer": "NoAnswer",
    "voicemail": "NoAnswer",
    "abandoned": "Cancelled",
    "hang up": "Cancelled",
    "busy": "TargetBusy",
    "rejected": "Rejected",
    "declined": "Rejected",
    "call failed": "InternalError",
    "ip phone offline": "InternalError",
}


class CallLog(Lister):
    name = "ringcentral"

    def __init__(self, settings: Settings, adapter: Provider) -> None:
        client, secret, self._jwt = needed(settings, CLIENT.name, SECRET.name, JWT.name)
        super().__init__(settings, adapter, BASE_URL, basic(client, secret), f"{CLIENT.name}, {SECRET.name} and {JWT.name}")

    def authorize(self, post: Post) -> Mapping[str, str]:
        page = post(Ask("/restapi/oauth/token"), self._headers, {"grant_type": GRANT, "assertion": self._jwt})
        token = reading.told(page.document.get("access_token")) if isinstance(page.document, dict) else None
        if not token:
            raise Permanent("RingCentral gave no access token", cause="list.no_token", hint=f"Check {self.credentials}.")
        return {"Authorization": f"Bearer {token}"}

    def first(self, window: Window) -> Ask:
        times = (("dateFrom", iso(window.since)), ("dateTo", iso(window.until)))
        return self._page(1, times)

    def following(self, ask: Ask, page: Page, rows: int) -> Ask | None:
        number = int(dict(ask.query)["page"])
        document = page.document if isinstance(page.document, dict) else {}
        has_next = documents.is_told(documents.part(document, "navigation"), "nextPage") or rows == PAGE_SIZE
        return self._page(number + 1, ask.query[:2]) if has_next and rows else None

    def rows(self, page: Page) -> list[Mapping[str, Any]]:
        return members(page, "records")

    def read(self, row: Mapping[str, Any]) -> Heard | Ignored:
        if (reading.told(row.get("type")) or "Voice").casefold() != "voice":
            return Ignored("a fax")
        result = reading.told(row.get("result")) or ""
        status = {"code": "Disconnected", "reason": REASONS.get(result.casefold())}
        party = {"id": "listed-1", "direction": row.get("direction"), "from": row.get("from"), "to": row.get("to"), "status": status}
        heard = self.as_json({"body": {"telephonySessionId": row.get("telephonySessionId"), "parties": [party]}})
        started, duration = reading.instant(row.get("startTime")), reading.seconds(row.get("duration"))
        ended = reading.instant(str(int(started.timestamp()) + duration)) if started and duration is not None else None
        return with_times(heard, started=started, ended=ended)

    @staticmethod
    def _page(number: int, times: tuple[tuple[str, str], ...]) -> Ask:
        asked = (("direction", "Inbound"), ("view", "Simple"), ("perPage", str(PAGE_SIZE)), ("page", str(number)))
        return Ask("/restapi/v1.0/account/~/call-log", (*times, *asked))


def build(settings: Settings, adapter: Provider) -> list[Lister]:
    return [CallLog(settings, adapter)]

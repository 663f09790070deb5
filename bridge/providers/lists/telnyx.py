"""What Telnyx keeps of calls: each webhook that it sent or tried to send (Call Control), and the calls of TeXML applications.

https://developers.telnyx.com/api-reference/webhooks/list-webhook-deliveries ·
https://developers.telnyx.com/api-reference/texml-rest-commands/fetch-multiple-call-resources

A delivery holds the whole event, so the adapter reads it as if it had come; `call.initiated` and `call.hangup` tell the two ends of a
call. Detail records are no help: their OpenAPI form does not promise the session id that joins them with the webhooks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bridge.providers import documents, reading
from bridge.providers.base import Heard, Ignored, Provider
from bridge.providers.lists import laml
from bridge.providers.lists.base import Ask, Lister, Page, Window, day, iso, members, needed
from bridge.settings import DAY_S, ProviderSetting, Settings

BASE_URL = "https://api.telnyx.com"
PAGE_SIZE = 250
EVENTS = "call.initiated,call.hangup"

KEY = ProviderSetting("TELNYX_API_KEY", "API key (V2) to read webhook deliveries and calls with: Mission Control, API Keys.", secret=True)
TEXML_ACCOUNT = ProviderSetting("TELNYX_ACCOUNT_SID", "Account id whose TeXML calls are read; unset: Call Control alone.")
SETTINGS = (KEY, TEXML_ACCOUNT)


class Deliveries(Lister):
    name = "telnyx"

    def first(self, window: Window) -> Ask:
        since, until = iso(window.since), iso(window.until + DAY_S)  # a delivery that was repeated may begin later than its call
        return self._page(1, (("filter[started_at][gte]", since), ("filter[started_at][lte]", until)))

    def following(self, ask: Ask, page: Page, rows: int) -> Ask | None:
        number = int(dict(ask.query)["page[number]"])
        document = page.document if isinstance(page.document, dict) else {}
        total = reading.seconds(documents.part(document, "meta").get("total_pages"))
        is_last = number >= total if total is not None else rows < PAGE_SIZE
        return None if is_last or not rows else self._page(number + 1, tuple(pair for pair in ask.query if "started_at" in pair[0]))

    def rows(self, page: Page) -> list[Mapping[str, Any]]:
        return members(page, "data")

    def read(self, row: Mapping[str, Any]) -> Heard | Ignored:
        return self.as_json({"data": documents.part(row, "webhook")})

    @staticmethod
    def _page(number: int, times: tuple[tuple[str, str], ...]) -> Ask:
        return Ask(
            "/v2/webhook_deliveries",
            (("filter[event_type]", EVENTS), *times, ("page[number]", str(number)), ("page[size]", str(PAGE_SIZE))),
        )


class TexmlCalls(laml.LamlLister):
    """Whole days, as with Twilio (library telnyx 4.189.0, texml/accounts/call_retrieve_calls_params.py)."""

    name = "telnyx"

    def __init__(self, settings: Settings, adapter: Provider, headers: Mapping[str, str], account: str) -> None:
        super().__init__(settings, adapter, BASE_URL, headers, f"{KEY.name} and {TEXML_ACCOUNT.name}")
        self._account = account

    def first(self, window: Window) -> Ask:
        days = (("StartTime>", day(window.since - DAY_S)), ("StartTime<", day(window.until + DAY_S)))
        return Ask(f"/v2/texml/Accounts/{self._account}/Calls", (*days, ("PageSize", str(laml.PAGE_SIZE))))


def build(settings: Settings, adapter: Provider) -> list[Lister]:
    (key,) = needed(settings, KEY.name)
    headers = {"Authorization": f"Bearer {key}"}
    found: list[Lister] = [Deliveries(settings, adapter, BASE_URL, headers, KEY.name)]
    account = settings.value(TEXML_ACCOUNT.name).strip()
    return [*found, TexmlCalls(settings, adapter, headers, account)] if account else found

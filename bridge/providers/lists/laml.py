"""The list of calls that Twilio made and others kept: SignalWire's Compatibility API and Telnyx's TeXML.

https://www.twilio.com/docs/voice/api/call-resource#read-multiple-call-resources
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bridge.providers import reading
from bridge.providers.base import Heard, Ignored
from bridge.providers.lists.base import Ask, Lister, Page, link, members, with_times

PAGE_SIZE = 1000
# Their names in a list and in a webhook.
_FIELDS = {
    "sid": "CallSid",
    "from": "From",
    "to": "To",
    "status": "CallStatus",
    "direction": "Direction",
    "caller_name": "CallerName",
    "forwarded_from": "ForwardedFrom",
    "duration": "CallDuration",  # seconds in both
}


class LamlLister(Lister):
    """Rows under `calls`, and `next_page_uri` for the page after."""

    def following(self, ask: Ask, page: Page, rows: int) -> Ask | None:
        del ask, rows
        uri = link(page, "next_page_uri")
        return Ask(uri) if uri else None

    def rows(self, page: Page) -> list[Mapping[str, Any]]:
        return members(page, "calls")

    def read(self, row: Mapping[str, Any]) -> Heard | Ignored:
        if reading.told(row.get("parent_call_sid")):
            return Ignored("a leg of another call")
        heard = self.as_form({ours: row.get(theirs) for theirs, ours in _FIELDS.items()})
        started = reading.instant(row.get("start_time")) or reading.instant(row.get("date_created"))
        return with_times(heard, started=started, ended=reading.instant(row.get("end_time")))

"""SignalWire's list of calls: /api/laml/2010-04-01/Accounts/{ProjectID}/Calls of the Compatibility API, at the address of the Space.

https://developer.signalwire.com/compatibility-api/rest/list-calls

Twilio's list, but `StartTime>` is an instant in RFC 2822 by one page and a day by another: a day more is right for both.
"""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import format_datetime

from bridge.providers.base import Provider
from bridge.providers.lists import laml
from bridge.providers.lists.base import Ask, Lister, Window, basic, needed
from bridge.settings import DAY_S, ProviderSetting, Settings

SPACE = ProviderSetting("SIGNALWIRE_SPACE", "Host of the Space whose list of calls is read: example.signalwire.com.")
PROJECT = ProviderSetting("SIGNALWIRE_PROJECT_ID", "Project ID: SignalWire Space, API.")
TOKEN = ProviderSetting("SIGNALWIRE_API_TOKEN", "API token (PT…) with the scope Voice: SignalWire Space, API.", secret=True)
SETTINGS = (SPACE, PROJECT, TOKEN)


class SignalWireList(laml.LamlLister):
    name = "signalwire"

    def __init__(self, settings: Settings, adapter: Provider) -> None:
        space, self._project, token = needed(settings, SPACE.name, PROJECT.name, TOKEN.name)
        host = space.removeprefix("https://").rstrip("/")
        credentials = f"{SPACE.name}, {PROJECT.name} and {TOKEN.name}"
        super().__init__(settings, adapter, f"https://{host}", basic(self._project, token), credentials)

    def first(self, window: Window) -> Ask:
        since = format_datetime(datetime.fromtimestamp(window.since - DAY_S, UTC))
        path = f"/api/laml/2010-04-01/Accounts/{self._project}/Calls"
        return Ask(path, (("StartTime>", since), ("PageSize", str(laml.PAGE_SIZE))))


def build(settings: Settings, adapter: Provider) -> list[Lister]:
    return [SignalWireList(settings, adapter)]

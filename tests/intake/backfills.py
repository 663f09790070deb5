"""A backfill of Twilio's calls: a stand-in of its list, and a bridge without web and workers."""

from __future__ import annotations

from bridge.intake.backfill import Backfill
from bridge.providers import lists, registry
from bridge.providers.lists.base import Window
from bridge.providers.lists.http import Fetcher
from bridge.sandbox.call_list_types import SandboxCall
from bridge.sandbox.call_lists import CallLists
from tests.support.builders import NOW, PHONE
from tests.support.house import House

EVERY_S = 0.5


def a_call(number: int = 0, **facts) -> SandboxCall:
    told = {"id": f"CA{number}", "caller": f"+1555010{number:04d}", "dialled": "+15550109999", "started": NOW - 3600 + number}
    return SandboxCall(**told | facts)


def a_house(connection, world: CallLists, **environment: str) -> House:
    told = {"TWILIO_ACCOUNT_SID": "AC1", "BACKFILL_BASE_URLS": world.base_urls}
    return House(connection, **told | environment)


class Filler:
    """The backfill of a house."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.lists = lists.build(house.settings, registry.build(house.settings))
        self.engine = Backfill(
            house.store,
            house.plan,
            house.settings,
            every_s=EVERY_S,
            make_fetcher=lambda lister: Fetcher(lister.base_url, lister.credentials, sleep=lambda _: None),
        )

    def fill(self, *, hours: float = 2, dry_run: bool = False):
        now = self.house.clock.now()
        (lister,) = self.lists.listers
        return self.engine.bring(self.engine.read(lister, Window(now - hours * 3600, now)), dry_run=dry_run)


WITHHELD = {"caller": "anonymous"}
CALLER = {"caller": PHONE}

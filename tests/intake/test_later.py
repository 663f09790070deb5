"""A later call of the same caller that has been brought: found whatever else has come of the caller's calls since."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
import redis

from bridge.intake import later
from bridge.ledger.entry import Entry
from tests.support.builders import ANONYMOUS, NOW, done_entry, make_call, parked_entry
from tests.support.house import House


@pytest.fixture
def house(connection: redis.Redis) -> House:
    return House(connection)


def call(entry: Entry, name: str, at: float, *, begun: float | None = None, **facts) -> Entry:
    """`entry` as the call `name`, which came in at NOW + `at`, and began `begun` seconds before NOW by the phone system's word."""
    started = datetime.fromtimestamp(NOW - begun, UTC) if begun is not None else None
    told = make_call(root_id=name, started_at=started, **facts)
    return replace(entry, call_key=told.key, facts=told, accepted_at=NOW + at, contact_id="c1" if entry.trouble is None else None)


def later_than(house: House, entry: Entry, *others: Entry) -> str | None:
    for one in (entry, *others):
        house.put(one)
    found = later.brought(house.store, [entry, *others]).get(entry.call_key)
    return found.facts.root_id if found else None


def test_it_is_found_though_the_newest_call_has_failed_as_well(house: House) -> None:
    a, b, c = call(parked_entry(), "A", 0), call(done_entry(), "B", 10), call(parked_entry(), "C", 20)
    assert later_than(house, a, b, c) == "B"


def test_an_earlier_one_is_none(house: House) -> None:
    assert later_than(house, call(parked_entry(), "B", 10), call(done_entry(), "A", 0)) is None


def test_one_without_a_lead_is_none(house: House) -> None:
    closed = replace(call(done_entry(), "B", 10), contact_id=None)
    assert later_than(house, call(parked_entry(), "A", 0), closed) is None


def test_what_is_later_goes_by_when_somebody_rang(house: House) -> None:
    from_a_list = call(parked_entry(), "A", 100, begun=86_400)
    assert later_than(house, from_a_list, call(done_entry(), "B", 0, begun=0)) == "B"


def test_calls_without_a_number_have_nobody_in_common(house: House) -> None:
    assert later_than(house, call(parked_entry(), "A", 0, caller=ANONYMOUS), call(done_entry(), "B", 10, caller=ANONYMOUS)) is None

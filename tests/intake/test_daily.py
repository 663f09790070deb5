"""The daily sum: every listed call is somewhere, or it is named."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime

import pytest

from bridge.call import Status
from bridge.errors import Transient
from bridge.intake import daily
from bridge.intake.backfill import Listed
from bridge.ledger import moves
from bridge.ledger.entry import Cause, Plan
from bridge.providers.lists.base import Window
from bridge.sandbox.call_lists import CallLists
from tests.intake.backfills import Filler, a_call, a_house
from tests.support.builders import NOW, done_entry, entry_in, make_call, parked_entry, running_entry

DAY = date(2026, 1, 15)
STARTED = datetime.fromtimestamp(NOW - 1800, UTC)


@pytest.fixture
def world():
    with CallLists() as server:
        yield server


@pytest.fixture
def house(connection, world):
    return a_house(connection, world)


def day_sum(house, world, day=DAY) -> daily.Sum:
    filler = Filler(house)
    now = house.clock.now()
    return daily.read(house.store, day, "twilio", [filler.engine.read(lister, daily.window(day, now)) for lister in filler.lists.listers])


def lead(entry):
    return replace(entry, contact_id="c1")


@pytest.mark.parametrize(
    ("entry", "sort"),
    [
        (lead(done_entry()), ("lead", "")),
        (moves.finish(running_entry(), Plan(reason="no usable caller"), NOW), ("without lead", "no usable caller")),
        (moves.close(parked_entry(), reason="rang them myself", by="anna"), ("without lead", "closed by hand")),
        (parked_entry(Cause.CONFLICT), ("needs attention", "conflict")),
        (entry_in("accepted"), ("under way", "accepted")),
        (entry_in("running"), ("under way", "running")),
    ],
)
def test_every_state_is_counted_under_one_heading(entry, sort) -> None:
    assert daily.sort(entry) == sort


def test_sum_adds_up_and_says_what_it_is_made_of(house, world) -> None:
    world.add("twilio", *[a_call(number) for number in range(4)])
    started = datetime.fromtimestamp(NOW - 3600, UTC)
    calls = [make_call(root_id=f"CA{number}", started_at=started) for number in range(4)]
    house.put(lead(done_entry(facts=calls[0])))
    house.put(moves.finish(running_entry(facts=calls[1]), Plan(reason="withheld"), NOW))
    house.put(parked_entry(facts=calls[2]))
    house.put(running_entry(facts=calls[3]))
    told = day_sum(house, world)
    assert told.ok
    assert (told.listed, told.leads, told.without_lead, told.attention, told.under_way) == (4, 1, {"withheld": 1}, {"permanent": 1}, 1)


def test_listed_call_that_the_ledger_lacks_is_named(house, world) -> None:
    world.add("twilio", a_call(0))
    told = day_sum(house, world)
    assert told.missing == ("twilio-CA0",)
    assert not told.ok


def test_call_that_the_provider_does_not_list_is_named(house, world) -> None:
    house.clock.at = NOW - 900
    house.accept(make_call(root_id="CA7", started_at=STARTED))
    house.clock.at = NOW
    told = day_sum(house, world)
    assert told.unlisted == ("twilio-CA7",)
    assert not told.ok


def test_call_of_the_last_minute_is_counted_on_neither_side(house, world) -> None:
    world.add("twilio", a_call(0, started=NOW - 10))
    house.accept(make_call(root_id="CA8", started_at=datetime.fromtimestamp(NOW - 10, UTC)))
    told = day_sum(house, world)
    assert (told.listed, told.ok) == (0, True)


def test_call_that_goes_on_or_has_just_ended_accuses_nobody(house, world) -> None:
    """Plivo, Dialpad, RingCentral and others list a call only when it is over."""
    house.clock.at = NOW - 1800
    house.accept(make_call(root_id="CA7", started_at=STARTED, status=Status.IN_PROGRESS, raw_status="in-progress"))
    house.clock.at = NOW
    assert day_sum(house, world).ok
    ended = datetime.fromtimestamp(NOW - 20, UTC)
    house.accept(make_call(root_id="CA7", started_at=STARTED, ended_at=ended), "the end")
    assert day_sum(house, world).ok
    house.clock.advance(120)
    assert day_sum(house, world).unlisted == ("twilio-CA7",)


def test_call_whose_end_was_never_told_is_named_after_hours(house, world) -> None:
    house.clock.at = NOW - 5 * 3600
    began = datetime.fromtimestamp(NOW - 5 * 3600, UTC)
    house.accept(make_call(root_id="CA7", started_at=began, status=Status.RINGING, raw_status="ringing"))
    house.clock.at = NOW
    assert day_sum(house, world).unlisted == ("twilio-CA7",)


def test_list_that_was_not_read_to_its_end_accuses_no_call(house, world) -> None:
    house.clock.at = NOW - 900
    house.accept(make_call(root_id="CA7", started_at=STARTED))
    house.clock.at = NOW
    listed = Listed(Filler(house).lists.listers[0], Window(0, NOW), fault=Transient("away", cause="list.away"))
    told = daily.read(house.store, DAY, "twilio", [listed])
    assert (told.ok, told.unlisted, told.fault) == (False, (), "away")


def test_sums_are_kept_and_old_days_forgotten(house) -> None:
    sums = [daily.Sum(f"2026-02-{number:02d}", "twilio", number, missing=("k",)) for number in range(1, 29)]
    more = [daily.Sum(f"2026-03-{number:02d}", "twilio", number) for number in range(1, 20)]
    daily.keep(house.connection, [*sums, *more])
    daily.keep(house.connection, [])
    assert daily.kept(house.connection, date(2026, 2, 1)) == []
    assert daily.kept(house.connection, date(2026, 2, 28)) == [sums[27]]

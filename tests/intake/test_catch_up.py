"""The backfill that runs by itself: one of a deployment, over a window that loses nothing."""

from __future__ import annotations

import threading

import pytest

from bridge.errors import Transient
from bridge.intake import daily
from bridge.intake.backfill import Listed
from bridge.intake.catch_up import SOON_S, SUMMED, TURN, CatchUp
from bridge.sandbox.call_lists import CallLists
from tests.intake.backfills import Filler, a_call, a_house
from tests.support.builders import NOW, make_call
from tests.support.house import House


@pytest.fixture
def world():
    with CallLists() as server:
        yield server


@pytest.fixture
def house(connection, world):
    return a_house(connection, world)


def catch_up(house, **options) -> CatchUp:
    filler = Filler(house)
    return CatchUp(house.store, filler.engine, filler.lists, **{"every_s": 600.0, "overlap_s": 7200.0} | options)


def test_one_process_of_a_deployment_takes_a_turn(house, world) -> None:
    world.add("twilio", a_call(0))
    first, second = catch_up(house), catch_up(house)
    assert first.once()[0].inserted == 1
    assert second.once() is None


def test_next_turn_comes_soon_after_something_was_found_missing(house, world) -> None:
    world.add("twilio", a_call(0))
    ours = catch_up(house)
    ours.once()
    assert house.connection.pttl(TURN) <= SOON_S * 1000
    house.connection.delete(TURN)
    ours.once()
    assert house.connection.pttl(TURN) > SOON_S * 1000


def test_list_that_failed_is_asked_again_soon_from_the_same_place(house, world) -> None:
    ours = catch_up(house)
    ours.once()
    house.clock.advance(5 * 3600)
    world.add("twilio", a_call(0, started=NOW + 60))
    world.broken = 4
    house.connection.delete(TURN)
    assert not ours.once()[0].ok
    assert house.connection.pttl(TURN) <= SOON_S * 1000
    house.connection.delete(TURN)
    assert ours.once()[0].inserted == 1


def test_list_that_says_when_to_come_again_is_left_alone_until_then(house, world) -> None:
    ours = catch_up(house)
    ours.backfill.read = lambda lister, window: Listed(lister, window, fault=Transient("busy", cause="list.429", retry_in=300))
    ours.once()
    assert SOON_S * 1000 < house.connection.pttl(TURN) <= 300_000


def test_window_reaches_back_over_an_outage_of_hours(house, world) -> None:
    ours = catch_up(house)
    ours.once()
    world.add("twilio", a_call(0, started=NOW + 1800))
    house.clock.advance(9 * 3600)
    house.connection.delete(TURN)
    assert ours.once()[0].inserted == 1


def test_call_that_was_left_to_its_webhook_lies_in_the_next_window_too(house, world) -> None:
    ours = catch_up(house, overlap_s=60.0)
    house.clock.at = NOW - 3000
    ours.once()  # so that the next window begins before the call
    house.clock.at = NOW
    world.add("twilio", a_call(0, started=NOW - 2500, duration_s=2490))
    house.connection.delete(TURN)
    assert ours.once()[0].too_young == 1
    house.clock.advance(60)
    house.connection.delete(TURN)
    assert ours.once()[0].inserted == 1


def test_first_run_goes_no_further_back_than_the_overlap(house, world) -> None:
    world.add("twilio", a_call(0, started=NOW - 7300), a_call(1))
    assert catch_up(house).once()[0].inserted == 1


def test_who_listens_hears_what_was_found(house, world) -> None:
    world.add("twilio", a_call(0))
    heard = []
    catch_up(house, after=heard.extend).once()
    assert [found.missed for found in heard] == [["twilio-CA0"]]


def test_days_sum_is_made_once_an_hour_and_kept(house, world) -> None:
    world.add("twilio", a_call(0))
    ours = catch_up(house)
    ours.once()
    today = daily.datetime.fromtimestamp(NOW, daily.UTC).date()
    (kept,) = daily.kept(house.connection, today)
    assert (kept.listed, kept.under_way, kept.ok) == (1, 1, True)
    asked = len(world.asked)
    house.connection.delete(TURN)
    ours.once()
    assert len(world.asked) == asked + 1
    assert house.connection.exists(SUMMED)


def test_who_listens_hears_of_each_turn_also_without_a_list(connection) -> None:
    heard = []
    assert catch_up(House(connection), after=heard.append).once() == []
    assert heard == [[]]


def test_it_runs_until_it_is_told_to_stop_and_outlives_faults(house, world, caplog, monkeypatch) -> None:
    monkeypatch.setattr("bridge.intake.catch_up.LOOK_EVERY_S", 0.01)
    world.add("twilio", a_call(0))
    stopping, looks = threading.Event(), []

    def after(found):
        looks.append(found)
        if len(looks) == 1:
            house.connection.delete(TURN)
            raise ValueError("a fault of ours")
        stopping.set()

    catch_up(house, after=after).run(stopping.wait)
    assert len(looks) == 2
    assert "a fault of our own" in caplog.text


def test_known_calls_of_a_webhook_are_never_touched(house, world) -> None:
    house.accept(make_call(root_id="CA0"))
    before = house.entry("twilio-CA0")
    world.add("twilio", a_call(0))
    assert catch_up(house).once()[0].known == 1
    assert house.entry("twilio-CA0") == before

"""The clock of the promise: since when something is owed for a call, and how long it took."""

from __future__ import annotations

from dataclasses import replace

import pytest
import redis

from bridge.call import Status
from bridge.errors import Transient
from bridge.ledger import by_hand, keys, moves, owed
from bridge.ledger.entry import Plan, State
from bridge.ledger.owed import Reached, Row
from tests.support.builders import KEY, NOW, done_entry, make_call, make_entry, parked_entry, queued_entry, running_entry
from tests.support.house import House

OWED = keys.owed(owed.PROCESS)
WAITS = moves.finish(running_entry(), Plan(wait_until=NOW + 120, waiting_for="the call goes on"), NOW)
FAILED = moves.wait(running_entry(), NOW, delay=30, spend=True, cause="crm.5xx", message="", step=None, trace_id=None)
DIED = moves.put_back(running_entry(), NOW, delay=30)
NOBODY = replace(make_entry(), next_try_at=NOW + 900)


@pytest.fixture
def house(connection: redis.Redis) -> House:
    return House(connection)


def since(house: House) -> float | None:
    return house.connection.zscore(OWED, KEY)


def took(house: House, what: Reached) -> dict[str, float]:
    return {name.decode(): float(value) for name, value in house.connection.hgetall(keys.took(owed.PROCESS, what)).items()}


@pytest.mark.parametrize(
    ("old", "new", "row"),
    [
        pytest.param(None, queued_entry(), Row(NOW + 5), id="a new call is owed from now on"),
        pytest.param(None, NOBODY, Row(NOW + 900), id="a call without a caller is owed when the wait for one ends"),
        pytest.param(NOBODY, queued_entry(), Row(NOW + 5), id="... or as soon as somebody names the caller"),
        pytest.param(queued_entry(), running_entry(), None, id="running changes nothing"),
        pytest.param(running_entry(), FAILED, None, id="a pause after a failure is part of the wait"),
        pytest.param(running_entry(), DIED, None, id="so is one after a death"),
        pytest.param(FAILED, moves.queue(FAILED, NOW + 30), None, id="a retry goes on counting"),
        pytest.param(running_entry(), WAITS, Row(NOW + 120), id="a call that goes on is owed from the end of that wait"),
        pytest.param(WAITS, replace(WAITS, version=2, next_try_at=NOW + 200), Row(NOW + 200), id="news of a call that goes on move that"),
        pytest.param(WAITS, replace(WAITS, version=2), None, id="what does not move it writes nothing"),
        pytest.param(WAITS, moves.queue(WAITS, NOW + 5), Row(NOW + 5), id="its end is owed from its event on"),
        pytest.param(replace(WAITS, next_try_at=NOW), moves.queue(WAITS, NOW + 5), Row(NOW), id="a sweeper that comes late hides nothing"),
        pytest.param(running_entry(), done_entry(), Row(None), id="a done call is owed nothing"),
        pytest.param(running_entry(), parked_entry(), Row(None), id="a parked call is its owner's"),
        pytest.param(WAITS, parked_entry(), Row(None), id="also if it waited"),
        pytest.param(done_entry(), queued_entry(), Row(NOW + 5), id="a reopened call is owed from the news on"),
        pytest.param(done_entry(), done_entry(), None, id="a done call that stays done writes nothing"),
        pytest.param(
            parked_entry(), by_hand.replay(parked_entry(), NOW, start_at=NOW + 50), Row(NOW + 50), id="a replay is owed from its turn on"
        ),
    ],
)
def test_since_when_something_is_owed(old, new, row) -> None:
    assert owed.row(old, new, NOW + 5) == row


def test_a_call_on_its_road_is_owed_its_lead_and_then_its_note(house: House) -> None:
    house.accept(make_call(status=Status.IN_PROGRESS))
    assert since(house) == NOW
    house.clock.advance(4)
    house.run()
    assert since(house) == NOW + 120, "its note waits for the end"
    assert took(house, Reached.LEAD) == {"5": 1, "sum": 4}
    house.clock.advance(66)
    house.accept(make_call())
    assert since(house) == NOW + 70
    house.clock.advance(25)
    house.run()
    assert since(house) is None
    assert took(house, Reached.LEAD) == {"5": 1, "sum": 4}, "a call is one lead"
    assert took(house, Reached.SETTLED) == {"5": 1, "30": 1, "sum": 29}


def test_the_wait_for_a_crm_that_is_away_counts_in_full(house: House) -> None:
    house.accept(make_call())
    house.crm.refuse("find_contact", Transient("away", cause="crm.connect"))
    house.run()
    assert house.entry().state is State.ACCEPTED
    assert since(house) == NOW
    house.clock.advance(200_000)
    house.run_again()
    assert house.entry().state is State.DONE
    assert took(house, Reached.LEAD) == {"+Inf": 1, "sum": 200_000}


def test_the_hours_know_how_fast_their_leads_came(house: House) -> None:
    house.accept(make_call())
    house.clock.advance(45)
    house.run()
    hour = int(house.clock.at // 3600)
    told = house.store.hours(hour, hour)
    assert told[hour, "lead_s:60"] == 1
    assert house.connection.ttl(keys.hours(hour // 24)) > 0


def test_what_a_person_does_says_nothing_about_the_pace(house: House) -> None:
    house.put(parked_entry())
    house.change(lambda entry, now: by_hand.adopt(entry, now, "c1", start_at=now))
    assert took(house, Reached.LEAD) == {}
    assert owed.reached(parked_entry(), done_entry()) == ()
    lost = replace(running_entry(), lost_contact_id="c0")
    assert owed.reached(lost, replace(lost, contact_id="c1")) == ()

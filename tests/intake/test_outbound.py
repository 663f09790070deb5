"""Calls that did not come in: whatever the order of their events, and whatever some of them leave out, none is a question."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
import redis

from bridge.call import Call, Direction, Leg, Recording, Status
from bridge.errors import Permanent
from bridge.intake.accept import BELONGS, Event
from bridge.ledger import keys
from bridge.ledger.entry import Cause, State, Taken
from bridge.ledger.ignored import Shelf
from handlers.no_lead import CALLER_WAIT_S, NOT_OURS
from tests.support.builders import KEY, make_call
from tests.support.house import House

BARE = {"caller": None, "dialled": None, "status": Status.UNKNOWN, "raw_status": None}
OUTBOUND = make_call(direction=Direction.OUTBOUND)
RECORDED = make_call(**BARE, recordings=(Recording("RE1", "https://r.example.com/1", 5),))
RECORDED_AGAIN = make_call(**BARE, recordings=(Recording("RE2", "https://r.example.com/2", 5),))
LEG = make_call(**BARE, legs=(Leg("CA9", None, Status.COMPLETED, 5),))
REASON = BELONGS[Direction.OUTBOUND]


@pytest.fixture
def house(connection: redis.Redis) -> House:
    return House(connection)


def ignore(house: House, call: Call = OUTBOUND) -> None:
    house.acceptor.ignore(call, "status", '{"at": 1}', f"{call.direction} call", source="webhook")


def reasons(house: House) -> list[str]:
    return [event["reason"] for event in house.store.ignored.page(Shelf.OTHER, limit=9).events]


@pytest.mark.parametrize("event", [RECORDED, LEG, make_call(**BARE), make_call(**BARE | {"status": Status.COMPLETED})])
def test_an_event_that_tells_no_direction_is_ignored_after_one_that_did(house: House, event: Call) -> None:
    ignore(house)
    assert house.accept(event) is Taken.IGNORED
    assert house.store.get(KEY) is None
    assert (house.jobs(), sorted(reasons(house))) == ([], [REASON, "outbound call"])
    assert house.counted(f"events.ignored:{REASON}") == 1


def test_it_is_known_for_a_day_and_by_its_call_alone(house: House) -> None:
    ignore(house)
    assert 86_000 < house.connection.ttl(keys.no_lead(KEY)) <= 86_400
    assert house.accept(replace(RECORDED, root_id="CA2")) is Taken.NEW


def test_direction_and_count_are_written_in_one_go(house: House) -> None:
    with house.connection.monitor() as heard:
        ignore(house)
        names = []
        while "EXEC" not in names:
            names.append(heard.next_command()["command"].split()[0])
    assert names[names.index("MULTI") + 1 : names.index("EXEC")][0] == "SET"
    assert "HINCRBY" in names[names.index("MULTI") :]
    assert names.count("MULTI") == 1


def test_a_recording_that_came_first_ends_without_a_lead(house: House) -> None:
    house.accept(RECORDED)
    assert house.entry().waiting_for == "no event has named the caller yet"
    ignore(house)
    house.run()
    entry = house.entry()
    assert (entry.state, entry.reason) == (State.DONE, NOT_OURS[Direction.OUTBOUND])
    assert house.crm.requests == []
    assert house.accept(RECORDED_AGAIN) is Taken.IGNORED
    ignore(house)
    assert house.entry() == entry, "told again, it changes nothing"


def test_a_question_who_called_is_answered_by_hearing_that_nobody_did(house: House) -> None:
    house.accept(RECORDED)
    house.clock.advance(CALLER_WAIT_S)
    house.requeue()
    with pytest.raises(Permanent):
        house.run()
    assert house.entry().trouble.cause is Cause.STALE
    ignore(house)
    house.run()
    assert (house.entry().state, house.entry().trouble) == (State.DONE, None)


def test_a_leg_that_came_first_stays_without_a_question_when_its_recording_follows_days_later(house: House) -> None:
    house.accept(LEG)
    ignore(house)
    house.run()
    house.connection.delete(keys.no_lead(KEY))  # the day is over
    house.accept(RECORDED)
    assert (house.entry().state, house.entry().trouble) == (State.DONE, None)


def test_a_call_that_came_in_keeps_its_lead_though_a_leg_of_it_was_dialled(house: House) -> None:
    """Telnyx and Vonage: the caller's leg and those that are dialled share one id."""
    house.accept(make_call())
    ignore(house)
    assert house.accept(RECORDED) is Taken.NEWS
    house.run()
    entry = house.entry()
    assert (entry.state, entry.contact_id, entry.facts.direction) == (State.DONE, "c1", Direction.INBOUND)
    assert len(entry.facts.recordings) == 1


@pytest.mark.parametrize("first", [None, RECORDED])
def test_a_caller_who_is_named_after_all_becomes_a_lead(house: House, first: Call | None) -> None:
    """The event of the dialled leg came before that of the caller's."""
    if first:
        house.accept(first)
    ignore(house)
    if first:
        house.run()
    assert house.accept(make_call()) is (Taken.NEWS if first else Taken.NEW)
    house.run()
    entry = house.entry()
    assert (entry.state, entry.contact_id, entry.facts.direction) == (State.DONE, "c1", Direction.INBOUND)


def test_a_caller_without_a_direction_does_not_outweigh_one_that_was_told(house: House) -> None:
    ignore(house)
    guess = Event(make_call(), "transcription", "x", None, "webhook", '{"at": 1}', is_guess=True)
    assert house.acceptor.accept(guess) is Taken.IGNORED
    house.connection.delete(keys.no_lead(KEY))
    assert house.acceptor.accept(guess) is Taken.NEW


def test_an_internal_call_is_told_by_its_own_name(house: House) -> None:
    house.accept(RECORDED)
    ignore(house, replace(OUTBOUND, direction=Direction.INTERNAL))
    house.run()
    assert house.entry().reason == NOT_OURS[Direction.INTERNAL]
    house.accept(RECORDED_AGAIN)
    assert sorted(reasons(house)) == [BELONGS[Direction.INTERNAL], "internal call"]


def test_both_at_once_leave_no_call_that_waits(house: House) -> None:
    for number in range(30):
        calls = [replace(call, root_id=f"CA{number}") for call in (OUTBOUND, RECORDED)]
        start = threading.Barrier(2)

        def meet(act, call, start=start) -> None:
            start.wait()
            act(call)

        threads = [
            threading.Thread(target=meet, args=(lambda call: ignore(house, call), calls[0])),
            threading.Thread(target=meet, args=(house.accept, calls[1])),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        entry = house.store.get(calls[0].key)
        assert entry is None or (entry.facts.direction is Direction.OUTBOUND and entry.queued_at is not None)

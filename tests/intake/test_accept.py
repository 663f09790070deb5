"""Events come in: once, in any order, and never without the job that will run them."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import UTC, datetime

import pytest
import redis

from bridge.call import Caller, CallerKind, Input, Recording, Status
from bridge.intake.accept import LONGEST_CALL_S, Event, began_at
from bridge.ledger import keys, moves
from bridge.ledger.entry import Cause, State, Taken
from bridge.ledger.store import Store
from tests.support.broken import unreachable
from tests.support.builders import ANONYMOUS, KEY, NOW, make_call, make_trouble
from tests.support.house import House, make_store

OTHER = Caller("+15550105678", CallerKind.PSTN, "+15550105678")
RINGING = make_call(status=Status.RINGING, raw_status="ringing")
RECORDED = make_call(recordings=(Recording("RE1", "https://r.example.com/1", 12),))


@pytest.fixture
def house(connection: redis.Redis) -> House:
    return House(connection)


def event(**facts) -> Event:
    values = {"call": make_call(), "what": "status", "content": "x", "delivery_id": None, "source": "webhook", "raw": "{}"}
    return Event(**values | facts)


def test_a_new_call_is_stored_and_queued(house: House) -> None:
    assert house.accept(make_call()) is Taken.NEW
    entry = house.entry()
    assert (entry.state, entry.location_id, entry.owner, entry.version) == (State.ACCEPTED, "loc1", "anna", 1)
    assert house.jobs() == [KEY]
    assert house.told() == ["event new"]
    assert house.counted("events.new") == 1
    assert house.connection.lrange(keys.raw(KEY), 0, -1) == [b'{"raw": true}']


def test_of_forty_deliveries_at_once_one_is_new(house: House) -> None:
    taken: list[Taken] = []
    start = threading.Barrier(40)

    def deliver() -> None:
        start.wait()
        taken.append(house.accept(make_call()))

    threads = [threading.Thread(target=deliver) for _ in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == [Taken.NEW] + [Taken.REPEAT] * 39
    assert house.jobs() == [KEY]
    assert len(house.entry().events) == 1
    assert (house.counted("events.new"), house.counted("events.repeat")) == (1, 39)


def test_forty_different_events_at_once_are_all_kept(house: House) -> None:
    recorded = [make_call(recordings=(Recording(f"RE{number}", "https://r"),)) for number in range(40)]
    threads = [threading.Thread(target=house.accept, args=(call,)) for call in recorded]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(house.entry().facts.recordings) == 40
    assert house.entry().version == 40
    assert house.jobs() == [KEY]


def test_a_repeat_changes_nothing_but_its_counter(house: House) -> None:
    house.accept(make_call())
    before = house.connection.get(keys.entry(KEY))
    assert house.accept(make_call()) is Taken.REPEAT
    assert house.connection.get(keys.entry(KEY)) == before
    assert house.told() == ["event new"]
    assert house.counted("events.repeat") == 1


def test_an_event_that_tells_nothing_new_is_counted_once(house: House) -> None:
    house.accept(make_call(), "one delivery")
    assert house.accept(make_call(), "another delivery") is Taken.REPEAT
    assert house.counted("events.repeat") == 1
    assert house.entry().version == 1


def test_a_call_that_goes_on_is_queued_for_its_lead(house: House) -> None:
    house.accept(RINGING)
    assert house.jobs() == [KEY]


def test_a_call_that_names_nobody_yet_waits_for_its_caller(house: House) -> None:
    house.accept(make_call(caller=None))
    entry = house.entry()
    assert house.jobs() == []
    assert (entry.state, entry.next_try_at) == (State.ACCEPTED, NOW + 900)
    assert entry.waiting_for == "no event has named the caller yet"
    assert house.accept(RECORDED) is Taken.NEWS
    assert house.jobs() == [KEY]


def test_news_for_a_queued_call_do_not_queue_it_twice(house: House) -> None:
    house.accept(RINGING)
    assert house.accept(make_call()) is Taken.NEWS
    assert house.jobs() == [KEY]
    assert house.entry().version == 2


def test_news_while_a_call_runs_are_left_to_its_attempt(house: House) -> None:
    house.accept(RINGING)
    house.connection.delete("rq:queue:calls")
    house.change(lambda entry, now: moves.begin(entry, now, lease_s=30, worker="w"))
    assert house.accept(make_call()) is Taken.NEWS
    assert house.jobs() == []
    assert (house.entry().state, house.entry().version) == (State.RUNNING, 2)


def test_news_for_a_done_call_queue_it_when_there_is_something_to_bring(house: House) -> None:
    house.accept(make_call())
    house.run()
    assert house.entry().state is State.DONE
    house.connection.delete("rq:queue:calls")
    house.accept(make_call(postcode="62701"))
    assert (house.entry().state, house.jobs()) == (State.DONE, [])
    house.accept(RECORDED)
    assert (house.entry().state, house.jobs()) == (State.ACCEPTED, [KEY])
    assert house.told()[-1] == "reopened"


def test_news_do_not_shorten_the_pause_after_a_failure(house: House) -> None:
    house.accept(RINGING)
    house.change(lambda entry, now: moves.begin(entry, now, lease_s=30, worker="w"))
    paused = dict.fromkeys(("step", "trace_id")) | {"delay": 60, "spend": True, "cause": "crm.5xx", "message": "down"}
    house.change(lambda entry, now: moves.wait(entry, now, **paused))
    house.connection.delete("rq:queue:calls")
    house.accept(make_call())
    assert (house.entry().next_try_at, house.jobs()) == (NOW + 60, [])


def test_news_for_a_parked_call_leave_it_to_the_person(house: House) -> None:
    house.accept(RINGING)
    house.change(lambda entry, now: moves.park(entry, now, make_trouble()))
    house.connection.delete("rq:queue:calls")
    house.accept(make_call())
    assert (house.entry().state, house.entry().version, house.jobs()) == (State.NEEDS_ATTENTION, 2, [])


def test_a_closed_call_stays_closed(house: House) -> None:
    house.accept(RINGING)
    house.change(lambda entry, now: moves.close(moves.park(entry, now, make_trouble()), reason="called back", by="anna"))
    house.connection.delete("rq:queue:calls")
    house.accept(RECORDED)
    entry = house.entry()
    assert (entry.state, entry.reason, entry.closed_by, house.jobs()) == (State.DONE, "called back", "anna", [])
    assert entry.facts.recordings, "what came is kept all the same"


def test_a_conflict_keeps_both_versions_and_puts_the_job_that_reports_it(house: House) -> None:
    house.accept(make_call())
    assert house.accept(make_call(caller=OTHER)) is Taken.CONFLICT
    entry = house.entry()
    assert entry.trouble is not None
    assert (entry.state, entry.trouble.cause, entry.unreported) == (State.NEEDS_ATTENTION, Cause.CONFLICT, True)
    assert (entry.facts.caller, entry.conflicts[0].caller) == (make_call().caller, OTHER)
    assert house.jobs() == [KEY]
    assert house.told() == ["event new", "event conflict", "needs attention"]
    assert house.counted("parked") == 1


def test_no_number_stands_in_the_trail(house: House) -> None:
    house.accept(make_call())
    house.accept(make_call(caller=OTHER))
    trail = b" ".join(house.connection.lrange(keys.trail(KEY), 0, -1)).decode()
    assert "5550101234" not in trail
    assert "5550105678" not in trail


def test_a_withheld_caller_is_accepted_like_any_other(house: House) -> None:
    house.accept(make_call(caller=ANONYMOUS))
    assert house.jobs() == [KEY]


def test_nothing_is_accepted_while_redis_is_away(house: House) -> None:
    house.acceptor._store = make_store(unreachable())
    with pytest.raises(redis.ConnectionError):
        house.accept(make_call())


# ---- Fingerprints


def test_the_same_words_under_the_same_delivery_are_a_repeat() -> None:
    assert event(raw="one").fingerprint == event(raw="another", source="spool").fingerprint


@pytest.mark.parametrize("change", [{"what": "voice"}, {"content": "y"}, {"call": make_call(provider="telnyx")}])
def test_other_words_are_another_event(change: dict) -> None:
    assert event(**change).fingerprint != event().fingerprint


def test_a_new_delivery_is_another_event_only_where_a_caller_entered_something() -> None:
    pressed = make_call(inputs=(Input("digits", "1", "menu"),))
    assert event(call=pressed, delivery_id="d1").fingerprint != event(call=pressed, delivery_id="d2").fingerprint
    assert event(delivery_id="d1").fingerprint == event(delivery_id="d2").fingerprint


# ---- Calls older than the ledger

BEGAN = datetime.fromtimestamp(NOW - 100, UTC)
ENDED = datetime.fromtimestamp(NOW - 10, UTC)


@pytest.mark.parametrize(
    ("facts", "source", "wanted"),
    [
        ({"started_at": BEGAN, "ended_at": ENDED}, "webhook", NOW - 100),
        ({"answered_at": BEGAN}, "webhook", NOW - 100),
        ({"ended_at": ENDED, "duration_s": 30}, "webhook", NOW - 40),
        ({"ended_at": ENDED}, "webhook", NOW - 10),
        ({"status": Status.RINGING}, "webhook", NOW),
        ({"status": Status.UNKNOWN}, "webhook", NOW),
        ({"status": Status.RINGING}, "backfill", NOW - LONGEST_CALL_S),
        ({"status": Status.COMPLETED}, "webhook", NOW - LONGEST_CALL_S),
        ({"status": Status.UNKNOWN, "recordings": (Recording("r", "u"),)}, "webhook", NOW - LONGEST_CALL_S),
    ],
)
def test_a_call_began_at_the_latest_when_its_event_says(facts: dict, source: str, wanted: float) -> None:
    assert began_at(event(call=make_call(**facts), source=source), NOW) == wanted


def born_before(store: Store, seconds: float) -> None:
    store.connection.set(keys.BORN, repr(NOW - seconds))


def test_a_call_older_than_the_ledger_is_suspect(house: House) -> None:
    born_before(house.store, 50)
    house.accept(make_call(started_at=BEGAN))
    assert house.entry().suspect_since == NOW - 50


def test_a_call_younger_than_the_ledger_is_not(house: House) -> None:
    born_before(house.store, 200)
    house.accept(make_call(started_at=BEGAN))
    assert house.entry().suspect_since is None
    house.accept(replace(RINGING, root_id="CA2"))
    assert house.entry("twilio-CA2").suspect_since is None

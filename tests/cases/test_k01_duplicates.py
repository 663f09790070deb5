"""K01, duplicates from concurrency or redelivery: one lead, one note for each call, however often and however close they come."""

from __future__ import annotations

import threading

import pytest

from bridge.ledger.claims import Claims
from tests.cases.support import ADA, CREATE, LOCATION, UPSERT, at_once

ALLOWED = {"allow_duplicate_contact": True, "create_window_s": 0.3}


def watch_creates(crew):
    """How many creates were at the same instant between the CRM's check and its insert, at most."""
    inside, most, lock = [0], [0], threading.Lock()
    wait = crew.ghl.engine.wait

    def counting_wait(seconds):
        step = int(seconds > 0)  # nothing but a create waits here
        with lock:
            inside[0] += step
            most[0] = max(most[0], inside[0])
        try:
            return wait(seconds)
        finally:
            with lock:
                inside[0] -= step

    crew.ghl.engine.wait = counting_wait
    return most


@pytest.mark.parametrize("deliveries", [2, 20])
def test_b001_overlapping_second_delivery_makes_one_of_everything(make_crew, deliveries):
    crew = make_crew(world=ALLOWED)
    call = crew.phones.call()
    crew.start()
    ended = crew.phones.ended(call)
    answers = at_once([lambda: crew.post(ended)] * deliveries)
    assert {status for statuses in answers for status in statuses} == {204}
    crew.rest()
    crew.assert_one_lead(call)
    assert (crew.asked(UPSERT), crew.counted("events.new"), crew.counted("events.repeat")) == (1, 1, deliveries - 1)


@pytest.mark.parametrize("allowed", [False, True])
def test_b002_two_calls_of_a_new_caller_at_once_are_two_notes_on_one_contact_and_no_failure(make_crew, allowed):
    crew = make_crew(world={"create_window_s": 0.3, "allow_duplicate_contact": allowed})
    calls = [crew.phones.call(), crew.phones.call()]
    at_once([lambda call=call: crew.post(crew.phones.ended(call)) for call in calls])
    crew.rest()
    crew.assert_one_lead(*calls)
    assert crew.failed == []
    assert len(crew.contacts()) == 1


def test_b002_contact_that_came_between_search_and_create_is_adopted(bridge):
    """The race that the claim can't see: somebody else creates the contact."""
    other = bridge.add(ADA)
    bridge.fault("finds_nothing", path="/contacts/search/duplicate", times=1)
    call = bridge.phones.call()
    bridge.take(bridge.phones.ended(call))
    assert bridge.assert_one_lead(call) == other.id
    assert (bridge.asked(CREATE), bridge.failures()) == (1, [])


def test_b004_same_instant_leaves_no_orphan_and_the_claim_names_the_one_contact(make_crew):
    crew = make_crew(world=ALLOWED)
    calls = [crew.phones.call(), crew.phones.call()]
    at_once([lambda call=call: crew.post(crew.phones.ended(call)) for call in calls])
    crew.rest()
    contact_id = crew.assert_one_lead(*calls)
    assert len(crew.truth.contacts()) == 1, "nor was one made and taken away"
    assert crew.web.claims.acquire(LOCATION, ADA, owner="test").contact_id == contact_id


def test_b005_answer_that_outlasts_its_time_lets_nobody_else_create(make_crew):
    """The first create takes effect after its caller has given up; three workers act for the same caller."""
    crew = make_crew(workers=3, GHL_CONNECT_TIMEOUT_S="0.3", GHL_READ_TIMEOUT_S="0.4", SETTLE_SCHEDULE_S="0.3,0.6,1")
    crew.ghl.add_fault("effect_late", seconds=1.0, method="POST", path="/contacts/", times=1)
    calls = [crew.phones.call() for _ in range(3)]
    crew.start()
    at_once([lambda call=call: crew.post(crew.phones.ended(call)) for call in calls])
    crew.rest()
    crew.assert_one_lead(*calls)
    assert len(crew.truth.contacts()) == 1


def test_b005_at_most_one_worker_is_inside_the_create(make_crew):
    crew = make_crew(workers=3, world=ALLOWED)
    most = watch_creates(crew)
    calls = [crew.phones.call() for _ in range(3)]
    crew.post(*(crew.phones.ended(call) for call in calls))
    crew.rest()
    crew.assert_one_lead(*calls)
    assert most == [1]


def test_b005_late_release_leaves_the_newer_holders_lease_in_place(bridge):
    clock = bridge.rig.clock
    claims = Claims(bridge.connection, clock, lease_s=5, wait_s=0, monotonic=clock.monotonic, sleep=clock.sleep)
    early = claims.acquire(LOCATION, ADA, owner="early")
    clock.at += 12
    late = claims.acquire(LOCATION, ADA, owner="late")
    claims.release(early)
    assert claims.renew(late).token == late.token
    assert int(late.token) > int(early.token)


def test_b007_redelivery_after_minutes_hours_and_a_lost_redis_writes_nothing(bridge):
    call = bridge.phones.call()
    hangup = bridge.phones.ended(call)
    bridge.take(hangup)
    before = bridge.changes()
    for pause in (60, 14 * 60, 6 * 3600, 20 * 3600):
        bridge.pass_time(pause)
        bridge.take(hangup)
    bridge.connection.flushall()
    bridge.restart()
    bridge.take(hangup)
    bridge.assert_one_lead(call)
    assert bridge.changes() == before


def test_b008_same_caller_redials_and_neither_call_is_dropped(bridge):
    first = bridge.phones.call()
    bridge.take(bridge.phones.twilio.status(first, "completed", after_s=4))
    bridge.pass_time(2)
    second = bridge.phones.call()
    bridge.take(bridge.phones.twilio.voice(second))
    bridge.pass_time(63)
    bridge.take(bridge.phones.twilio.status(second, "completed", after_s=63))
    bridge.assert_one_lead(first, second)
    assert bridge.counted("events.repeat") == 0


def test_b010_replay_of_fifty_done_calls_does_nothing_twice_over(bridge):
    calls = [bridge.phones.call(f"+1202555{100 + number:04}") for number in range(50)]
    stored = [bridge.phones.ended(call) for call in calls]
    bridge.take(*stored)
    before = bridge.asked()
    for _ in range(2):
        bridge.take(*stored)
        bridge.replay(*calls)
        bridge.restart()
    assert bridge.asked() == before
    assert {bridge.state(call) for call in calls} == {"done"}
    assert len(bridge.notes()) == len(bridge.contacts()) == 50


def test_b011_overlapping_calls_between_the_same_numbers_are_two_notes(bridge):
    first = bridge.phones.call()
    bridge.take(bridge.phones.twilio.voice(first))
    bridge.pass_time(5)
    second = bridge.phones.call()
    bridge.take(bridge.phones.twilio.voice(second), bridge.phones.ended(first), bridge.phones.ended(second))
    bridge.assert_one_lead(first, second)
    assert bridge.failures() == []

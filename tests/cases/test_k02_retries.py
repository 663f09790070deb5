"""K02, timeouts after the effect, retries, rate limits: look before sending again, stop where trying is no use, share the budget."""

from __future__ import annotations

import time

import pytest

from bridge.sandbox.proof.points import Side
from tests.cases.support import ADA, AT_CREATE, AT_SEARCH, AT_UPSERT, CREATE, NOTE, SEARCH, UPSERT

ALLOWED = {"allow_duplicate_contact": True}


@pytest.mark.parametrize(("world", "where", "endpoint"), [({}, AT_CREATE, CREATE), (ALLOWED, AT_UPSERT, UPSERT)])
@pytest.mark.parametrize("kind", ["answer_held", "answer_lost", "error_after", "empty_answer"])
def test_b013_stored_contact_whose_answer_was_lost_is_looked_up_and_not_created_again(make_bridge, kind, world, where, endpoint):
    bridge = make_bridge(world=world)
    bridge.fault(kind, times=1, **where)
    call = bridge.phones.call()
    bridge.take(bridge.phones.ended(call))
    bridge.assert_one_lead(call)
    assert bridge.asked(endpoint) == 1
    assert len(bridge.truth.contacts()) == 1


def test_b013_no_request_is_repeated_below_the_bridge(make_crew):
    """On the wire: a create whose answer is lost reaches the CRM once."""
    crew = make_crew(workers=1)
    crew.ghl.add_fault("answer_lost", times=1, **AT_CREATE)
    call = crew.phones.call()
    crew.post(crew.phones.ended(call))
    crew.rest()
    crew.assert_one_lead(call)
    assert (crew.asked(CREATE), crew.truth.answers_per_status().get("None")) == (1, 1)


def test_b014_conflict_after_a_lost_create_ends_well_and_alarms_nobody(make_bridge):
    """The search does not show the contact for longer than the schedule lasts, so the create is sent again and refused."""
    bridge = make_bridge(world={"duplicate_lag_s": 600, "search_lag_s": 600})
    bridge.fault("answer_held", times=1, **AT_CREATE)
    call = bridge.phones.call()
    bridge.take(bridge.phones.ended(call))
    bridge.assert_one_lead(call)
    assert (bridge.asked(CREATE), bridge.failures(), bridge.counted("parked")) == (2, [], 0)


def test_b016_answers_do_not_wait_for_a_slow_crm(make_crew):
    crew = make_crew(workers=3, world={"latency_s": 2})
    calls = [crew.phones.call(f"+1202555{100 + number:04}") for number in range(30)]
    crew.start()
    took = []
    for call in calls:
        began = time.monotonic()
        assert crew.post(crew.phones.twilio.voice(call), crew.phones.ended(call)) == [200, 204]
        took.append(time.monotonic() - began)
    assert max(took) < 1.0, "the sender would come again"
    crew.ghl.configure(latency_s=0)
    crew.rest()
    assert len(crew.contacts()) == len(crew.notes()) == 30


def test_b017_contact_that_was_refused_and_created_all_the_same_is_adopted(bridge):
    bridge.fault("refused_but_done", times=1, **AT_CREATE)
    call = bridge.phones.call()
    bridge.take(bridge.phones.ended(call))
    bridge.assert_one_lead(call)
    assert (bridge.asked(CREATE), bridge.failures()) == (1, [])


def test_b019_one_malformed_number_holds_up_nobody_and_is_told_once(bridge):
    calls = [bridge.phones.call(caller) for caller in (ADA, "+12025550111", "abc!", "+12025550112", "+12025550113")]
    bridge.take(*map(bridge.phones.ended, calls))
    before = bridge.asked()
    for _ in range(5):
        bridge.pass_time(60)
    assert bridge.asked() == before
    assert [len(bridge.notes(call)) for call in calls] == [1, 1, 0, 1, 1]
    assert bridge.entry(calls[2]).reason == "the caller id is not a telephone number"
    assert len(bridge.entry(calls[2]).attempts) == 1


@pytest.mark.parametrize("status", [400, 422])
def test_b020_refusal_that_no_retry_mends_is_parked_with_the_crms_words(bridge, status):
    reason = "phone must be a valid phone number"
    bridge.fault("plain_text", status=status, text=f'{{"statusCode": {status}, "message": "{reason}"}}', **AT_CREATE)
    call = bridge.phones.call()
    bridge.take(bridge.phones.ended(call))
    entry = bridge.entry(call)
    assert (entry.state.value, entry.next_try_at, len(bridge.failures())) == ("needs_attention", None, 1)
    assert reason in entry.trouble.message
    assert bridge.asked(CREATE) <= 2
    before = bridge.asked()
    bridge.pass_time(86_400)
    assert bridge.asked() == before


def test_b020_parked_refusal_can_be_put_back_by_a_person(bridge):
    fault = bridge.fault("plain_text", status=422, text='{"message": "phone must be a valid phone number"}', **AT_CREATE)
    call = bridge.phones.call()
    bridge.take(bridge.phones.ended(call))
    bridge.rig.engine.faults.remove(fault)
    bridge.replay(call)
    bridge.assert_one_lead(call)


@pytest.mark.parametrize("status", [408, 425, 500, 502, 503])
def test_b020_refusal_for_now_is_tried_again(bridge, status):
    bridge.fault("error_before", status=status, times=3, **AT_SEARCH)
    call = bridge.phones.call()
    bridge.take(bridge.phones.ended(call))
    bridge.assert_one_lead(call)
    assert bridge.failures() == []


def test_b022_rate_limit_that_never_ends_is_shown_as_not_delivered_and_a_replay_delivers_once(make_bridge):
    bridge = make_bridge(MAX_ATTEMPTS="4")
    bridge.fault("burst_429", retry_after_s=0.001)
    call = bridge.phones.call()
    bridge.take(bridge.phones.ended(call))
    assert bridge.state(call) == "needs_attention"
    assert (bridge.failures(), bridge.counted("parked"), bridge.counted("done")) == (["crm.429"], 1, 0)
    bridge.take(bridge.phones.ended(call))
    assert bridge.state(call) == "needs_attention", "a redelivery is no success"
    bridge.mend()
    bridge.replay(call)
    bridge.assert_one_lead(call)


def test_b023_burst_of_forty_calls_keeps_to_a_budget_that_all_workers_share(make_crew):
    limits = {"burst": 40, "burst_window_s": 1, "rate_headers": True}
    crew = make_crew(workers=4, world=limits, GHL_BURST="40", GHL_BURST_WINDOW_S="1")
    calls = [crew.phones.call(f"+1202555{100 + number:04}") for number in range(40)]
    crew.start()
    crew.post(*map(crew.phones.ended, calls))
    crew.rest()
    assert len(crew.contacts()) == len(crew.notes()) == 40
    assert crew.failed == []
    assert crew.truth.answers_per_status().get("429", 0) <= 0.05 * crew.asked()


def test_b023_lower_limit_of_one_endpoint_costs_time_and_no_call(bridge):
    bridge.fault("burst_429", retry_after_s=0.001, rate=0.5, seed=3, **AT_SEARCH)
    calls = [bridge.phones.call(f"+1202555{100 + number:04}") for number in range(10)]
    bridge.take(*map(bridge.phones.ended, calls))
    assert len(bridge.contacts()) == len(bridge.notes()) == 10
    assert bridge.asked(SEARCH) > 10
    assert (bridge.asked(CREATE), bridge.asked(NOTE), bridge.failures()) == (10, 10, [])


def test_b025_call_that_kills_its_worker_is_parked_and_those_behind_it_go_on(bridge):
    deadly, others = bridge.phones.call(), [bridge.phones.call("+12025550111"), bridge.phones.call("+12025550112")]
    bridge.post(*map(bridge.phones.ended, [deadly, *others]))
    run_job = bridge.rig.run_job

    def run(call_key):
        if call_key.endswith(deadly.sid):
            points = bridge.rig.points
            points.at, points.side, points.act = len(points.names) + 2, Side.BEFORE, points.crash
        run_job(call_key)

    bridge.rig.run_job = run
    bridge.rig.rest()
    entry = bridge.entry(deadly)
    assert (entry.state.value, entry.trouble.word, entry.deaths) == ("needs_attention", "worker.died", 3)
    assert bridge.failures() == ["worker.died"]
    assert [bridge.state(call) for call in others] == ["done", "done"]


def test_b025_body_that_is_too_large_is_refused_at_the_door(bridge):
    call = bridge.phones.call()
    [status] = bridge.post(bridge.phones.ended(call, TranscriptionText="x" * 300 * 1024))
    assert (status, bridge.entries()) == (413, [])

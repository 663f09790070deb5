"""Calls that have nobody to make a lead of."""

from __future__ import annotations

import pytest

from bridge.sandbox.phone import send


@pytest.mark.parametrize("told", ["anonymous", "Restricted", "+266696687", "", "sip:reception@pbx.example", "client:alice"])
def test_caller_without_a_number_makes_no_contact_and_the_call_is_done_with_a_reason(road, told):
    call = road.call(told)
    since = road.ghl.next_request()
    road.play(road.phone.whole_call(call))
    entry = road.await_state(call)
    assert entry["contact_id"] is None
    assert "caller" in entry["reason"]
    assert road.ghl.requests(since=since) == []


def test_withheld_callers_are_never_taken_for_one_another(road):
    calls = [road.call("anonymous") for _ in range(2)]
    for call in calls:
        road.play([road.phone.voice(call), road.ended(call)])
    assert [entry["call_key"] for entry in road.await_done(calls)] == [road.key(call) for call in calls]


def test_outbound_call_makes_no_entry_and_no_contact(road):
    call = road.call()
    since = road.ghl.next_request()
    answer = send(road.phone.status(call, "completed", after_s=40, Direction="outbound-api"))
    assert answer.status_code == 204
    assert road.entry(call) == {}
    assert road.ghl.requests(since=since) == []
    assert 'reason="outbound call"' in road.page("/metrics")


def test_child_legs_belong_to_their_call_and_make_no_contact_of_their_own(road):
    call, agent = road.call(), road.new_caller()
    road.play([road.phone.voice(call), road.phone.child_leg(call, agent), road.phone.child_leg(call, agent, "busy"), road.ended(call)])
    entry = road.await_state(call)
    assert entry["events"] == 4
    road.assert_one_lead(call)
    assert road.ghl.contacts(agent) == []

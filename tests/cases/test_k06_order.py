"""K06, call legs, transfers, event order: one visit is one call, in whichever order and under however many ids it is told."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from tests.cases.support import DIALLED, at_once

AGENT = "+12025550177"


def test_b068_scrambled_events_end_in_the_same_call(bridge):
    call = bridge.phones.call()
    said = [("completed", 62), ("ringing", 0), ("initiated", 0), ("in-progress", 2)]
    for number, (status, after) in enumerate(said):
        bridge.take(bridge.phones.twilio.status(call, status, after_s=after, SequenceNumber=str((3, 1, 0, 2)[number])))
        bridge.pass_time(0.3)
    bridge.assert_one_lead(call)
    facts = bridge.entry(call).facts
    assert (facts.status.value, facts.duration_s) == ("completed", 62)
    assert "Outcome: completed, 1 min 2 s" in bridge.note(call)


def test_b068_every_order_of_events_tells_the_same(bridge):
    orders = list(itertools.permutations([("ringing", 0), ("in-progress", 2), ("completed", 62)]))
    calls = []
    for order in orders:
        call = bridge.phones.call()
        calls.append(call)
        bridge.take(*(bridge.phones.twilio.status(call, status, after_s=after) for status, after in order))
    bridge.assert_one_lead(*calls)
    assert len({bridge.note(call).partition("Callbridge call")[0] for call in calls}) == 1


def test_b068_recording_that_comes_hours_before_the_caller_is_named_delays_the_lead_and_loses_none(bridge):
    """Nobody has said who called, so it is a question; the event that says so answers it, without a person."""
    call = bridge.phones.call()
    bridge.take(bridge.phones.twilio.recording(call))
    bridge.pass_time(7200)
    assert bridge.state(call) == "needs_attention"
    bridge.take(bridge.phones.twilio.status(call, "completed", after_s=7000))
    bridge.assert_one_lead(call)
    assert "Recording: " in bridge.note(call)
    assert bridge.connection.zcard("rq:failed:calls") == 0


@pytest.mark.parametrize("status", ["no-answer", "canceled", "COMPLETED", "answered", "foo-new-status", ""])
def test_b070_any_status_is_taken_and_a_final_one_completes_the_lead(bridge, status):
    call = bridge.phones.call()
    bridge.take(bridge.phones.twilio.status(call, "ringing", CallStatus=status))
    bridge.take(bridge.phones.ended(call))
    bridge.assert_one_lead(call)


def test_b070_unknown_status_is_kept_and_is_no_end(bridge):
    call = bridge.phones.call()
    bridge.post(bridge.phones.twilio.status(call, "foo-new-status"))
    bridge.rig.run_jobs()
    entry = bridge.entry(call)
    assert (entry.facts.raw_status, entry.facts.is_over) == ("foo-new-status", False)
    assert entry.waiting_for == "the call is still going on; its note is written when it is over"


def test_b071_everything_twice_at_once_is_one_voicemail(make_crew):
    crew = make_crew(workers=2)
    call = crew.phones.call()
    told = [crew.phones.twilio.recording(call), crew.phones.ended(call)] * 2
    crew.start()
    at_once([lambda one=one: crew.post(one) for one in told])
    crew.rest()
    crew.assert_one_lead(call)
    assert crew.note(call).count("Recording: ") == 1


@pytest.mark.parametrize("leg_first", [False, True])
def test_b073_transfer_is_a_leg_of_its_visit(bridge, leg_first):
    call = bridge.phones.call()
    visit = bridge.phones.twilio.status(call, "completed", after_s=20)
    transfer = bridge.phones.twilio.child_leg(replace(call, caller=DIALLED), AGENT, duration_s=300)
    for told in (transfer, visit) if leg_first else (visit, transfer):
        bridge.take(told)
    bridge.assert_one_lead(call)
    assert len(bridge.contacts()) == 1
    note = bridge.note(call)
    assert f"Transferred to: {AGENT} (completed, 5 min 0 s)" in note
    assert "Outcome: completed, 20 s" in note


def test_b073_transfer_that_names_no_parent_makes_no_contact_for_the_own_number(bridge):
    call = bridge.phones.call()
    bridge.take(bridge.phones.ended(call))
    bridge.take(bridge.phones.ended(bridge.phones.call(DIALLED, dialled=AGENT), Direction=""))
    bridge.assert_one_lead(call)
    assert len(bridge.contacts()) == 1


def test_b074_two_ids_of_one_conversation_are_one_contact(bridge):
    parent, child = bridge.phones.call(), bridge.phones.call()
    bridge.take(bridge.phones.ended(child))
    bridge.pass_time(1)
    bridge.take(bridge.phones.ended(parent))
    bridge.assert_one_lead(parent, child)


def test_b074_two_ids_that_name_one_another_are_one_call(bridge):
    parent, child = bridge.phones.call(), bridge.phones.call()
    bridge.take(bridge.phones.ended(child, ParentCallSid=parent.sid), bridge.phones.ended(parent))
    bridge.assert_one_lead(parent)
    assert len(bridge.entries()) == len(bridge.notes()) == 1

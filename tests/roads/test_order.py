"""Events come in any order, late, or contradict each other."""

from __future__ import annotations

import json

from bridge.ledger import keys
from bridge.sandbox.phone import conflicting, final_first


def test_call_that_ends_before_it_rings_has_one_note_that_tells_all(road):
    call = road.call()
    road.play(final_first(road.phone.whole_call(call, digits="7")))
    told = ("Pressed: 7", "Recording: ", "completed")
    road.await_true(lambda: any(all(word in note["body"] for word in told) for note in road.notes(call)), "the note tells all")
    entry = road.await_state(call)
    assert entry["call_status"] == "completed"
    assert entry["events"] == 5
    road.assert_one_lead(call)


def test_recording_that_comes_after_the_end_updates_the_same_note(road):
    call = road.call()
    road.play([road.phone.voice(call), road.ended(call)])
    road.await_state(call)
    [before] = road.notes(call)
    assert "Recording" not in before["body"]
    road.play([road.phone.recording(call, duration_s=31)])
    road.await_true(lambda: "Recording" in road.notes(call)[0]["body"], "the note tells of the recording")
    road.await_state(call)
    assert [note["id"] for note in road.notes(call)] == [before["id"]]
    road.assert_one_lead(call)


def test_conflict_needs_attention_and_keeps_both_versions(road):
    call = road.call()
    deliveries = conflicting(road.phone, call)
    road.callers.append("+15550106666")
    road.play(deliveries)
    entry = road.await_state(call, "needs_attention")
    assert (entry["cause"], entry["owner"]) == ("conflict", "ops-on-call")
    assert entry["hint"]
    assert entry["due_at"]
    stored = json.loads(road.connection.get(keys.entry(road.key(call))))
    assert stored["facts"]["caller"]["e164"] == call.caller
    assert [version["caller"]["e164"] for version in stored["conflicts"]] == ["+15550106666"]
    road.await_true(lambda: road.key(call) in road.failed_jobs(), "RQ knows it as failed")
    assert len(road.alerts(call)) == 1
    assert road.ghl.contacts("+15550106666") == []

"""What no retry can mend is seen by a person: in the ledger, in RQ's failed registry, in Sentry, once in each."""

from __future__ import annotations

from datetime import UTC, datetime


def needing_attention(road):
    return {one["call_key"] for one in road.bridge.calls("needs_attention")}


def test_revoked_token_is_one_question_one_failed_job_and_one_alert(rough_road):
    road = rough_road
    others = needing_attention(road)
    road.ghl.configure(token_state="revoked")
    call = road.call()
    road.play([road.phone.voice(call), road.ended(call)])
    entry = road.await_state(call, "needs_attention")

    assert (entry["cause"], entry["owner"], entry["contact_id"]) == ("permanent", "ops-on-call", None)
    assert "GHL_TOKEN" in entry["hint"]
    assert datetime.fromisoformat(entry["due_at"]) > datetime.now(UTC)
    assert entry["attempts"][-1]["outcome"] == "parked"
    assert needing_attention(road) == others | {road.key(call)}
    road.await_true(lambda: road.key(call) in road.failed_jobs(), "RQ knows it as failed")
    assert road.failed_jobs() == needing_attention(road)

    road.sentry.wait_for(1)
    [alert] = road.alerts(call)
    assert alert["tags"] | {"owner": "ops-on-call", "call_key": road.key(call), "cause": entry["cause_word"]} == alert["tags"]
    assert alert["fingerprint"] == ["callbridge", entry["cause_word"]]
    assert call.caller[2:] not in str(alert)


def test_attempts_that_are_made_again_alert_nobody(rough_road):
    road = rough_road
    call = road.call()
    road.ghl.add_fault("error_before", path="/contacts/search/duplicate", times=2)
    road.play([road.ended(call)])
    entry = road.await_state(call, within_s=20)
    assert [attempt["outcome"] for attempt in entry["attempts"]] == ["again", "again", "done"]
    assert road.alerts(call) == []
    assert road.key(call) not in road.failed_jobs()
    road.assert_one_lead(call)


def test_lost_answer_to_a_create_is_settled_and_alerts_nobody(rough_road):
    road = rough_road
    call = road.call()
    road.ghl.add_fault("answer_lost", method="POST", path="/contacts/", times=1)
    road.play([road.ended(call)])
    entry = road.await_state(call, within_s=20)
    assert len(entry["attempts"]) > 1
    assert road.alerts(call) == []
    road.assert_one_lead(call)

"""K09, tokens and permissions: a Private Integration Token does not refresh, so a refusal is one question, and never a storm."""

from __future__ import annotations

import time

import pytest

from tests.cases.support import ADA, AT_SEARCH, CREATE, NOTE, Crew


def test_b101_token_that_ends_between_contact_and_note_is_one_question_and_no_second_contact(bridge):
    bridge.fault("as_usual", method="POST", path="/contacts/", then="revoke_token", times=1)
    call = bridge.phones.call()
    bridge.take(bridge.phones.ended(call))
    entry = bridge.entry(call)
    assert (entry.state.value, entry.trouble.word, bridge.failures()) == ("needs_attention", "crm.401_token", ["crm.401_token"])
    assert (bridge.asked(CREATE), bridge.asked(NOTE)) == (1, 1)
    bridge.rig.engine.configure({"token_state": "valid"})
    bridge.replay(call)
    bridge.assert_one_lead(call)
    assert (bridge.asked(CREATE), len(bridge.notes())) == (1, 1)


@pytest.mark.parametrize(
    ("state", "cause"), [("revoked", "crm.401_token"), ("scope_missing", "crm.401_scope"), ("wrong_location", "crm.403")]
)
def test_b098_b100_b103_refused_token_costs_one_request_for_each_call_and_has_one_cause(bridge, state, cause):
    """Nothing is refreshed, by nobody: there is no race for a token, and no storm on its endpoint."""
    bridge.rig.engine.configure({"token_state": state})
    calls = [bridge.phones.call(f"+1202555{100 + number:04}") for number in range(20)]
    bridge.take(*map(bridge.phones.ended, calls))
    bridge.pass_time(3600)
    assert {bridge.state(call) for call in calls} == {"needs_attention"}
    assert bridge.asked() == 20
    assert set(bridge.failures()) == {cause}
    assert {one.endpoint for one in bridge.truth.requests()} == {"GET /contacts/search/duplicate"}
    bridge.rig.engine.configure({"token_state": "valid"})
    bridge.replay(*calls)
    assert len(bridge.contacts()) == len(bridge.notes()) == 20


def test_b103_location_that_is_not_active_is_parked_with_the_crms_words(bridge):
    bridge.fault("plain_text", status=400, text='{"message": "Location is not active"}', **AT_SEARCH)
    call = bridge.phones.call()
    bridge.take(bridge.phones.ended(call))
    entry = bridge.entry(call)
    assert (entry.state.value, len(bridge.failures()), bridge.asked()) == ("needs_attention", 1, 1)
    assert "Location is not active" in entry.trouble.message


@pytest.mark.parametrize("kind", ["request_held", "slow_drip"])
@pytest.mark.parametrize("where", [{"path": "/contacts/search/duplicate"}, {"method": "POST", "path": "/contacts/"}])
def test_b104_request_that_never_ends_is_given_up_in_time_and_made_again(redis_url, tmp_path, kind, where):
    with Crew(redis_url, tmp_path, workers=1, GHL_CONNECT_TIMEOUT_S="0.2", GHL_READ_TIMEOUT_S="0.4") as crew:
        crew.ghl.add_fault(kind, seconds=0.1 if kind == "slow_drip" else 30, times=1, **where)
        call = crew.phones.call(ADA)
        began = time.monotonic()
        crew.post(crew.phones.ended(call))
        crew.rest()
        first = crew.entry(call).attempts[0]
        crew.assert_one_lead(call)
        assert first.cause == "crm.timeout"
        assert first.ended_at - first.began_at < 2
        assert time.monotonic() - began < 10
        assert len(crew.truth.contacts()) == 1

"""Nobody who may not see callers gets to see one, whatever happens to a call. The fixtures search what all the other roads left behind."""

from __future__ import annotations

from bridge.sandbox.phone import send
from tests.roads.support import CALLER_NAME, joined


def test_nothing_that_the_bridge_lets_out_shows_a_number_a_name_or_a_secret(rough_road):
    road = rough_road
    calls = [road.call() for _ in range(4)]
    road.ghl.add_fault("error_before", path="/contacts/search/duplicate", times=2)
    road.ghl.add_fault("refused_but_done", method="POST", path="/contacts/", times=1)
    road.ghl.add_fault("scope_missing", method="POST", path="/contacts/{contact_id}/notes", times=1)
    for call in calls:
        spoken = f"my name is {CALLER_NAME}, call me at {call.caller}"
        road.play([road.phone.voice(call, CallerName=CALLER_NAME), road.phone.gather(call, speech=spoken), road.ended(call)])
    send(road.phone.post("voice", {"From": calls[0].caller, "CallSid": calls[0].sid}, token="forged"))
    send(road.phone.post("voice", {"From": calls[0].caller, "CallerName": CALLER_NAME}))
    road.await_true(
        lambda: sum(road.entry(call)["state"] in {"done", "needs_attention"} for call in calls) == 4, "all calls are settled", 30
    )
    assert any(CALLER_NAME in note["body"] for call in calls for note in road.notes(call)), "staff get to see it"
    assert len(road.outputs()) > 10
    assert road.leaks() == []


def test_the_search_for_leaks_finds_every_form_of_a_number():
    forms = ("+15550101234", "%2B15550101234", "(555) 010-1234", "555.010.1234", "555 010 1234", "\\u002b15550101234")
    assert [form for form in forms if "5550101234" not in joined(f"who: {form}!")] == []

"""Exactly one contact for a caller, one note for a call, and no request too many."""

from __future__ import annotations

import pytest
import requests

from bridge.ledger import keys
from bridge.sandbox.phone import send_together

SEARCH, CREATE = "GET /contacts/search/duplicate", "POST /contacts/"
TAGS, NOTE = "POST /contacts/{contact_id}/tags", "POST /contacts/{contact_id}/notes"


def visit(road, call):
    """An ordinary visit, slow enough for the ringing to be worked off before the end comes. Returns what it cost, by endpoint."""
    since = road.ghl.next_request()
    road.play([road.phone.voice(call)])
    road.await_true(lambda: "find_or_create_lead" in road.entry(call).get("steps_done", []), "there is a lead")
    road.play([road.phone.status(call, "in-progress", after_s=2), road.phone.gather(call, digits="1"), road.ended(call)])
    road.await_state(call)
    return [one["endpoint"] for one in road.ghl.requests(since=since)]


def test_new_caller_costs_three_requests_and_the_next_call_two(road):
    first = road.call()
    assert visit(road, first) == [SEARCH, CREATE, NOTE]
    second = road.call(first.caller)
    assert sorted(visit(road, second)) == sorted([TAGS, NOTE])
    road.assert_one_lead(first)
    road.assert_one_lead(second)


def test_caller_whom_only_the_crm_knows_costs_two_requests_and_stays_as_staff_left_them(road):
    call = road.call()
    known = {"phone": call.caller, "firstName": "Regular", "tags": ["inbound call", "vip"]}
    added = requests.post(f"{road.ghl.url}/_control/contacts", json=known, timeout=5).json()
    assert visit(road, call) == [SEARCH, NOTE]
    [contact] = road.contacts(call.caller)
    assert (contact["id"], contact["fields"], contact["tags"]) == (added["id"], added["fields"], ["inbound call", "vip"])
    road.assert_one_lead(call)


def test_forty_racing_deliveries_are_one_entry_one_run_one_contact_one_note(road):
    call = road.call()
    runs_before = int(road.connection.hget(keys.COUNT, "attempts") or 0)
    answers = send_together([road.ended(call)] * 40)
    assert {answer.status_code for answer in answers} == {204}
    entry = road.await_state(call)
    assert [attempt["outcome"] for attempt in entry["attempts"]] == ["done"]
    assert entry["events"] == 1
    assert sum(map(int, road.connection.hvals(keys.repeats(road.key(call))))) == 39
    assert int(road.connection.hget(keys.COUNT, "attempts")) == runs_before + 1
    road.assert_one_lead(call)


@pytest.fixture(params=[False, True], ids=["duplicates refused", "duplicates allowed"])
def slow_location(road, request):
    """A location that takes its time between its own check and the insert, so that two creates at once both pass the check."""
    road.ghl.configure(allow_duplicate_contact=request.param, create_window_s=0.3)
    road.forget_location()
    yield
    road.mend_location()
    road.forget_location()


@pytest.mark.usefixtures("slow_location")
def test_fifty_calls_of_one_new_caller_at_once_are_one_contact_with_fifty_notes(road):
    caller = road.new_caller()
    calls = [road.call(caller) for _ in range(50)]
    answers = send_together([road.ended(call) for call in calls])
    assert {answer.status_code for answer in answers} == {204}
    entries = road.await_done(calls)
    assert len({entry["contact_id"] for entry in entries}) == 1
    assert len(road.ghl.contacts(caller)) == 1, "nor was a second one made and merged or deleted"
    for call in calls:
        road.assert_one_lead(call)

"""K08, CRM answers that surprise: success is what an answer proves, not its status; and what is gone is looked up anew."""

from __future__ import annotations

import json

import pytest

from bridge.crm.http import API_VERSION
from bridge.sandbox.proof.points import Side
from tests.cases.support import ADA, AT_CREATE, AT_NOTE, AT_SEARCH, AT_UPSERT, BO, CREATE, NOTE, SEARCH, TAGS, UPSERT
from tests.cases.test_k03_lost_calls import watch_for

ALLOWED = {"allow_duplicate_contact": True}
LAGGING = {"duplicate_lag_s": 8, "search_lag_s": 8, "own_check": "lagging"}


def ring(bridge, caller=ADA, **extra):
    call = bridge.phones.call(caller)
    bridge.take(bridge.phones.ended(call, **extra))
    return call


def test_b082_contact_that_the_search_does_not_show_is_adopted_from_the_refusal(bridge):
    contact = bridge.add(ADA)
    bridge.fault("finds_nothing")
    call = ring(bridge)
    assert bridge.assert_one_lead(call) == contact.id
    assert (bridge.asked(SEARCH), bridge.asked(CREATE)) == (1, 1)


def test_b082_refusal_that_names_nobody_ends_after_a_bounded_number_of_looks(bridge):
    bridge.add(ADA)
    bridge.fault("finds_nothing", path="/contacts/search*")
    bridge.fault("plain_text", status=400, text='{"message": "This location does not allow duplicated contacts."}', **AT_CREATE)
    call = ring(bridge)
    assert bridge.state(call) == "needs_attention"
    assert bridge.failures() == ["crm.duplicate_unnamed"]
    assert (bridge.asked(CREATE), len(bridge.contacts())) == (2, 1)
    assert bridge.asked() < 30


def test_b083_second_call_uses_what_the_first_has_learnt_while_the_search_shows_nothing(make_bridge):
    bridge = make_bridge(world=ALLOWED | LAGGING)
    first = ring(bridge)
    second = ring(bridge)
    bridge.assert_one_lead(first, second)
    assert (bridge.asked(UPSERT), len(bridge.truth.contacts())) == (1, 1)


@pytest.mark.parametrize("lag_s", [8, 60])
@pytest.mark.parametrize("reported", [True, False])
def test_b083_crash_right_after_the_create_makes_no_second_contact(make_bridge, reported, lag_s):
    bridge = make_bridge(world=ALLOWED | LAGGING | {"duplicate_lag_s": lag_s, "search_lag_s": lag_s})
    calls = [bridge.phones.call(), bridge.phones.call()]
    bridge.post(*map(bridge.phones.ended, calls))
    watch_for(bridge.rig.points, "POST /contacts/upsert", Side.AFTER, bridge.rig.points.crash)
    bridge.rig.rest(horse_reported=reported)
    bridge.assert_one_lead(*calls)
    assert len(bridge.truth.contacts()) == 1


@pytest.mark.parametrize("tries", [1, 3])
def test_b083_new_contact_that_does_not_show_everywhere_yet_is_waited_for(make_bridge, tries):
    """Its notes answer 404 for a while. Given up, it would be looked for in an index that lags as well, and be created again."""
    bridge = make_bridge(world=ALLOWED | LAGGING)
    bridge.fault(
        "plain_text", status=404, text='{"statusCode": 404, "message": "Contact not found"}', times=tries, path="/contacts/{contact_id}/*"
    )
    call = ring(bridge)
    bridge.assert_one_lead(call)
    assert (len(bridge.truth.contacts()), bridge.asked(UPSERT), bridge.failures()) == (1, 1, [])


def test_b085_answer_with_another_phone_is_not_the_caller(make_bridge):
    """An upsert that lands on somebody else, as it does where e-mail is matched first. Ours sends no e-mail, and reads what comes back."""
    bridge = make_bridge(world=ALLOWED)
    other, caller = bridge.add(BO, email="ada@example.com"), bridge.add(ADA)
    bridge.fault("finds_nothing", times=1, **AT_SEARCH)
    told = {"new": False, "contact": {"id": other.id, "phone": BO, "email": "ada@example.com"}}
    bridge.fault("plain_text", text=json.dumps(told), times=1, **AT_UPSERT)
    call = ring(bridge)
    assert bridge.assert_one_lead(call) == caller.id
    assert bridge.truth.notes(other.id) == []
    assert bridge.truth.contacts(BO) == [other]
    assert len(bridge.contacts()) == 2


def test_b085_duplicate_by_another_field_than_the_phone_is_not_adopted(bridge):
    other = bridge.add(BO, email="ada@example.com")
    meta = {"contactId": other.id, "contactName": "x", "matchingField": "email"}
    told = {"statusCode": 400, "message": "This location does not allow duplicated contacts.", "meta": meta}
    bridge.fault("plain_text", status=400, text=json.dumps(told), times=1, **AT_CREATE)
    call = ring(bridge)
    bridge.assert_one_lead(call)
    assert bridge.truth.notes(other.id) == []


@pytest.mark.parametrize("field", ["tags", "source", "name"])
def test_b086_field_that_the_crm_throws_away_costs_no_call(bridge, field):
    bridge.fault("as_usual", drop_field=field, **AT_CREATE)
    call = ring(bridge, CallerName="Ada Example")
    bridge.assert_one_lead(call)
    [contact] = bridge.contacts(ADA)
    assert contact.tags == ("inbound call",), "tags are must-have: the answer is read, and what it lacks is added by a call of its own"


def test_b088_field_that_the_crm_refuses_leaves_the_number_to_land(bridge):
    bridge.fault("error_before", status=422, times=1, **AT_CREATE)
    call = ring(bridge, CallerName="Ada Example")
    bridge.assert_one_lead(call)
    bodies = [json.loads(one.body) for one in bridge.truth.requests(endpoint=CREATE)]
    assert [set(body) for body in bodies] == [{"locationId", "phone", "name", "source", "tags"}, {"locationId", "phone"}]
    assert bridge.contacts(ADA)[0].tags == ("inbound call",)
    assert bridge.failures() == []


@pytest.mark.parametrize("then", ["merge_contact", "delete_contact"])
@pytest.mark.parametrize("when", [AT_SEARCH, AT_CREATE, {"method": "POST", "path": "/contacts/{contact_id}/tags"}])
def test_b091_contact_that_goes_in_the_middle_is_looked_up_anew_and_gets_everything(bridge, then, when):
    if when is not AT_CREATE:
        bridge.add(ADA)
    bridge.fault("as_usual", then=then, times=1, **when)
    call = ring(bridge)
    bridge.assert_one_lead(call)
    [contact] = bridge.contacts(ADA)
    assert contact.tags == ("inbound call",)
    assert bridge.asked(SEARCH) <= 2


def test_b091_contact_that_goes_again_and_again_is_a_question_and_no_loop(bridge):
    bridge.add(ADA)
    bridge.fault("as_usual", then="merge_contact", **AT_SEARCH)
    call = ring(bridge)
    assert (bridge.state(call), bridge.failures()) == ("needs_attention", ["crm.gone"])
    assert bridge.asked() < 10
    assert bridge.notes() == []


def test_b091_new_contact_that_goes_again_and_again_is_a_question_and_no_loop(bridge):
    bridge.fault("as_usual", then="delete_contact", **AT_CREATE)
    call = ring(bridge)
    assert (bridge.state(call), bridge.failures()) == ("needs_attention", ["crm.gone"])
    assert bridge.asked(CREATE) == 2
    assert bridge.contacts() == []


def test_b092_refusal_in_plain_text_with_a_success_status_creates_nothing_and_its_words_are_kept(bridge):
    bridge.fault("plain_text", text="Sorry, duplicate contact found with the same email address.", times=1, **AT_CREATE)
    call = ring(bridge)
    bridge.assert_one_lead(call)
    [lost] = [attempt for attempt in bridge.entry(call).attempts if attempt.cause == "crm.unreadable"]
    assert "Sorry, duplicate contact found" in lost.message
    assert len(lost.message) < 300
    assert bridge.failures() == []


def test_b094_retired_version_is_one_cause_and_every_call_is_delivered_after_the_fix(bridge):
    said = '{"statusCode": 400, "message": "Endpoint POST /contacts/ not available in API version v3"}'
    bridge.fault("plain_text", status=400, text=said, **AT_CREATE)
    calls = [ring(bridge, f"+1202555{100 + number:04}") for number in range(5)]
    assert {bridge.state(call) for call in calls} == {"needs_attention"}
    assert set(bridge.failures()) == {"crm.version"}, "alerts are grouped by cause"
    assert bridge.asked(CREATE) == 5, "one try for each"
    bridge.mend()
    bridge.replay(*calls)
    for call in calls:
        bridge.assert_one_lead(call, phone=call.caller)


def test_b094_version_is_pinned_and_sent(make_crew):
    crew = make_crew(workers=1)
    seen = []
    answer = crew.ghl.engine.answer
    crew.ghl.engine.answer = lambda request: (seen.append(request.headers.get("version")), answer(request))[1]
    call = crew.phones.call()
    crew.post(crew.phones.ended(call))
    crew.rest()
    crew.assert_one_lead(call)
    assert set(seen) == {API_VERSION} == {"2021-07-28"}


def test_b095_foreign_number_with_a_plus_is_taken_as_it_is(bridge):
    call = ring(bridge, "+8613912345678")
    bridge.assert_one_lead(call, phone="+8613912345678")
    assert bridge.asked(TAGS) == 0


def test_b097_one_contact_that_always_fails_is_bounded_and_holds_up_nobody(make_bridge):
    bridge = make_bridge(MAX_ATTEMPTS="5")
    contact = bridge.add(ADA, tags=("inbound call",))
    bridge.fault("error_before", method="POST", path=f"/contacts/{contact.id}/notes")
    bad, good = bridge.phones.call(), bridge.phones.call(BO)
    bridge.take(bridge.phones.ended(bad), bridge.phones.ended(good))
    bridge.assert_one_lead(good, phone=BO)
    entry = bridge.entry(bad)
    assert (entry.state.value, entry.trouble.word) == ("needs_attention", "crm.5xx")
    assert "500" in entry.trouble.message
    assert len(bridge.failures()) == 1
    assert bridge.asked(NOTE) <= 5 + 1


def test_b097_note_that_is_stored_behind_an_error_is_not_written_twice(bridge):
    bridge.fault("error_after", times=1, **AT_NOTE)
    call = ring(bridge)
    bridge.assert_one_lead(call)
    assert bridge.asked(NOTE) == 1

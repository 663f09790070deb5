"""K04, phone number identity: one line is one caller, however it is spelt, and nothing is guessed."""

from __future__ import annotations

import json

import pytest

from tests.cases.support import ADA, AT_CREATE, AT_SEARCH, CREATE, DIALLED, SEARCH, generic_key, twilio_key

MEXICO, MEXICO_OLD = "+525512345678", "+5215512345678"
BRAZIL, BRAZIL_OLD, BRAZIL_LANDLINE = "+5511955500123", "+551155500123", "+551133330123"


def ring(bridge, caller):
    call = bridge.phones.call(caller)
    bridge.take(bridge.phones.ended(call))
    return call


def assert_found(bridge, contact, call):
    """The call is on a contact that was there before; nothing was created and nothing of the contact changed but tag and note."""
    assert bridge.state(call) == "done"
    assert bridge.entry(call).contact_id == contact.id
    assert bridge.asked(CREATE) == 0
    [kept] = bridge.contacts()
    assert kept.fields == contact.fields
    assert [note.contact_id for note in bridge.notes(call)] == [contact.id]


@pytest.mark.parametrize(("held", "rings"), [(MEXICO, MEXICO_OLD), (MEXICO_OLD, MEXICO)])
def test_b043_mexican_line_with_and_without_the_1_is_one_contact(bridge, held, rings):
    assert_found(bridge, bridge.add(held), ring(bridge, rings))


@pytest.mark.parametrize("first", [MEXICO, MEXICO_OLD])
def test_b043_new_mexican_caller_is_stored_in_one_spelling_and_the_raw_one_is_in_the_note(bridge, first):
    calls = [ring(bridge, first), ring(bridge, MEXICO_OLD)]
    bridge.assert_one_lead(*calls, phone=MEXICO)
    assert MEXICO_OLD in bridge.note(calls[1])


@pytest.mark.parametrize(("held", "rings"), [(BRAZIL, BRAZIL_OLD), (BRAZIL_OLD, BRAZIL)])
def test_b044_brazilian_mobile_with_and_without_the_ninth_digit_is_one_contact(bridge, held, rings):
    assert_found(bridge, bridge.add(held), ring(bridge, rings))


def test_b044_landline_gains_no_ninth_digit(bridge):
    bridge.assert_one_lead(ring(bridge, BRAZIL_LANDLINE), phone=BRAZIL_LANDLINE)
    assert bridge.asked(SEARCH) == 1


@pytest.mark.parametrize("rings", [BRAZIL, BRAZIL_OLD])
def test_b044_two_contacts_of_one_line_are_not_merged_but_told_of(bridge, rings):
    held = {phone: bridge.add(phone) for phone in (BRAZIL, BRAZIL_OLD)}
    call = ring(bridge, rings)
    chosen, other = held.pop(rings), held.popitem()[1]
    assert (bridge.state(call), bridge.entry(call).contact_id) == ("done", chosen.id)
    assert [contact.fields for contact in bridge.contacts() if contact.id == other.id] == [other.fields]
    assert [note.contact_id for note in bridge.notes(call)] == [chosen.id]
    assert f"Another contact has this number, in another spelling: {other.id}" in bridge.note(call)
    told = [line for line in bridge.rig.process.store.trail(twilio_key(call)) if line["what"] == "second contact"]
    assert [line["contact_id"] for line in told] == [other.id]


def test_b044_the_second_spelling_costs_a_request_for_the_first_call_alone(bridge):
    bridge.add(BRAZIL)
    calls = [ring(bridge, BRAZIL) for _ in range(3)]
    assert {bridge.state(call) for call in calls} == {"done"}
    assert bridge.asked(SEARCH) == 2
    assert not any("Another contact" in bridge.note(call) for call in calls)


def test_b044_a_look_for_the_second_spelling_that_fails_holds_up_no_lead(bridge):
    contact = bridge.add(BRAZIL)
    bridge.fault("error_before", **AT_SEARCH, nth=2)
    assert_found(bridge, contact, ring(bridge, BRAZIL))


@pytest.mark.parametrize("rings", ["+390612345678", "0612345678"])
def test_b046_italian_zero_is_kept(make_bridge, rings):
    bridge = make_bridge(DEFAULT_REGION="IT")
    assert_found(bridge, bridge.add("+390612345678"), ring(bridge, rings))


def test_b046_trunk_zero_of_other_countries_is_removed(bridge):
    assert_found(bridge, bridge.add("+442079460018"), ring(bridge, "+44 (0)20 7946 0018"))


@pytest.mark.parametrize(("region", "rings"), [("IT", "3906123456"), ("US", "5511955500123"), ("US", "525512345678")])
def test_b047_digits_that_may_be_read_in_two_ways_make_no_contact(make_bridge, region, rings):
    bridge = make_bridge(DEFAULT_REGION=region)
    call = ring(bridge, rings)
    assert (bridge.state(call), bridge.asked()) == ("done", 0)
    assert bridge.entry(call).facts.caller.raw == rings
    assert bridge.entry(call).reason == "the caller id is not a telephone number"


def test_b047_country_code_of_the_own_region_gets_its_plus(bridge):
    bridge.assert_one_lead(ring(bridge, "12025550143"))


@pytest.mark.parametrize("shown", ["+1 202-555-0143", "(202) 555-0143"])
def test_b049_contact_with_display_formatting_is_matched_and_left_as_it_is(bridge, shown):
    contact = bridge.add(shown, firstName="Ada")
    bridge.fault("finds_another", contact_id=contact.id, **AT_SEARCH)  # the CRM compares numbers, and shows its own text
    assert_found(bridge, contact, ring(bridge, "12025550143"))


@pytest.mark.parametrize("rings", ["02079460018", "00442079460018", "+4402079460018", "442079460018"])
def test_b050_every_spelling_of_a_british_number_is_the_one_contact(make_bridge, rings):
    bridge = make_bridge(DEFAULT_REGION="GB")
    assert_found(bridge, bridge.add("+442079460018"), ring(bridge, rings))


def test_b050_national_number_of_another_country_is_not_guessed(bridge):
    bridge.add("+442079460018")
    call = ring(bridge, "02079460018")
    assert (bridge.entry(call).contact_id, bridge.asked()) == (None, 0)


@pytest.mark.parametrize("shown", ["+12025550143 ext. 227", "+12025550143*227"])
def test_b052_b053_contact_with_an_extension_is_matched_on_its_base_number(bridge, shown):
    contact = bridge.add(shown)
    bridge.fault("finds_another", contact_id=contact.id, **AT_SEARCH)
    assert_found(bridge, contact, ring(bridge, ADA))


def test_b053_caller_with_an_extension_is_the_base_number_and_the_extension_is_in_the_note(bridge):
    call = ring(bridge, "+12025550143*227")
    bridge.assert_one_lead(call)
    assert "+12025550143 ext. 227" in bridge.note(call)


def json_call(bridge, raw_from):
    """A signed JSON event whose `from` stands there exactly as given."""
    call = bridge.phones.call()
    told = {"type": "call.ended", "data": {"call_id": call.sid, "from": "FROM", "to": DIALLED, "direction": "inbound"}}
    body = json.dumps(told).replace('"FROM"', raw_from).encode()
    bridge.take(bridge.phones.generic.sign(body, call.sid))
    return generic_key(call)


@pytest.mark.parametrize(("raw_from", "phone"), [("12025550143", ADA), ('"00491711234567"', "+491711234567")])
def test_b055_number_in_json_keeps_its_digits(bridge, raw_from, phone):
    key = json_call(bridge, raw_from)
    assert bridge.state(key) == "done"
    assert [contact.phone for contact in bridge.contacts()] == [phone]


def test_b055_exponent_is_no_number_and_its_text_is_kept(bridge):
    key = json_call(bridge, "2.02555e9")
    entry = bridge.entry(key)
    assert (entry.state.value, entry.facts.caller.raw, bridge.asked()) == ("done", "2.02555e9", 0)


def test_b056_plus_of_a_number_reaches_the_crm_as_one(make_crew):
    crew = make_crew(workers=1)
    contact = crew.ghl.add_contact(phone=ADA)
    call = crew.phones.call()
    crew.post(crew.phones.ended(call))
    crew.rest()
    assert crew.assert_one_lead(call) == contact.id
    [search] = crew.truth.requests(endpoint=SEARCH)
    assert f"number={ADA}" in search.query.split("&")


def test_b056_plus_that_came_as_a_space_is_put_back(bridge):
    contact = bridge.add(ADA)
    assert_found(bridge, contact, ring(bridge, " 12025550143"))


def test_b058_call_from_a_second_number_lands_on_its_contact(bridge):
    contact = bridge.add("+12025550199", additional_phones=(ADA,))
    bridge.rig.engine.configure({"match_additional_phones": True})
    bridge.fault("finds_nothing", **AT_SEARCH)
    call = ring(bridge, ADA)
    assert bridge.entry(call).contact_id == contact.id
    [kept] = bridge.contacts()
    assert kept.fields == contact.fields
    assert bridge.state(call) == "done"


def test_b058_duplicate_that_is_not_named_is_one_question_and_not_tried_for_ever(bridge):
    bridge.fault("plain_text", status=400, text='{"message": "This location does not allow duplicated contacts."}', **AT_CREATE)
    call = ring(bridge, ADA)
    assert bridge.state(call) == "needs_attention"
    assert bridge.entry(call).trouble.word == "crm.duplicate_unnamed"
    assert bridge.failures() == ["crm.duplicate_unnamed"]
    assert bridge.asked(CREATE) <= 2
    assert bridge.contacts() == []

"""K05, anonymous, own and unknown numbers: no identity, no contact; and never a search that could find somebody else."""

from __future__ import annotations

import json

import pytest

from bridge.intake.daily import sort
from bridge.ledger import by_hand
from bridge.ledger.store import Change
from handlers.no_lead import SHORT, SKIPPED
from tests.cases.support import ADA, CREATE, DIALLED, generic_key, twilio_key

KEYPAD = ["+266696687", "+266696687", "+266696687", "+7378742833", "+86282452253"]


def ignored(bridge):
    return {
        name.decode(): int(times) for name, times in bridge.connection.hgetall("cb:count").items() if name.startswith(b"events.ignored")
    }


def test_b059_keypad_spellings_of_hidden_callers_make_no_contact(bridge):
    calls = [bridge.phones.call(caller) for caller in KEYPAD]
    bridge.take(*map(bridge.phones.ended, calls))
    assert (bridge.contacts(), bridge.asked()) == ([], 0)
    assert {(bridge.state(call), bridge.entry(call).reason) for call in calls} == {("done", "the caller withheld the number")}


def test_b059_hidden_callers_never_share_a_contact(make_bridge):
    bridge = make_bridge(ANONYMOUS="lead")
    calls = [bridge.phones.call(caller) for caller in KEYPAD]
    bridge.take(*map(bridge.phones.ended, calls))
    assert len({bridge.entry(call).contact_id for call in calls}) == len(calls)
    assert [contact.phone for contact in bridge.contacts()] == [None] * len(calls)
    assert [len(bridge.notes(call)) for call in calls] == [1] * len(calls)


@pytest.mark.parametrize("caller", ["", "-1"])
def test_b061_unusable_number_is_never_searched_for(bridge, caller):
    bridge.add(ADA, firstName="Ada")
    call = bridge.phones.call(caller)
    bridge.take(bridge.phones.ended(call))
    assert (bridge.state(call), bridge.asked()) == ("done", 0)


def test_b061_missing_number_is_never_searched_for(bridge):
    bridge.add(ADA, firstName="Ada")
    call = bridge.phones.call()
    fields = {"CallSid": call.sid, "To": DIALLED, "CallStatus": "completed", "Direction": "inbound", "CallDuration": "5"}
    bridge.take(bridge.phones.twilio.post("status", fields))
    assert (bridge.state(call), bridge.asked()) == ("done", 0)
    assert bridge.entry(call).reason == "the phone system sent no caller number"


@pytest.mark.parametrize("told", ["null", '""', '"-1"', '"None"'])
def test_b061_null_in_json_is_never_searched_for(bridge, told):
    bridge.add(ADA, firstName="Ada")
    call = bridge.phones.call()
    body = f'{{"type": "call.ended", "data": {{"call_id": "{call.sid}", "from": {told}, "to": "{DIALLED}"}}}}'.encode()
    bridge.take(bridge.phones.generic.sign(body, "msg_1"))
    assert (bridge.state(generic_key(call)), bridge.asked()) == ("done", 0)


@pytest.mark.parametrize("caller", ["+10000000000", "0000000000", "1111111111", "9999999999", "+15555555555", "+1", "0", "+"])
def test_b061_placeholder_that_many_callers_share_is_nobodys_number(bridge, caller):
    call = bridge.phones.call(caller)
    bridge.take(bridge.phones.ended(call))
    assert (bridge.state(call), bridge.contacts(), bridge.asked()) == ("done", [], 0)


@pytest.mark.parametrize("caller", ["123456e1", "sip:1001@pbx.example", "client:agent7"])
def test_b062_sip_id_is_no_number(bridge, caller):
    call = bridge.phones.call(caller)
    bridge.take(bridge.phones.ended(call))
    assert (bridge.state(call), bridge.asked()) == ("done", 0)
    assert bridge.entry(call).facts.caller.raw == caller


def test_b062_number_in_a_sip_address_is_one(bridge):
    call = bridge.phones.call("sip:+12025550143@pbx.example")
    bridge.take(bridge.phones.ended(call))
    bridge.assert_one_lead(call)


@pytest.mark.parametrize("direction", ["outbound-api", "outbound-dial"])
def test_b064_outbound_call_is_ignored_and_counted(bridge, direction):
    call = bridge.phones.call(DIALLED, dialled=ADA)
    bridge.take(bridge.phones.ended(call, Direction=direction))
    assert (bridge.entries(), bridge.asked()) == ([], 0)
    assert ignored(bridge) == {"events.ignored:outbound call": 1}


def test_b064_missing_direction_is_decided_by_the_own_numbers(bridge):
    call = bridge.phones.call(DIALLED, dialled=ADA)
    bridge.take(bridge.phones.ended(call, Direction=""))
    assert (bridge.entries(), sum(ignored(bridge).values())) == ([], 1)


@pytest.mark.parametrize("spelt", [DIALLED, "15550109999", "555-010-9999", f"sip:{DIALLED}@pbx.example"])
def test_b064_own_number_that_rings_in_makes_no_contact_whatever_the_direction_says(bridge, spelt):
    call = bridge.phones.call(spelt, dialled="+12025550177")
    bridge.take(bridge.phones.ended(call, Direction="inbound"))
    assert (bridge.state(call), bridge.contacts(), bridge.asked()) == ("done", [], 0)
    assert "OWN_NUMBERS" in bridge.entry(call).reason


@pytest.mark.parametrize("direction", [None, "internal"])
def test_b064_internal_call_is_ignored_and_counted(bridge, direction):
    data = {"call_id": "i-1", "from": "201", "to": "202"} | ({"direction": direction} if direction else {})
    bridge.take(bridge.phones.generic.sign(json.dumps({"type": "call.ended", "data": data}).encode(), "msg_1"))
    assert (bridge.entries(), bridge.asked()) == ([], 0)
    assert ignored(bridge) == {"events.ignored:internal call": 1}


def test_b064_internal_call_makes_no_contact_at_twilio_either(bridge):
    call = bridge.phones.call("201", dialled="202")
    bridge.take(bridge.phones.ended(call, Direction=""))
    assert (bridge.contacts(), bridge.asked()) == ([], 0)


def test_b065_flood_of_short_calls_hides_no_real_caller_and_costs_three_requests_each(bridge):
    """No rule judges a caller by the neighbours of its number: each is a lead of its own, whom staff can delete."""
    short = [bridge.phones.call(f"+1202555{110 + number:04}") for number in range(40)]
    real = [bridge.phones.call(f"+1202555{180 + number:04}") for number in range(3)]
    bridge.take(*(bridge.phones.twilio.status(call, "completed", after_s=1, StirVerstat="No-TN-Validation") for call in short))
    bridge.take(*map(bridge.phones.ended, real))
    for call in real:
        bridge.assert_one_lead(call, phone=call.caller)
    assert bridge.asked() <= 3 * 43 + 1
    assert bridge.asked(CREATE) == 43


def flood(bridge):
    """Ninety calls of neighbouring numbers, over at once; and three callers among them who stay on the line."""
    short = [bridge.phones.call(f"+1202555{110 + number:04}") for number in range(90)]
    real = [bridge.phones.call(f"+1202555{200 + number:04}") for number in range(3)]
    bridge.take(*(bridge.phones.twilio.status(call, "completed", after_s=2, StirVerstat="No-TN-Validation") for call in short))
    bridge.take(*map(bridge.phones.ended, real))
    return short, real


def test_b065_flood_of_short_calls_makes_no_leads_where_the_owner_says_so_and_hides_no_real_caller(make_bridge):
    bridge = make_bridge(SHORT_CALL_S="3")
    short, real = flood(bridge)
    for call in real:
        bridge.assert_one_lead(call, phone=call.caller)
    assert (len(bridge.contacts()), bridge.asked(CREATE), bridge.failures()) == (3, 3, [])
    assert bridge.asked() <= 3 * 3 + 1
    assert {(bridge.state(call), bridge.entry(call).reason) for call in short} == {("done", SHORT)}
    assert {sort(bridge.entry(call)) for call in short} == {("without lead", SHORT)}, "each is kept, and counted by its reason"


def test_b065_each_of_them_can_be_made_a_lead_by_hand(make_bridge):
    bridge = make_bridge(SHORT_CALL_S="3")
    short, _real = flood(bridge)
    bridge.rig.process.store.change(
        twilio_key(short[7]), lambda entry, moment: Change(by_hand.replay(entry, moment.now, start_at=moment.now))
    )
    bridge.rig.rest()
    bridge.assert_one_lead(short[7], phone=short[7].caller)
    assert len(bridge.contacts()) == 4


def test_b065_what_comes_later_makes_a_short_call_a_lead_by_itself(make_bridge):
    bridge = make_bridge(SHORT_CALL_S="3")
    call = bridge.phones.call()
    bridge.take(bridge.phones.twilio.status(call, "completed", after_s=2))
    assert (bridge.state(call), bridge.entry(call).reason) == ("done", SHORT)
    bridge.take(bridge.phones.twilio.recording(call, duration_s=9))
    bridge.assert_one_lead(call)


def test_b065_caller_on_the_list_of_the_owner_makes_no_lead_until_taken_off_it(make_bridge):
    bridge = make_bridge(SKIPPED_CALLERS=f"+12025550111, {ADA}")
    call = bridge.phones.call(ADA)
    bridge.take(bridge.phones.ended(call))
    assert (bridge.state(call), bridge.entry(call).reason, bridge.asked()) == ("done", SKIPPED, 0)
    neighbour = bridge.phones.call("+12025550144")
    bridge.take(bridge.phones.ended(neighbour))
    bridge.assert_one_lead(neighbour, phone="+12025550144")


def test_b067_withheld_caller_ends_well_without_any_step(bridge):
    call = bridge.phones.call("Anonymous")
    bridge.take(bridge.phones.ended(call))
    assert (bridge.state(call), bridge.failures(), bridge.asked()) == ("done", [], 0)

"""The generic provider: what a script of one's own may send, and Amazon Connect."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from bridge.call import CallerKind, Input, Leg, Recording, Status, Transcript
from bridge.errors import WrongSettings
from bridge.providers.base import Heard, Ignored, Kind, Sender
from bridge.providers.signed_json import SignedJson
from bridge.sandbox.phone import GenericPhone, sample
from tests.providers.support import NOW, PUBLIC_URL, SECRET, received, settings

PHONE = GenericPhone(PUBLIC_URL, SECRET, now=lambda: NOW)


def parse(payload, **environment):
    adapter = SignedJson(settings(GENERIC_SECRET=SECRET, **environment))
    request = received(PHONE.sign(json.dumps(payload).encode(), "msg_1"))
    return adapter.parse(request, adapter.verify(request))


def call(**data):
    return parse({"type": "call.started", "data": {"call_id": "c1"} | data})


def sampled(name):
    heard = SignedJson(settings(GENERIC_SECRET=SECRET)).parse(received(sample("generic", name)), Sender())
    assert isinstance(heard, Heard)
    return heard


def test_the_events_of_one_call_share_its_key():
    names = ["call-started", "call-input", "call-ended", "call-recording-ready"]
    assert len({sampled(name).call.key for name in names}) == 1


def test_a_started_call_tells_who_rings():
    heard = sampled("call-started")
    told = heard.call
    assert (told.caller.e164, told.dialled, told.caller_name, told.status) == ("+15550101234", "+15550109999", "JANE DOE", Status.RINGING)
    assert told.started_at == datetime(2026, 1, 15, 15, 4, 5, tzinfo=UTC)
    assert (heard.kind, heard.delivery_id) == (Kind.NEWS, "msg_pbx1-1768489445.42-started")


def test_an_ended_call_tells_its_times():
    told = sampled("call-ended").call
    assert (told.status, told.duration_s, told.raw_status) == (Status.COMPLETED, 94, "completed")
    assert told.answered_at < told.ended_at


def test_inputs_recordings_and_transcripts_are_read():
    assert sampled("call-input").call.inputs == (Input("digits", "2", "main-menu", "msg_pbx1-1768489445.42-input-1"),)
    told = sampled("call-recording-ready").call
    assert told.recordings == (Recording("rec-42", "https://pbx.example.com/recordings/rec-42.wav", 31),)
    assert told.transcripts == (Transcript("rec-42", "Please call me back about the roof."),)
    assert told.caller is None


def test_several_inputs_keep_their_order():
    assert [entered.value for entered in call(digits=["1", "", "3"], speech="roof").call.inputs] == ["1", "", "3", "roof"]
    assert call(digits=None).call.inputs == ()


@pytest.mark.parametrize("recording", [{}, {"id": "r"}, {"url": "file:///etc/passwd"}, "https://x", None])
def test_a_recording_without_a_web_address_is_none(recording):
    assert call(recording=recording).call.recordings == ()


def test_an_account_is_part_of_the_key():
    assert len({call().call.key, call(account="east").call.key, call(account="west").call.key}) == 3


def test_a_leg_names_no_caller():
    told = call(parent_call_id="root", to="+15550108888", status="busy", **{"from": "+15550101234"}).call
    assert (told.root_id, told.caller, told.legs) == ("root", None, (Leg("c1", "+15550108888", Status.BUSY, None),))


def test_an_unknown_type_with_a_call_is_later_news():
    heard = parse({"type": "call.tagged", "data": {"call_id": "c1", "from": "+15550101234"}})
    assert heard.call.status is Status.UNKNOWN


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        ({}, "no data object"),
        ({"data": 5}, "no data object"),
        ({"data": {}}, "no call id"),
        ({"data": {"call_id": None}}, "no call id"),
        ({"data": {"call_id": " "}}, "no call id"),
    ],
)
def test_an_event_without_a_call_is_ignored(payload, reason):
    assert parse(payload) == Ignored(reason)


def test_a_channel_is_amazons_alone():
    """Whoever relays the events of an Asterisk may well send the name of its channel along."""
    parsed = parse({"type": "call.started", "data": {"call_id": "c1", "from": "+15550101234", "channel": "PJSIP/trunk-00000001"}})
    assert parsed.call.caller.e164 == "+15550101234"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ({"direction": "outbound"}, "outbound call"),
        ({"direction": "INTERNAL"}, "internal call"),
        ({"direction": "outgoing"}, "outbound call"),
        ({"from": "201", "to": "202"}, "internal call"),
        ({"from": "+15550109999", "to": "+15550101234"}, "outbound call"),
    ],
)
def test_calls_that_nobody_made_to_us_are_ignored(data, reason):
    parsed = parse({"type": "call.started", "data": {"call_id": "c1"} | data}, OWN_NUMBERS="+15550109999")
    assert parsed == Ignored(reason)


@pytest.mark.parametrize("number", [12025550143, "12025550143", "+1 202 555 0143"])
def test_a_caller_may_be_a_whole_number(number):
    assert call(**{"from": number}).call.caller.e164 == "+12025550143"


def test_a_decimal_is_no_caller():
    assert call(**{"from": 2.02555e9}).call.caller.kind is CallerKind.UNPARSED


def test_a_contact_flow_of_amazon_connect_is_a_call():
    told = sampled("connect-lambda-forwarded").call
    assert (told.root_id, told.caller.e164, told.dialled) == ("4a000000-0000-4000-8000-000000000001", "+15550101234", "+15550109999")
    assert told.status is Status.IN_PROGRESS


def test_a_contact_event_of_amazon_connect_is_news_of_the_same_call():
    told = sampled("connect-eventbridge-forwarded").call
    assert told.key == sampled("connect-lambda-forwarded").call.key
    assert (told.caller, told.status, told.legs) == (None, Status.RINGING, ())
    assert told.started_at == datetime(2026, 1, 15, 15, 4, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"channel": "CHAT"}, "not a voice contact"),
        ({"initiationMethod": "OUTBOUND"}, "outbound call"),
        ({"contactId": None}, "no call id"),
    ],
)
def test_other_contacts_of_amazon_connect_are_ignored(changed, reason):
    event = json.loads(sample("generic", "connect-eventbridge-forwarded").body)
    event["detail"] |= changed
    assert parse(event) == Ignored(reason)


@pytest.mark.parametrize("secret", [" , ", "whsec_", "whsec_c2hvcnQ=", f"{SECRET},whsec_***"])
def test_a_secret_that_cannot_be_used_is_named_and_not_printed(secret):
    with pytest.raises(WrongSettings, match="GENERIC_SECRET") as fault:
        SignedJson(settings(GENERIC_SECRET=secret))
    assert SECRET not in str(fault.value)

"""Dialpad: its token, its legs and its milliseconds."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import jwt
import pytest

from bridge.call import Leg, Recording, Status, Transcript, contradicts, merge
from bridge.errors import Refused, WrongSettings
from bridge.providers.base import Ignored, Sender
from bridge.providers.dialpad import Dialpad
from bridge.sandbox.phone import Delivery, sample
from tests.providers.support import received, settings

SECRET = "dialpad-webhook-secret-made-up-32ch"
ADAPTER = Dialpad(settings(DIALPAD_SECRET=SECRET))
URL = "https://ivr.example.com/webhooks/dialpad/events"


def parse(**event):
    told = {"call_id": 10, "state": "hangup", "direction": "inbound", "external_number": "+15550101234"} | event
    request = received(Delivery("POST", URL, {}, jwt.encode(told, SECRET, algorithm="HS256").encode()))
    return ADAPTER.parse(request, ADAPTER.verify(request))


def sampled(name):
    request = received(sample("dialpad", name))
    return ADAPTER.parse(request, ADAPTER.verify(request)).call


def test_a_ringing_call_tells_who_rings():
    told = sampled("call-ringing")
    assert (told.root_id, told.caller.e164, told.dialled) == ("5780000000000001", "+15550101234", "+15550109999")
    assert (told.status, told.raw_status, told.caller_name) == (Status.RINGING, "ringing", "JANE DOE")


def test_times_are_milliseconds():
    told = sampled("call-hangup")
    assert (told.started_at, told.duration_s) == (datetime(2026, 1, 15, 15, 4, 5, tzinfo=UTC), 94)
    assert (told.ended_at - told.answered_at).total_seconds() == 94
    assert told.status is Status.COMPLETED


@pytest.mark.parametrize(
    ("event", "status"),
    [
        ({"date_connected": None}, Status.NO_ANSWER),
        ({"date_connected": 1_768_489_449_000}, Status.COMPLETED),
        ({}, Status.COMPLETED),
        ({"state": "missed"}, Status.NO_ANSWER),
        ({"state": "abandoned"}, Status.CANCELED),
        ({"state": "recap_summary"}, Status.UNKNOWN),
    ],
)
def test_a_hangup_is_not_always_a_conversation(event, status):
    assert parse(**event).call.status is status


@pytest.mark.parametrize("name", ["entry_point_call_id", "master_call_id"])
def test_who_takes_the_call_is_a_leg_of_it(name):
    root = parse(call_id=9, internal_number="+15550109999").call
    leg = parse(**{name: 9}, internal_number="+15550108888", target={"phone": "+15550108888"}).call
    assert leg.legs == (Leg("10", "+15550108888", Status.COMPLETED),)
    assert (leg.key, leg.status, leg.dialled) == (root.key, Status.UNKNOWN, None)
    assert leg.caller.e164 == "+15550101234"  # a subscription for one person alone still makes the lead
    assert not contradicts(root, leg)
    assert merge(leg, root).dialled == "+15550109999"


@pytest.mark.parametrize("nothing", [None, 0, "", "null"])
def test_a_blank_parent_is_none(nothing):
    assert parse(entry_point_call_id=nothing).call.root_id == "10"


def test_recordings_voicemails_and_transcripts_are_read():
    told = parse(
        recording_details=[{"id": "r1", "url": "https://dialpad.com/r/1", "duration": 31_500.5}, {"id": "r2"}],
        voicemail_link="https://dialpad.com/v/1",
        voicemail_recording_id="v1",
        transcription_text="Please call\nback.",
    ).call
    assert told.recordings == (Recording("r1", "https://dialpad.com/r/1", 31), Recording("v1", "https://dialpad.com/v/1"))
    assert told.transcripts == (Transcript("10", "Please call back."),)


def test_a_contact_named_by_its_number_has_no_name():
    assert parse(contact={"name": "(202) 555-0143"}).call.caller_name is None
    assert parse(contact={"name": "Jane"}).call.caller_name == "Jane"


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        ({"direction": "outbound"}, "outbound call"),
        ({"is_internal": True}, "internal call"),
        ({"call_id": None}, "no call id"),
    ],
)
def test_what_makes_no_call_is_ignored_with_its_reason(event, reason):
    assert parse(**event) == Ignored(reason)


def test_plain_json_is_refused_with_the_way_out():
    with pytest.raises(Refused, match="give the webhook in Dialpad a secret") as refusal:
        ADAPTER.verify(received(Delivery("POST", URL, {}, json.dumps({"call_id": 1}).encode())))
    assert refusal.value.status == 401


def test_a_token_in_quotes_is_a_token():
    body = b'"' + jwt.encode({"call_id": 1}, SECRET, algorithm="HS256").encode() + b'"\n'
    assert ADAPTER.verify(received(Delivery("POST", URL, {}, body))) == Sender()


def test_a_secret_shorter_than_the_standard_demands_is_refused_at_start():
    with pytest.raises(WrongSettings, match="DIALPAD_SECRET: one or more secrets of 32 characters"):
        Dialpad(settings(DIALPAD_SECRET="x" * 31))

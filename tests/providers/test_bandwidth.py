"""Bandwidth: who waits for BXML, what a caller hears, and what an event tells."""

from __future__ import annotations

import base64
import json
import xml.etree.ElementTree as ET
from datetime import UTC, datetime

import pytest

from bridge.call import CallerKind, Input, Leg, Recording, Status
from bridge.errors import Refused, WrongSettings
from bridge.providers.bandwidth import Bandwidth
from bridge.providers.base import Ignored, Kind, Sender
from bridge.sandbox.phone import Delivery, sample
from tests.providers.support import PUBLIC_URL, received, settings

USER, PASSWORD = "bw-hook-user", "bw-hook-pass-made-up"
SYNCHRONOUS = ("initiate", "answer", "gather", "redirect", "transferAnswer", "transferComplete", "recordComplete", "conferenceMemberJoin")
ASYNCHRONOUS = ("disconnect", "dtmf", "recordingAvailable", "transcriptionAvailable", "transferDisconnect", "conferenceCompleted")


def adapter(**environment):
    return Bandwidth(settings(**{"BANDWIDTH_USER": USER, "BANDWIDTH_PASSWORD": PASSWORD} | environment))


def request(event, query=""):
    return received(Delivery("POST", f"{PUBLIC_URL}/webhooks/bandwidth/main-menu{query}", {}, json.dumps(event).encode()))


def parse(event, **told):
    return adapter().parse(request({"eventType": event, "callId": "c-1", "direction": "inbound"} | told), Sender())


def sampled(name):
    return adapter().parse(received(sample("bandwidth", name)), Sender())


def heard_by_the_caller(provider, event, query=""):
    """The verbs of the answer."""
    answer = provider.answer(Kind.VOICE, request(event, query))
    assert answer.content_type == "application/xml"
    root = ET.fromstring(answer.body)
    assert root.tag == "Response"
    return list(root)


def test_an_initiated_call_tells_who_rings_and_who_forwarded():
    heard = sampled("initiate")
    told = heard.call
    assert (told.caller.e164, told.dialled, told.forwarded_from) == ("+15550101234", "+15550109999", "+15550107777")
    assert (told.status, told.raw_status, heard.kind) == (Status.RINGING, "initiate", Kind.VOICE)
    assert told.started_at == datetime(2026, 1, 15, 15, 4, 5, 234000, tzinfo=UTC)


def test_an_anonymous_caller_has_no_number():
    assert sampled("initiate-anonymous").call.caller.kind is CallerKind.WITHHELD


def test_what_was_pressed_is_an_input():
    heard = sampled("gather")
    assert heard.call.inputs == (Input("digits", "2", "gather", "2026-01-15T15:04:20.554Z"),)
    assert parse("gather", digits="").call.inputs == (Input("digits", "", "main-menu"),)
    assert parse("dtmf", digit="5", eventTime="t").call.inputs == (Input("digits", "5", "main-menu", "t"),)


def test_the_end_tells_why_and_how_long():
    heard = sampled("disconnect")
    assert (heard.call.status, heard.call.raw_status, heard.call.duration_s, heard.kind) == (Status.COMPLETED, "hangup", 93, Kind.NEWS)
    assert heard.call.key == sampled("initiate").call.key


@pytest.mark.parametrize(
    ("told", "status"),
    [
        ({"cause": "hangup"}, Status.CANCELED),
        ({"cause": "hangup", "answerTime": "2026-01-15T15:04:09Z"}, Status.COMPLETED),
        ({"cause": "callback-error"}, Status.FAILED),
        ({"cause": "timeout"}, Status.NO_ANSWER),
        ({"cause": "a-new-cause"}, Status.UNKNOWN),
        ({}, Status.UNKNOWN),
    ],
)
def test_a_disconnect_says_what_became_of_the_call(told, status):
    assert parse("disconnect", **told).call.status is status


def test_the_far_end_of_a_transfer_is_a_leg():
    told = parse("transferDisconnect", parentCallId="c-0", transferTo="+15550108888", direction="outbound", cause="busy").call
    assert (told.root_id, told.caller, told.legs) == ("c-0", None, (Leg("c-1", "+15550108888", Status.BUSY),))


def test_a_recording_has_times_of_its_own():
    told = parse("recordingAvailable", recordingId="r-1", mediaUrl="https://voice.bandwidth.com/r-1/media", duration="PT1M20.056S",
                 startTime="2026-01-15T15:05:00Z", endTime="2026-01-15T15:06:20Z", status="complete").call  # fmt: skip
    assert told.recordings == (Recording("r-1", "https://voice.bandwidth.com/r-1/media", 80),)
    assert (told.started_at, told.ended_at, told.duration_s) == (None, None, None)
    assert parse("recordingAvailable", recordingId="r-1", mediaUrl="https://x/", status="error").call.recordings == ()


@pytest.mark.parametrize("event", [*SYNCHRONOUS, "aNewEvent"])
def test_in_doubt_a_caller_waits_for_bxml(event):
    assert parse(event).kind is Kind.VOICE


@pytest.mark.parametrize("event", ASYNCHRONOUS)
def test_a_report_wants_no_bxml(event):
    assert parse(event).kind is Kind.NEWS
    assert adapter().answer(Kind.NEWS).status == 204


def test_without_an_ivr_callers_hear_one_sentence():
    [sentence] = heard_by_the_caller(adapter(), {"eventType": "initiate"})
    assert sentence.tag == "SpeakSentence"
    assert any("BANDWIDTH_NEXT_URL" in warning for warning in adapter().warnings())


def test_callers_go_on_to_the_ivr_with_what_they_pressed():
    provider = adapter(BANDWIDTH_NEXT_URL="https://ivr.example.org/menu?a=1&b=2")
    [verb] = heard_by_the_caller(provider, {"eventType": "initiate"})
    assert (verb.tag, verb.attrib) == ("Redirect", {"redirectUrl": "https://ivr.example.org/menu?a=1&b=2"})
    [verb] = heard_by_the_caller(provider, {"eventType": "gather", "digits": '2"&', "terminatingDigit": "#"})
    assert verb.attrib == {"redirectUrl": "https://ivr.example.org/menu?a=1&b=2&digits=2%22%26&terminatingDigit=%23"}
    assert not any("BANDWIDTH_NEXT_URL" in warning for warning in provider.warnings())


def test_a_callbacks_own_url_may_name_where_its_caller_goes_on():
    provider = adapter(BANDWIDTH_NEXT_URL="https://ivr.example.org/menu")
    event = {"eventType": "gather", "digits": "2"}
    [verb] = heard_by_the_caller(provider, event, "?next=https%3A%2F%2Fivr.example.org%2Fsales")
    assert verb.attrib == {"redirectUrl": "https://ivr.example.org/sales?digits=2"}
    for useless in ("?next=javascript:1", f"?next={PUBLIC_URL}/webhooks/bandwidth/x", "?next=//[", "?next="):
        [verb] = heard_by_the_caller(provider, event, useless)
        assert verb.attrib == {"redirectUrl": "https://ivr.example.org/menu?digits=2"}


@pytest.mark.parametrize("event", [{"eventType": "transferAnswer"}, {"eventType": "answer", "parentCallId": "c-0"}])
def test_whom_a_transfer_rang_hears_nothing_and_is_connected(event):
    assert heard_by_the_caller(adapter(BANDWIDTH_NEXT_URL="https://ivr.example.org/"), event) == []


@pytest.mark.parametrize(
    ("authorization", "status"),
    [
        ("", 401),
        ("Bearer x", 401),
        ("Basic", 401),
        ("Basic é", 403),
        ("Basic " + base64.b64encode(f"{USER}:".encode()).decode(), 403),
        ("Basic " + base64.b64encode(f"other:{PASSWORD}".encode()).decode(), 403),
    ],
)
def test_user_and_password_have_to_match_both(authorization, status):
    with pytest.raises(Refused) as refusal:
        adapter().verify(received(Delivery("POST", f"{PUBLIC_URL}/webhooks/bandwidth/initiate", {"Authorization": authorization}, b"{}")))
    assert refusal.value.status == status


def test_the_scheme_may_be_written_in_any_case():
    genuine = sample("bandwidth", "initiate")
    lower = genuine.headers["Authorization"].replace("Basic", "basic")
    assert adapter().verify(received(Delivery("POST", genuine.url, {"authorization": lower}, b""))) == Sender()


@pytest.mark.parametrize(
    ("told", "reason"), [({"direction": "outbound"}, "outbound call"), ({"callId": None}, "no call id"), ({"callId": ""}, "no call id")]
)
def test_what_makes_no_call_is_ignored_with_its_reason(told, reason):
    assert parse("initiate", **told) == Ignored(reason, Kind.VOICE)


@pytest.mark.parametrize(
    ("environment", "name"),
    [
        ({"BANDWIDTH_USER": ""}, "BANDWIDTH_USER"),
        ({"BANDWIDTH_USER": "a:b"}, "BANDWIDTH_USER"),
        ({"BANDWIDTH_PASSWORD": "short"}, "BANDWIDTH_PASSWORD"),
        ({"BANDWIDTH_NEXT_URL": f"{PUBLIC_URL}/webhooks/bandwidth/initiate"}, "BANDWIDTH_NEXT_URL"),
        ({"BANDWIDTH_NEXT_URL": "//["}, "BANDWIDTH_NEXT_URL"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named(environment, name):
    with pytest.raises(WrongSettings, match=f"^The environment is not usable:\n  - {name}: "):
        adapter(**environment)

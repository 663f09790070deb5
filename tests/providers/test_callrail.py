"""CallRail: what its webhooks say, of which none is sent twice."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from bridge.call import CallerKind, Recording, Status, Transcript, merge
from bridge.errors import WrongSettings
from bridge.providers import callrail as module
from bridge.providers.base import Heard, Ignored, Kind, Sender
from bridge.providers.callrail import CallRail
from bridge.sandbox.phone import new_call, sample
from tests.providers.carriers import CALL, CALLRAIL_KEY, callrail_body, callrail_signed
from tests.providers.support import received, settings


def callrail(**environment):
    return CallRail(settings(**{"CALLRAIL_SIGNING_KEY": CALLRAIL_KEY} | environment))


def parse(what="post-call", **told):
    return callrail().parse(received(callrail_signed(callrail_body(CALL, **told), what=what)), Sender())


def sampled(name):
    heard = callrail().parse(received(sample("callrail", name)), Sender())
    assert isinstance(heard, Heard)
    return heard


def test_a_call_that_rings_is_not_missed():
    call = sampled("pre-call").call
    assert (call.root_id, call.status, call.duration_s) == ("CAL00000000000000000000000000000001", Status.RINGING, None)
    assert (call.caller.e164, call.dialled, call.caller_name) == ("+15550101234", "+15550109999", "JANE DOE")
    assert (call.city, call.state, call.country) == ("Springfield", "IL", "US")
    assert call.started_at == datetime(2026, 1, 15, 15, 4, 5, 236000, tzinfo=UTC)


def test_the_call_that_has_ended_tells_its_length_and_recording():
    heard = sampled("post-call")
    assert (heard.call.status, heard.call.raw_status, heard.call.duration_s) == (Status.COMPLETED, "answered", 94)
    assert [(one.id, one.duration_s) for one in heard.call.recordings] == [("CAL00000000000000000000000000000001", 90)]
    assert heard.call.transcripts == ()  # asked for, and blank
    assert heard.kind is Kind.NEWS
    assert merge(sampled("call-modified").call, sampled("pre-call").call).status is Status.COMPLETED


def test_a_recording_that_comes_later_joins():
    told = {"answered": True, "recording": "https://app.example.com/r", "recording_duration": 9, "transcription": "a roof"}
    call = merge(parse(answered=True).call, parse("call-modified", **told).call)
    assert call.recordings == (Recording(CALL.sid, "https://app.example.com/r", 9),)
    assert call.transcripts == (Transcript(CALL.sid, "a roof"),)


@pytest.mark.parametrize(
    ("what", "told", "status"),
    [
        ("pre-call", {"answered": False, "call_type": "missed"}, Status.RINGING),
        ("routing-complete", {"answered": False, "call_type": "missed"}, Status.RINGING),
        ("post-call", {"answered": True, "call_type": "first_call"}, Status.COMPLETED),
        ("post-call", {"answered": False, "call_type": "missed"}, Status.NO_ANSWER),
        ("post-call", {"answered": False, "call_type": "abandoned"}, Status.CANCELED),
        ("post-call", {"answered": False, "call_type": "voicemail", "voicemail": True}, Status.NO_ANSWER),
        ("post-call", {"answered": False, "call_type": "a_new_type"}, Status.NO_ANSWER),
        ("post-call", {"call_type": "a_new_type"}, Status.UNKNOWN),
        ("somewhere", {"answered": False, "call_type": "missed"}, Status.UNKNOWN),
        ("somewhere", {"answered": True}, Status.COMPLETED),
    ],
)
def test_the_url_tells_what_the_body_does_not(what, told, status):
    assert parse(what, **told).call.status is status


def test_the_resource_id_outranks_the_old_one_which_is_better_than_no_call():
    assert parse().call.root_id == CALL.sid
    assert parse(resource_id=None).call.root_id == "900000001"
    assert parse(resource_id=None, id=None) == Ignored("no call id")


def test_outbound_calls_are_ignored():
    assert parse(direction="outbound") == Ignored("outbound call")


def test_old_names_are_understood():
    body = json.dumps(
        {"resource_id": "CAL1", "callernum": "+15550101234", "trackingnum": "+15550109999", "callername": "anonymous"}
    ).encode()
    call = callrail().parse(received(callrail_signed(body)), Sender()).call
    assert (call.caller.e164, call.dialled, call.caller_name) == ("+15550101234", "+15550109999", None)


def test_a_withheld_caller_is_none():
    call = callrail().parse(received(callrail_signed(callrail_body(new_call_of("Restricted")))), Sender()).call
    assert call.caller.kind is CallerKind.WITHHELD


def new_call_of(caller):
    import random

    return new_call(random.Random(1), caller=caller)


def test_signatures_are_base64_of_sha1_over_the_raw_body():
    assert module.body_signature("key", b"The quick brown fox jumps over the lazy dog") == "3nybhbi3iqa8ino29wqQcBydtNk="


def test_a_missing_key_is_found_at_start():
    with pytest.raises(WrongSettings, match="CALLRAIL_SIGNING_KEY"):
        callrail(CALLRAIL_SIGNING_KEY=" ")
    assert callrail().warnings() == ()
    assert callrail().answer(Kind.NEWS).status == 204

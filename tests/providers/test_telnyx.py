"""Telnyx: Call Control and TeXML, and which of their events may name a caller."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from bridge.call import CallerKind, Direction, Input, Leg, Recording, Status, Transcript, merge
from bridge.errors import Refused, WrongSettings
from bridge.providers.base import Heard, Ignored, Kind, Sender
from bridge.providers.telnyx import Telnyx
from bridge.sandbox.phone import sample
from tests.providers.carriers import TELNYX_OTHER_KEY, TELNYX_PUBLIC_KEY, telnyx_event, telnyx_signed
from tests.providers.support import NOW, received, settings

SESSION = "0a1b2c3d-0000-4000-8000-0000000000aa"
OWN = "+15550109999"


def telnyx(**environment):
    return Telnyx(settings(**{"TELNYX_PUBLIC_KEY": TELNYX_PUBLIC_KEY} | environment))


def parse(delivery, **environment):
    adapter, request = telnyx(**environment), received(delivery)
    return adapter.parse(request, adapter.verify(request))


def sampled(name, **environment):
    heard = telnyx(**environment).parse(received(sample("telnyx", name)), Sender())
    assert isinstance(heard, Heard)
    return heard


# ---- Call Control


def test_the_first_event_tells_who_rings():
    heard = sampled("call-initiated")
    call = heard.call
    assert (call.root_id, call.caller.e164, call.dialled, call.caller_name) == (SESSION, "+15550101234", OWN, "JANE DOE")
    assert (call.status, call.started_at) == (Status.RINGING, datetime(2026, 1, 15, 15, 4, 5, tzinfo=UTC))
    assert (heard.kind, heard.delivery_id) == (Kind.NEWS, "e0000000-0000-4000-8000-000000000001")


def test_a_retry_is_the_same_event():
    first, retry = sampled("call-initiated"), sampled("call-initiated-duplicate")
    assert (retry.delivery_id, retry.content, retry.call) == (first.delivery_id, first.content, first.call)


def test_a_withheld_caller_has_neither_number_nor_name():
    call = sampled("call-initiated-anonymous").call
    assert (call.caller.kind, call.caller.e164, call.caller_name) == (CallerKind.WITHHELD, None, None)


def test_the_events_of_one_visit_add_up_in_any_order():
    names = ["call-initiated", "call-answered", "call-gather-ended", "call-hangup", "call-recording-saved"]
    for order in (names, names[::-1]):
        whole = sampled(order[0]).call
        for name in order[1:]:
            whole = merge(whole, sampled(name).call)
        assert (whole.root_id, whole.status, whole.raw_status, whole.duration_s) == (SESSION, Status.COMPLETED, "normal_clearing", 98)
        assert (whole.caller.e164, whole.dialled) == ("+15550101234", OWN)
        assert whole.answered_at == datetime(2026, 1, 15, 15, 4, 9, 123456, tzinfo=UTC)
        assert whole.ended_at == datetime(2026, 1, 15, 15, 5, 43, tzinfo=UTC)
        assert [entered.value for entered in whole.inputs] == ["2"]
        assert whole.recordings == (Recording("e0000000-0000-4000-8000-000000000006", "https://example.com/rec/telnyx-1.mp3", 31),)


@pytest.mark.parametrize("name", ["call-answered", "call-gather-ended", "call-hangup"])
def test_later_events_name_the_caller_only_where_the_dialled_number_is_ours(name):
    assert sampled(name).call.caller is None
    assert sampled(name).call.dialled is None
    known = sampled(name, OWN_NUMBERS=OWN).call
    assert (known.caller.e164, known.dialled) == ("+15550101234", OWN)


def test_an_outgoing_call_is_ignored_with_all_its_events():
    assert parse(telnyx_event("call.initiated", direction="outgoing")) == Ignored("outbound call")
    told = {"from": OWN, "to": "+15550101234"}
    for event in ("call.answered", "call.hangup"):
        assert parse(telnyx_event(event, **told), OWN_NUMBERS=OWN) == Ignored("outbound call")
        assert parse(telnyx_event(event, **told)).call.caller is None  # without OWN_NUMBERS nothing tells whose call it is


@pytest.mark.parametrize(
    ("cause", "status"),
    [
        ("normal_clearing", Status.COMPLETED),
        ("NORMAL_CLEARING", Status.COMPLETED),
        ("originator_cancel", Status.CANCELED),
        ("a_new_cause", Status.COMPLETED),
    ],
)
def test_a_hangup_ends_the_call_whatever_its_cause(cause, status):
    call = parse(telnyx_event("call.hangup", hangup_cause=cause)).call
    assert (call.status, call.raw_status, call.legs) == (status, cause, ())


@pytest.mark.parametrize("cause", ["timeout", "user_busy", "call_rejected", "not_found", "no_answer"])
def test_a_leg_dialled_in_vain_does_not_end_the_call(cause):
    call = parse(telnyx_event("call.hangup", hangup_cause=cause, to="+15550107777")).call
    assert (call.status, [leg.id for leg in call.legs]) == (Status.UNKNOWN, ["leg-1"])
    assert call.legs[0].status.is_final


def test_with_own_numbers_the_end_of_another_leg_is_known_as_such():
    told = {"from": "+15550101234", "to": "+15550107777", "start_time": "2026-01-15T15:05:00Z", "hangup_cause": "normal_clearing"}
    call = parse(telnyx_event("call.hangup", **told), OWN_NUMBERS=OWN).call
    assert (call.status, call.caller, call.legs) == (Status.UNKNOWN, None, (Leg("leg-1", "+15550107777", Status.COMPLETED, 43),))


def test_a_gather_that_ends_with_nothing_was_asked_all_the_same():
    assert parse(telnyx_event("call.gather.ended", status="timeout")).call.inputs == (Input("digits", "", "events", "e1"),)


def test_a_transcript_is_kept():
    told = {"transcription_text": "I need a roof", "recording_transcription_id": "t1"}
    assert parse(telnyx_event("call.recording.transcription.saved", **told)).call.transcripts == (Transcript("t1", "I need a roof"),)


def test_a_public_recording_address_outlives_the_other():
    urls = {
        "recording_urls": {"mp3": "https://example.com/10-minutes.mp3"},
        "public_recording_urls": {"mp3": "https://example.com/stays.mp3"},
    }
    (recording,) = parse(telnyx_event("call.recording.saved", recording_id="r1", **urls)).call.recordings
    assert (recording.id, recording.url) == ("r1", "https://example.com/stays.mp3")


@pytest.mark.parametrize(
    ("value", "number"),
    [("<sip:+15550107777@sip.example.com>;reason=unconditional", "+15550107777"), ("nonsense", None), ("", None)],
)
def test_a_diverted_call_tells_from_where(value, number):
    headers = [{"name": "Other", "value": "x"}, {"name": "Diversion", "value": value}]
    assert parse(telnyx_event("call.initiated", sip_headers=headers)).call.forwarded_from == number


@pytest.mark.parametrize("event", ["call.playback.started", "call.cost", "call.dtmf.received", "a.new.event", ""])
def test_events_that_say_nothing_of_a_caller_are_ignored(event):
    assert parse(telnyx_event(event)) == Ignored("an event that says nothing about a caller")


def test_an_event_without_a_session_is_ignored():
    assert parse(telnyx_event("call.initiated", call_session_id=None)) == Ignored("no call id")


# ---- TeXML


def test_texml_tells_what_twilio_would():
    voice, ended = sampled("texml-voice"), sampled("texml-status-completed")
    assert (voice.kind, ended.kind) == (Kind.VOICE, Kind.NEWS)
    assert voice.call.key == ended.call.key
    assert (voice.call.caller.e164, voice.call.caller_name, voice.call.status) == ("+15550101234", "JANE DOE", Status.RINGING)
    assert (ended.call.status, ended.call.duration_s, ended.call.ended_at.second) == (Status.COMPLETED, 94, 43)
    assert sampled("texml-gather").call.inputs == (Input("digits", "2", "texml/gather"),)


def test_a_texml_leg_belongs_to_its_parent():
    body = b"CallSid=v3:child&ParentCallSid=v3:root&CallStatus=completed&From=%2B15550109999&To=%2B15550107777&CallDuration=20"
    call = parse(telnyx_signed(body)).call
    assert (call.root_id, call.caller, call.legs) == ("v3:root", None, (Leg("v3:child", "+15550107777", Status.COMPLETED, 20),))


def test_an_outbound_texml_call_is_ignored():
    assert parse(telnyx_signed(b"CallSid=v3:1&Direction=outbound&CallStatus=completed")) == Ignored("outbound call")


def test_a_texml_caller_hears_xml_and_call_control_gets_200():
    adapter = telnyx()
    assert b"<Say>" in adapter.answer(Kind.VOICE).body
    news = adapter.answer(Kind.NEWS)
    assert (news.status, news.body) == (200, b"")
    request = replace(received(telnyx_signed(b"CallSid=1&Digits=2")), query="next=https%3A%2F%2Fivr.example.net%2Fmenu")
    assert b">https://ivr.example.net/menu?Digits=2</Redirect>" in adapter.answer(Kind.VOICE, request).body


# ---- Who proves what


def test_a_query_proves_nothing():
    with pytest.raises(Refused, match="POST"):
        telnyx().verify(received(replace(telnyx_signed(b""), method="GET")))


@pytest.mark.parametrize("now", [NOW - 301, NOW + 301])
def test_too_old_and_too_new_are_refused(now):
    with pytest.raises(Refused, match="300 s"):
        telnyx().verify(received(telnyx_signed(b"CallSid=1"), now=now))


@pytest.mark.parametrize("now", [NOW - 300, NOW + 300])
def test_five_minutes_either_way_are_allowed(now):
    assert telnyx().verify(received(telnyx_signed(b"CallSid=1"), now=now)) == Sender()


@pytest.mark.parametrize("given", ["", "AAAA", "é", "=" * 88, "A" * 88])
def test_a_broken_signature_is_refused(given):
    delivery = telnyx_signed(b"CallSid=1")
    with pytest.raises(Refused):
        telnyx().verify(received(replace(delivery, headers={**delivery.headers, "telnyx-signature-ed25519": given})))


def test_another_accounts_key_proves_nothing():
    with pytest.raises(Refused, match="TELNYX_PUBLIC_KEY"):
        telnyx().verify(received(telnyx_event("call.initiated", key=TELNYX_OTHER_KEY)))


# ---- Settings


@pytest.mark.parametrize("value", ["KEY0123456789", "AAAA", f"{TELNYX_PUBLIC_KEY} broken", " , "])
def test_a_key_that_is_none_is_named_and_not_printed(value):
    with pytest.raises(WrongSettings, match="TELNYX_PUBLIC_KEY") as fault:
        telnyx(TELNYX_PUBLIC_KEY=value)
    assert "broken" not in str(fault.value)


def test_doctor_is_told_what_could_be_better():
    assert [warning.split()[0] for warning in telnyx().warnings()] == ["OWN_NUMBERS", "TELNYX_NEXT_URL"]
    assert telnyx(OWN_NUMBERS=OWN, TELNYX_NEXT_URL="https://ivr.example.net").warnings() == ()


def test_the_direction_of_a_session_without_one_is_inbound():
    assert parse(telnyx_event("call.initiated", **{"from": "+15550101234", "to": OWN})).call.direction is Direction.INBOUND

"""SignalWire: cXML and SWML, each with its own signature and its own answer."""

from __future__ import annotations

import json
from dataclasses import replace
from urllib.parse import urlencode

import pytest

from bridge.call import Input, Leg, Status
from bridge.errors import Refused, WrongSettings
from bridge.providers.base import Heard, Ignored, Kind, Sender
from bridge.providers.signalwire import SignalWire
from bridge.sandbox.phone import sample
from tests.providers.carriers import FORM, JSON, SIGNALWIRE_KEY, signalwire_form, signalwire_json
from tests.providers.support import PUBLIC_URL, received, settings

ROOT = "b0000000-0000-4000-8000-0000000000ca"


def signalwire(**environment):
    return SignalWire(settings(**{"SIGNALWIRE_SIGNING_KEY": SIGNALWIRE_KEY} | environment))


def parse(delivery, **environment):
    adapter, request = signalwire(**environment), received(delivery)
    return adapter.parse(request, adapter.verify(request))


def sampled(name):
    heard = signalwire().parse(received(sample("signalwire", name)), Sender())
    assert isinstance(heard, Heard)
    return heard


def swml(**told):
    call = {"call_id": ROOT, "call_state": "created", "direction": "inbound", "from": "+15550101234", "to": "+15550109999"}
    return {"call": call | told, "vars": {}}


def test_cxml_tells_what_twilio_would():
    voice, gather, ended = (sampled(name) for name in ("cxml-voice", "cxml-gather", "cxml-status-completed"))
    assert {heard.call.root_id for heard in (voice, gather, ended)} == {ROOT}
    assert (voice.kind, gather.kind, ended.kind) == (Kind.VOICE, Kind.VOICE, Kind.NEWS)
    assert (voice.call.caller.e164, voice.call.dialled, voice.call.status) == ("+15550101234", "+15550109999", Status.RINGING)
    assert gather.call.inputs == (Input("digits", "2", "gather"),)
    assert (ended.call.status, ended.call.duration_s, ended.call.ended_at.second) == (Status.COMPLETED, 94, 43)


def test_swml_is_the_same_call():
    heard = sampled("swml-call")
    assert heard.call.key == sampled("cxml-voice").call.key
    assert (heard.call.caller.e164, heard.call.dialled, heard.call.raw_status) == ("+15550101234", "+15550109999", "created")
    assert heard.kind is Kind.VOICE


@pytest.mark.parametrize("word", ["answered", "in-progress"])
def test_both_words_for_an_answer_are_one_status(word):
    body = urlencode({"CallSid": "1", "CallStatus": word, "CallbackSource": "call-progress-events"}).encode()
    assert parse(signalwire_form(body)).call.status is Status.IN_PROGRESS


def test_a_child_leg_belongs_to_its_parent_and_its_end_is_not_the_visits():
    told = {"CallSid": "leg", "ParentCallSid": "root", "CallStatus": "completed", "CallDuration": "20", "To": "+15550107777", "From": "x"}
    call = parse(signalwire_form(urlencode(told).encode())).call
    assert (call.root_id, call.status, call.caller) == ("root", Status.UNKNOWN, None)
    assert call.legs == (Leg("leg", "+15550107777", Status.COMPLETED, 20),)


def test_the_end_of_a_dial_recordings_and_transcripts_are_kept():
    told = {"CallSid": "1", "CallStatus": "in-progress", "DialCallSid": "leg", "DialCallStatus": "busy", "Digits": "hangup"}
    told |= {"RecordingSid": "r", "RecordingUrl": "https://x.example/r", "RecordingDuration": "7"}
    call = parse(signalwire_form(urlencode(told | {"TranscriptionText": "hello", "TranscriptionSid": "t"}).encode())).call
    assert call.legs == (Leg("leg", None, Status.BUSY),)
    assert [(one.id, one.duration_s) for one in call.recordings] == [("r", 7)]
    assert [one.text for one in call.transcripts] == ["hello"]
    assert call.inputs == ()
    failed = parse(signalwire_form(urlencode(told | {"RecordingStatus": "failed"}).encode()))
    assert (failed.call.recordings, failed.kind) == ((), Kind.NEWS)


@pytest.mark.parametrize(
    ("variables", "inputs"),
    [
        ({"prompt_value": "2", "prompt_result": "match_digits"}, (Input("digits", "2", "swml"),)),
        ({"prompt_value": "a roof", "prompt_result": "match_speech"}, (Input("speech", "a roof", "swml"),)),
        ({"prompt_value": "", "prompt_result": "no_input"}, (Input("digits", "", "swml"),)),
        ({"prompt_value": None}, ()),
    ],
)
def test_what_a_script_took_in_is_an_input(variables, inputs):
    assert parse(signalwire_json(swml() | {"vars": variables})).call.inputs == inputs


def test_a_state_event_is_news():
    heard = parse(signalwire_json({"event_type": "calling.call.state", "params": swml(call_state="ended")["call"]}))
    assert (heard.kind, heard.call.status, heard.call.root_id) == (Kind.NEWS, Status.COMPLETED, ROOT)


def test_outbound_calls_are_ignored():
    assert parse(signalwire_json(swml(direction="outbound"))) == Ignored("outbound call", Kind.VOICE)
    assert parse(signalwire_form(b"CallSid=1&Direction=outbound-api&CallStatus=completed")) == Ignored("outbound call")


# ---- Signatures


def test_the_old_header_counts_as_well():
    delivery = signalwire_form(b"CallSid=1")
    assert signalwire().verify(
        received(replace(delivery, headers={**FORM, "X-Twilio-Signature": delivery.headers["X-SignalWire-Signature"]}))
    )


def test_a_forms_signature_proves_no_json_and_the_other_way_round():
    as_form, as_json = signalwire_form(b"{}"), signalwire_json({})
    for delivery, headers in ((as_form, JSON), (as_json, FORM)):
        changed = {**headers, "X-SignalWire-Signature": delivery.headers["X-SignalWire-Signature"]}
        with pytest.raises(Refused):
            signalwire().verify(received(replace(delivery, headers=changed)))


def test_the_url_is_covered_with_its_query():
    delivery = signalwire_json(swml(), query="?next=https%3A%2F%2Fivr.example.net")
    assert signalwire().verify(received(delivery)) == Sender()
    with pytest.raises(Refused):
        signalwire().verify(received(replace(delivery, url=delivery.url.replace("example.net", "example.org"))))


def test_a_port_may_be_signed_or_not():
    delivery = signalwire_json(swml())
    assert signalwire().verify(received(delivery, public_url=f"{PUBLIC_URL}:443")) == Sender()


# ---- Answers


def main_of(adapter, request):
    answer = adapter.answer(Kind.VOICE, request)
    assert answer.content_type == "application/json"
    (step,) = json.loads(answer.body)["sections"]["main"]
    return step


def test_each_language_is_answered_in_its_own():
    adapter, request = signalwire(), received(signalwire_json(swml()))
    assert b"<Say>" in adapter.answer(Kind.VOICE, received(signalwire_form(b"CallSid=1"))).body
    assert main_of(adapter, request)["play"]["url"].startswith("say:")
    elsewhere = signalwire(SIGNALWIRE_NEXT_URL="https://ivr.example.net")
    assert main_of(elsewhere, request) == {"transfer": {"dest": "https://ivr.example.net"}}
    asked = replace(request, query="next=https%3A%2F%2Fivr.example.net%2Fother")
    assert main_of(elsewhere, asked) == {"transfer": {"dest": "https://ivr.example.net/other"}}
    assert adapter.answer(Kind.NEWS).status == 204


def test_a_missing_key_is_found_at_start_and_a_missing_ivr_by_doctor():
    with pytest.raises(WrongSettings, match="SIGNALWIRE_SIGNING_KEY"):
        signalwire(SIGNALWIRE_SIGNING_KEY=",")
    assert signalwire().warnings()[0].startswith("SIGNALWIRE_NEXT_URL")

"""Plivo: what each of its requests says, and what V3 proves."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import urlencode

import pytest

from bridge.call import Caller, CallerKind, Input, Leg, Recording, Status
from bridge.errors import Refused, WrongSettings
from bridge.providers.base import Heard, Ignored, Kind, Sender
from bridge.providers.plivo import Plivo
from bridge.sandbox.phone import sample
from tests.providers.carriers import PLIVO_TOKEN, plivo_signed, without
from tests.providers.support import received, settings

ROOT = "c0000000-0000-4000-8000-000000000001"


def plivo(**environment):
    return Plivo(settings(**{"PLIVO_AUTH_TOKEN": PLIVO_TOKEN} | environment))


def parse(fields, *, what="answer", **environment):
    adapter, request = plivo(**environment), received(plivo_signed(urlencode(fields).encode(), what=what))
    return adapter.parse(request, adapter.verify(request))


def sampled(name):
    heard = plivo().parse(received(sample("plivo", name)), Sender())
    assert isinstance(heard, Heard)
    return heard


@pytest.mark.parametrize("name", ["answer", "answer-get", "answer-query"])
def test_a_call_comes_in_and_its_number_gets_its_plus(name):
    heard = sampled(name)
    assert heard.call.caller == Caller("15550101234", CallerKind.PSTN, "+15550101234")
    assert (heard.call.root_id, heard.call.dialled, heard.call.status) == (ROOT, "+15550109999", Status.RINGING)
    assert heard.call.caller_name is None  # it repeats the number
    assert heard.kind is Kind.VOICE


@pytest.mark.parametrize(
    ("raw", "e164"), [("447700900123", "+447700900123"), ("4930123456", "+4930123456"), ("15550101234", "+15550101234")]
)
def test_the_country_code_comes_first_whatever_the_default_region(raw, e164):
    assert parse({"CallUUID": "1", "From": raw}, DEFAULT_REGION="US").call.caller.e164 == e164


def test_a_withheld_caller_and_a_forwarded_call():
    assert sampled("answer-anonymous").call.caller == Caller("anonymous", CallerKind.WITHHELD)
    assert sampled("answer-anonymous").call.caller_name is None
    assert sampled("answer-forwarded").call.forwarded_from == "+15550107777"


@pytest.mark.parametrize(("name", "kind", "value"), [("getinput-dtmf", "digits", "2"), ("getinput-speech", "speech", "roof repair")])
def test_an_input_is_what_came_and_not_the_blank_beside_it(name, kind, value):
    assert sampled(name).call.inputs == (Input(kind, value, "input"),)
    assert sampled(name).kind is Kind.VOICE


def test_the_end_tells_seconds_and_no_time_without_zone():
    heard = sampled("hangup")
    assert (heard.call.status, heard.call.duration_s, heard.kind) == (Status.COMPLETED, 94, Kind.NEWS)
    assert (heard.call.started_at, heard.call.ended_at) == (None, None)


def test_a_recording_joins_its_call():
    call = sampled("record").call
    assert call.recordings == (Recording("d0000000-0000-4000-8000-000000000001", "https://example.com/rec/plivo-1.mp3", 31),)
    assert call.root_id == ROOT


def test_the_dialled_leg_enriches_its_call():
    told = {"DialBLegUUID": "b-leg", "DialALegUUID": "root", "DialBLegTo": "15550107777", "From": "15550109999", "To": "15550107777"}
    news = parse({"DialAction": "hangup", "DialBLegStatus": "hangup", "DialBLegDuration": "20"} | told)
    assert (news.call.root_id, news.call.caller, news.call.dialled, news.kind) == ("root", None, None, Kind.NEWS)
    assert news.call.legs == (Leg("b-leg", "15550107777", Status.COMPLETED, 20),)
    action = parse({"CallUUID": "root", "From": "15550101234", "CallStatus": "in-progress", "DialStatus": "busy", "DialBLegUUID": "b-leg"})
    assert (action.call.caller.e164, action.kind) == ("+15550101234", Kind.VOICE)
    assert action.call.legs == (Leg("b-leg", None, Status.BUSY),)
    assert parse({"CallUUID": "root", "DialStatus": "no-answer", "DialBLegUUID": ""}).call.legs == ()


def test_a_leg_with_a_parent_belongs_to_it():
    call = parse({"CallUUID": "leg", "ParentCallUUID": "root", "Direction": "outbound", "To": "15550107777", "CallStatus": "busy"}).call
    assert (call.root_id, call.caller, call.legs) == ("root", None, (Leg("leg", "15550107777", Status.BUSY),))


def test_outbound_calls_are_ignored():
    assert parse({"CallUUID": "1", "Direction": "outbound", "CallStatus": "ringing"}) == Ignored("outbound call", Kind.VOICE)
    own = {"CallUUID": "1", "From": "15550109999", "To": "15550101234"}
    assert parse(own, OWN_NUMBERS="+15550109999") == Ignored("outbound call", Kind.VOICE)


@pytest.mark.parametrize(
    ("fields", "kind"),
    [({}, Kind.VOICE), ({"Event": "Redirect"}, Kind.VOICE), ({"Event": "Hangup"}, Kind.NEWS), ({"CallStatus": "timeout"}, Kind.NEWS)],
)
def test_in_doubt_somebody_waits(fields, kind):
    assert parse({"CallUUID": "1"} | fields).kind is kind


def test_v2_alone_is_refused_and_a_blank_v3_is_missing():
    delivery = without(plivo_signed(b"CallUUID=1"), "signature")
    with pytest.raises(Refused, match="V2") as refusal:
        plivo().verify(
            received(replace(delivery, headers={**delivery.headers, "X-Plivo-Signature-V2": "x", "X-Plivo-Signature-V2-Nonce": "1"}))
        )
    assert refusal.value.status == 403
    with pytest.raises(Refused) as refusal:
        plivo().verify(
            received(replace(delivery, headers={**delivery.headers, "X-Plivo-Signature-V3": ", ,", "X-Plivo-Signature-V3-Nonce": "1"}))
        )
    assert refusal.value.status == 401


def test_the_main_accounts_signature_proves_a_subaccounts_call():
    delivery = plivo_signed(b"CallUUID=1")
    proof = delivery.headers["X-Plivo-Signature-V3"]
    headers = {**delivery.headers, "X-Plivo-Signature-V3": "by-the-subaccount", "X-Plivo-Signature-Ma-V3": proof}
    assert plivo().verify(received(replace(delivery, headers=headers))) == Sender()


def test_the_nonce_and_the_query_are_covered():
    delivery = plivo_signed(b"CallUUID=1", query="next=https%3A%2F%2Fivr.example.net")
    assert plivo().verify(received(delivery)) == Sender()
    with pytest.raises(Refused):
        plivo().verify(received(replace(delivery, headers={**delivery.headers, "X-Plivo-Signature-V3-Nonce": "2"})))
    with pytest.raises(Refused):
        plivo().verify(received(replace(delivery, url=delivery.url.replace("example.net", "example.org"))))


def test_what_is_sent_as_json_is_covered_too():
    delivery = plivo_signed(b"")
    with pytest.raises(Refused):
        plivo().verify(
            received(replace(delivery, headers={**delivery.headers, "Content-Type": "application/json"}, body=b'{"CallUUID":"2"}'))
        )


def test_a_caller_hears_plivos_own_xml():
    assert b"<Speak>" in plivo().answer(Kind.VOICE).body
    request = received(plivo_signed(b"CallUUID=1&Digits=2", query="next=https%3A%2F%2Fivr.example.net%2Fsales"))
    assert b">https://ivr.example.net/sales?Digits=2</Redirect>" in plivo().answer(Kind.VOICE, request).body
    assert plivo(PLIVO_NEXT_URL="https://ivr.example.net").answer(Kind.VOICE).body.count(b"https://ivr.example.net") == 1
    assert plivo().answer(Kind.NEWS).status == 204


def test_a_missing_token_is_found_at_start_and_a_missing_ivr_by_doctor():
    with pytest.raises(WrongSettings, match="PLIVO_AUTH_TOKEN"):
        plivo(PLIVO_AUTH_TOKEN=" , ")
    assert plivo().warnings()[0].startswith("PLIVO_NEXT_URL")
    assert plivo(PLIVO_NEXT_URL="https://ivr.example.net").warnings() == ()

"""Twilio: what each of its requests says about a call, and what a caller on the line gets to hear."""

from __future__ import annotations

import hashlib
import json
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from urllib.parse import urlencode

import pytest

from bridge.call import Caller, CallerKind, Direction, Input, Leg, Recording, Status, Transcript, merge
from bridge.errors import Refused, WrongSettings
from bridge.providers import signatures
from bridge.providers.base import Heard, Ignored, Kind, Sender
from bridge.providers.twilio import Twilio
from bridge.sandbox.phone import PhoneCall, TwilioPhone, sample
from tests.providers.support import NOW, PUBLIC_URL, SHARED_KEY, SHARED_KEY_ID, TOKEN, received, settings

SUB = "AC00000000000000000000000000000002"
ROOT = "CAa1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1"
CHILD = "CAb2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2"
RECORDING = "REc3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3"
RECORDING_URL = f"https://api.twilio.com/2010-04-01/Accounts/AC00000000000000000000000000000001/Recordings/{RECORDING}"
CALL = PhoneCall("CA" + "1" * 32, "+15550101234", "+15550109999", NOW)
PHONE = TwilioPhone(PUBLIC_URL, TOKEN)


def twilio(**environment):
    return Twilio(settings(**{"TWILIO_AUTH_TOKEN": TOKEN} | environment))


def parse(delivery, **environment):
    adapter = twilio(**environment)
    request = received(delivery)
    return adapter.parse(request, adapter.verify(request))


def sampled(name):
    heard = twilio().parse(received(sample("twilio", name)), Sender())
    assert isinstance(heard, Heard)
    return heard


# ---- What is told


def test_the_first_request_tells_who_rings_and_from_where():
    heard = sampled("voice-inbound")
    call = heard.call
    assert call.caller == Caller("+15550101234", CallerKind.PSTN, "+15550101234")
    assert (call.root_id, call.dialled, call.status, call.raw_status) == (ROOT, "+15550109999", Status.RINGING, "ringing")
    assert (call.caller_name, call.city, call.state, call.postcode, call.country) == (
        "JANE O'BRIEN & SONS",
        "SPRINGFIELD",
        "IL",
        "62701",
        "US",
    )
    assert (heard.kind, heard.delivery_id) == (Kind.VOICE, "1fd2183a-1ee6-8b96-6f8c-a595599e27c3")


def test_a_retry_is_the_same_event_and_the_fallback_is_news_of_the_same_call():
    first, retry, fallback = sampled("voice-inbound"), sampled("voice-inbound-retry"), sampled("voice-fallback")
    assert (retry.delivery_id, retry.content) == (first.delivery_id, first.content)
    assert fallback.call.key == first.call.key
    assert fallback.content != first.content
    assert fallback.kind is Kind.VOICE


def test_get_says_what_post_says():
    got = sampled("voice-inbound-get").call
    assert replace(got, root_id=ROOT, caller_name="JANE O'BRIEN & SONS") == sampled("voice-inbound").call


@pytest.mark.parametrize(
    ("name", "kind", "raw", "e164"),
    [
        ("voice-inbound-anonymous-keypad", CallerKind.WITHHELD, "+266696687", None),
        ("voice-inbound-anonymous-word", CallerKind.WITHHELD, "anonymous", None),
        ("voice-inbound-restricted", CallerKind.WITHHELD, "Restricted", None),
        ("voice-inbound-empty-from", CallerKind.EMPTY, "", None),
        ("voice-inbound-client", CallerKind.CLIENT, "client:alice", None),
        ("voice-inbound-sip", CallerKind.SIP, "sip:5550101234@203.0.113.10", None),
        ("voice-inbound-raw-callerid", CallerKind.PSTN, "0031201234567", "+31201234567"),
        ("voice-inbound-unicode", CallerKind.PSTN, "+5511900000000", "+5511900000000"),
    ],
)
def test_odd_callers_are_what_they_are(name, kind, raw, e164):
    assert sampled(name).call.caller == Caller(raw, kind, e164)


def test_a_forwarded_call_tells_from_where():
    assert sampled("voice-inbound-forwarded").call.forwarded_from == "+15550107777"


@pytest.mark.parametrize(
    ("name", "kind", "value"),
    [
        ("gather-dtmf", "digits", "2"),
        ("gather-empty", "digits", ""),
        ("gather-speech", "speech", "I would like a quote for roof repair, please."),
    ],
)
def test_an_input_keeps_what_was_asked_and_what_came(name, kind, value):
    heard = sampled(name)
    assert heard.call.inputs == (Input(kind, value, "gather", heard.delivery_id),)
    assert heard.kind is Kind.VOICE


def test_repeated_digits_are_both_kept_in_order():
    heard = parse(PHONE.post("gather", [("CallSid", CALL.sid), ("Digits", "2"), ("Digits", "1")]))
    assert [entered.value for entered in heard.call.inputs] == ["2", "1"]


@pytest.mark.parametrize(("fields", "inputs"), [({"Digits": "hangup"}, []), ({"Digits": "", "SpeechResult": "yes"}, ["yes"]), ({}, [])])
def test_a_hang_up_is_no_key_and_an_answer_outweighs_a_blank(fields, inputs):
    heard = parse(PHONE.post("gather", {"CallSid": CALL.sid} | fields))
    assert [entered.value for entered in heard.call.inputs] == inputs


def test_the_end_tells_seconds_and_its_time():
    heard = sampled("status-completed")
    assert (heard.call.status, heard.call.duration_s) == (Status.COMPLETED, 94)
    assert heard.call.ended_at == datetime(2026, 1, 15, 15, 5, 43, tzinfo=UTC)
    assert heard.kind is Kind.NEWS


def test_answer_and_ringing_tell_their_own_times():
    assert sampled("status-in-progress").call.answered_at == datetime(2026, 1, 15, 15, 4, 9, tzinfo=UTC)
    assert sampled("status-late-ringing").call.started_at == datetime(2026, 1, 15, 15, 4, 5, tzinfo=UTC)
    assert sampled("status-no-answer").call.status is Status.NO_ANSWER


def test_late_ringing_does_not_bring_a_call_back():
    assert merge(sampled("status-completed").call, sampled("status-late-ringing").call).status is Status.COMPLETED


@pytest.mark.parametrize(
    ("word", "status"),
    [
        ("COMPLETED", Status.COMPLETED),
        ("answered", Status.IN_PROGRESS),
        ("foo-new-status", Status.UNKNOWN),
        ("", Status.UNKNOWN),
        ("queued", Status.RINGING),
    ],
)
def test_status_words_are_read_by_table(word, status):
    call = parse(PHONE.status(CALL, word)).call
    assert (call.status, call.raw_status) == (status, word or None)


def test_a_child_leg_is_a_leg_of_its_parent_and_names_no_caller():
    call = sampled("status-child-leg").call
    assert call.root_id == ROOT
    assert call.legs == (Leg(CHILD, "+15550108888", Status.COMPLETED, 42),)
    assert (call.caller, call.dialled, call.status, call.duration_s, call.ended_at) == (None, None, Status.UNKNOWN, None, None)


def test_the_end_of_a_dial_is_a_leg_with_its_recording():
    call = sampled("dial-action").call
    assert call.legs == (Leg(CHILD, None, Status.COMPLETED, 42),)
    assert call.recordings == (Recording(RECORDING, RECORDING_URL, None),)
    assert merge(sampled("status-child-leg").call, call).legs == (Leg(CHILD, "+15550108888", Status.COMPLETED, 42),)


def test_a_recording_joins_by_the_call_s_id_alone():
    heard = sampled("recording-completed")
    assert heard.call.recordings == (Recording(RECORDING, RECORDING_URL, 31),)
    assert (heard.call.caller, heard.call.dialled, heard.kind) == (None, None, Kind.NEWS)
    assert heard.call.key == sampled("voice-inbound").call.key


@pytest.mark.parametrize("status", ["in-progress", "absent", "failed"])
def test_a_recording_that_is_not_there_is_none(status):
    assert parse(PHONE.recording(CALL, status=status)).call.recordings == ()


def test_a_transcript_comes_with_its_recording():
    call = sampled("transcription").call
    assert call.transcripts == (Transcript("TRd4d4d4d4d4d4d4d4d4d4d4d4d4d4d4d4", "Hi, please call me back about the roof."),)
    assert [recording.id for recording in call.recordings] == [RECORDING]


@pytest.mark.parametrize("name", ["studio-http", "studio-http-form"])
def test_studio_s_free_names_join_the_same_call(name):
    heard = sampled(name)
    assert heard.call.key == sampled("voice-inbound").call.key
    assert heard.call.caller.e164 == "+15550101234"
    assert [(entered.kind, entered.value) for entered in heard.call.inputs] == [("digits", "2")]
    assert heard.kind is Kind.NEWS


def studio(body: bytes):
    url = f"{PUBLIC_URL}/webhooks/twilio/studio?bodySHA256={hashlib.sha256(body).hexdigest()}"
    headers = {"Content-Type": "application/json; charset=UTF-8", "X-Twilio-Signature": signatures.twilio_signature(TOKEN, url)}
    return replace(PHONE.voice(CALL), url=url, headers=headers, body=body)


@pytest.mark.parametrize(
    ("number", "kind", "e164"),
    [
        ("12025550143", CallerKind.PSTN, "+12025550143"),
        ("2.02555e9", CallerKind.UNPARSED, None),
        ('"00491234567"', CallerKind.PSTN, "+491234567"),
        ("true", CallerKind.UNPARSED, None),
    ],
)
def test_json_numbers_are_digits_and_never_decimals(number, kind, e164):
    caller = parse(studio(f'{{"call_sid": "CA1", "from": {number}}}'.encode())).call.caller
    assert (caller.kind, caller.e164) == (kind, e164)


def test_a_null_caller_is_not_told():
    assert parse(studio(b'{"call_sid": "CA1", "from": null}')).call.caller is None


@pytest.mark.parametrize(
    "body",
    [
        b'{"call_sid":"CA1","from":"+12025550143","caller_name":"Ren\xe9"}',
        b'{"call_sid":"CA1","from":"+12025550143","caller_name":"Ren\\ud83d"}',
    ],
)
def test_text_that_cannot_be_stored_is_mended_in_json(body):
    call = parse(studio(body)).call
    assert (call.caller.raw, call.caller_name) == ("+12025550143", "Ren\ufffd")


@pytest.mark.parametrize(("sent", "name"), [(b"Ren%E9+Example", "Ren\ufffd Example"), (b"A%00B", "AB")])
def test_text_that_cannot_be_stored_is_mended_in_forms(sent, name):
    from bridge.providers.reading import form_fields

    body = b"CallSid=CA1&From=%2B12025550143&CallerName=" + sent
    delivery = PHONE.post("voice", {})
    given = signatures.twilio_signature(TOKEN, delivery.url, form_fields(body))
    call = parse(replace(delivery, body=body, headers={**delivery.headers, "X-Twilio-Signature": given})).call
    assert (call.caller.raw, call.caller_name) == ("+12025550143", name)


def test_an_unescaped_plus_is_put_back():
    body = b"CallSid=CA1&From=+12025550143"
    delivery = PHONE.post("voice", {"CallSid": "CA1", "From": " 12025550143"})
    assert parse(replace(delivery, body=body)).call.caller.e164 == "+12025550143"


# ---- What makes no call


@pytest.mark.parametrize("direction", ["outbound-api", "outbound-dial", "Outbound-API", "trunking-terminating"])
def test_an_outbound_call_is_ignored(direction):
    assert parse(PHONE.voice(CALL, Direction=direction)) == Ignored("outbound call", Kind.VOICE)


@pytest.mark.parametrize("direction", ["inbound", "trunking-originating", "new-word", ""])
def test_any_other_direction_is_inbound(direction):
    assert parse(PHONE.voice(CALL, Direction=direction)).call.direction is Direction.INBOUND


def test_without_a_direction_our_own_numbers_decide():
    fields = {"CallSid": "CA1", "From": "+15550109999", "To": "+15550101234"}
    assert parse(PHONE.post("studio", fields), OWN_NUMBERS="+15550109999") == Ignored("outbound call")
    assert isinstance(parse(PHONE.post("studio", fields)), Heard)


def test_a_request_without_a_call_is_ignored():
    assert parse(PHONE.post("studio", {"From": "+15550101234"})) == Ignored("no call id")


# ---- Who is on the line


@pytest.mark.parametrize(
    ("what", "fields", "kind"),
    [
        ("voice", {"CallStatus": "ringing"}, Kind.VOICE),
        ("voice", {}, Kind.VOICE),
        ("", {"CallStatus": "ringing"}, Kind.VOICE),
        ("tenant/acme", {"CallStatus": "in-progress", "Digits": "1"}, Kind.VOICE),
        (
            "status",
            {"CallStatus": "ringing"},
            Kind.VOICE,
        ),  # the voice URL of a number set to the wrong path: the caller still hears something
        ("dial-action", {"CallStatus": "in-progress", "DialCallStatus": "busy"}, Kind.VOICE),
        ("record", {"CallStatus": "in-progress", "RecordingSid": "RE1"}, Kind.VOICE),  # the action of <Record> waits
        ("dial-action", {"CallStatus": "completed", "DialCallStatus": "completed"}, Kind.NEWS),  # the caller has hung up
        ("", {"CallStatus": "ringing", "CallbackSource": "call-progress-events"}, Kind.NEWS),
        ("", {"CallStatus": "completed"}, Kind.NEWS),
        ("", {"RecordingSid": "RE1"}, Kind.NEWS),
        ("", {"RecordingSid": "RE1", "RecordingStatus": "completed"}, Kind.NEWS),
        ("partial", {"CallStatus": "in-progress", "UnstableSpeechResult": "I wou"}, Kind.NEWS),
        ("studio", {}, Kind.NEWS),
    ],
)
def test_nobody_on_the_line_gets_an_empty_answer(what, fields, kind):
    assert parse(PHONE.post(what, {"CallSid": "CA1"} | fields)).kind is kind


def test_a_caller_hears_a_sentence_unless_told_otherwise():
    answer = twilio().answer(Kind.VOICE)
    assert (answer.status, answer.content_type) == (200, "text/xml; charset=utf-8")
    assert b"<Say>" in answer.body
    assert twilio().answer(Kind.NEWS).status == 204


def test_the_url_of_a_prompt_may_name_where_its_caller_goes_on():
    delivery = PHONE.gather(CALL, digits="2")
    request = replace(received(delivery), query="next=https%3A%2F%2Fivr.example.net%2Fsales")
    assert b">https://ivr.example.net/sales?Digits=2</Redirect>" in twilio().answer(Kind.VOICE, request).body
    assert twilio().answer(Kind.NEWS, request).body == b""


def test_an_agent_who_is_rung_hears_nothing_and_enters_nothing():
    delivery = PHONE.post(
        "whisper", {"CallSid": CHILD, "ParentCallSid": ROOT, "CallStatus": "in-progress", "Direction": "outbound-dial", "Digits": "1"}
    )
    heard = parse(delivery)
    assert (heard.kind, heard.call.inputs) == (Kind.VOICE, ())
    assert twilio().answer(heard.kind, received(delivery)).body == b"<Response/>"


# ---- Who proves what


def test_a_subaccount_s_token_proves_its_own_account_alone():
    tokens = json.dumps({SUB: "sub-token"})
    adapter = twilio(TWILIO_ACCOUNT_TOKENS=tokens)
    phone = TwilioPhone(PUBLIC_URL, "sub-token", account=SUB)
    assert adapter.verify(received(phone.voice(CALL))) == Sender(SUB)
    assert adapter.verify(received(PHONE.voice(CALL))) == Sender("")
    assert adapter.verify(received(phone.post("studio", {"CallSid": "CA1"}))) == Sender(SUB)
    with pytest.raises(Refused):
        adapter.verify(received(phone.post("voice", {"CallSid": "CA1", "AccountSid": "AC" + "9" * 32})))


@pytest.mark.parametrize(("account", "is_proven"), [(SUB, True), ("", True), ("AC" + "9" * 32, False)])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_subaccount_s_token_proves_its_own_account_in_a_query_and_in_json_too(method, account, is_proven):
    fields = {"CallSid": "CA1", "AccountSid": account}
    body = json.dumps(fields).encode() if method == "POST" else b""
    query = urlencode({"bodySHA256": hashlib.sha256(body).hexdigest()} if body else fields)
    url = f"{PUBLIC_URL}/webhooks/twilio/studio?{query}"
    headers = {"Content-Type": "application/json", "X-Twilio-Signature": signatures.twilio_signature("sub-token", url)}
    request = received(replace(PHONE.voice(CALL), method=method, url=url, headers=headers, body=body))
    with nullcontext() if is_proven else pytest.raises(Refused):
        assert twilio(TWILIO_ACCOUNT_TOKENS=json.dumps({SUB: "sub-token"})).verify(request) == Sender(SUB)


def with_settings_header(delivery, value):
    return received(replace(delivery, headers={**delivery.headers, "X-Twilio-Webhooks-Signature-Settings": value}))


@pytest.mark.parametrize(
    "value", ["key=other,algorithm=HMAC_SHA1", f"key={SHARED_KEY_ID},algorithm=HMAC_MD5", "algorithm=HMAC_SHA1", "nonsense"]
)
def test_a_settings_header_we_do_not_know_is_refused(value):
    adapter = twilio(TWILIO_SHARED_KEYS=json.dumps({SHARED_KEY_ID: SHARED_KEY}))
    with pytest.raises(Refused):
        adapter.verify(with_settings_header(PHONE.voice(CALL), value))


def test_the_header_cannot_choose_the_auth_token():
    adapter = twilio(TWILIO_SHARED_KEYS=json.dumps({SHARED_KEY_ID: SHARED_KEY}))
    with pytest.raises(Refused):
        adapter.verify(with_settings_header(PHONE.voice(CALL), f"key={SHARED_KEY_ID},algorithm=HMAC_SHA1"))


def test_shared_key_only_forbids_the_auth_token():
    keys = {"TWILIO_SHARED_KEYS": json.dumps({SHARED_KEY_ID: SHARED_KEY}), "TWILIO_SHARED_KEY_ONLY": "yes"}
    shared = TwilioPhone(PUBLIC_URL, SHARED_KEY).voice(CALL)
    assert twilio(**keys).verify(with_settings_header(shared, f"key={SHARED_KEY_ID},algorithm=HMAC_SHA1")) == Sender()
    with pytest.raises(Refused, match="TWILIO_SHARED_KEY_ONLY"):
        twilio(**keys).verify(received(PHONE.voice(CALL)))


def test_a_signed_url_proves_no_json_that_it_does_not_name():
    url = f"{PUBLIC_URL}/webhooks/twilio/voice?{urlencode({'CallSid': 'CA1'})}"
    headers = {"X-Twilio-Signature": signatures.twilio_signature(TOKEN, url), "Content-Type": "application/json"}
    with pytest.raises(Refused, match="bodySHA256"):
        twilio().verify(received(replace(PHONE.voice(CALL), url=url, headers=headers, body=b'{"CallSid":"CA2"}')))


@pytest.mark.parametrize("content_type", ["Application/X-WWW-Form-URLEncoded", "application/x-www-form-urlencoded;charset=ISO-8859-1", ""])
def test_content_types_are_read_without_case_and_charset(content_type):
    delivery = PHONE.voice(CALL)
    assert parse(replace(delivery, headers={**delivery.headers, "Content-Type": content_type})).call.root_id == CALL.sid


# ---- Settings


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TWILIO_ACCOUNT_TOKENS", '{"AC1": "sekrit"'),
        ("TWILIO_ACCOUNT_TOKENS", '["sekrit"]'),
        ("TWILIO_ACCOUNT_TOKENS", '{"AC1": "sekrit", "AC2": 5}'),
        ("TWILIO_SHARED_KEYS", '{"k": "", "l": "sekrit"}'),
        ("TWILIO_SHARED_KEY_ONLY", "perhaps"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named_and_not_printed(name, value):
    with pytest.raises(WrongSettings, match=name) as fault:
        twilio(**{name: value})
    assert "sekrit" not in str(fault.value)

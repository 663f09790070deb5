"""Vonage: what its events say, what a token proves, and what a caller hears."""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import replace
from datetime import UTC, datetime

import jwt
import pytest

from bridge.call import Caller, CallerKind, Input, Recording, Status, merge
from bridge.errors import Refused, WrongSettings
from bridge.providers.base import Heard, Ignored, Kind, Sender
from bridge.providers.vonage import Vonage
from bridge.sandbox.phone import sample
from tests.providers.carriers import VONAGE_SECRET, vonage_ended, vonage_event, vonage_signed
from tests.providers.support import NOW, PUBLIC_URL, received, settings

CONVERSATION = "CON-aaaaaaaa-0000-4000-8000-0000000000aa"


def vonage(**environment):
    return Vonage(settings(**{"VONAGE_SIGNATURE_SECRET": VONAGE_SECRET} | environment))


def parse(delivery, **environment):
    adapter, request = vonage(**environment), received(delivery)
    return adapter.parse(request, adapter.verify(request))


def sampled(name):
    heard = vonage().parse(received(sample("vonage", name)), Sender())
    assert isinstance(heard, Heard)
    return heard


@pytest.mark.parametrize("name", ["answer", "answer-get"])
def test_the_answer_request_tells_who_rings_and_waits(name):
    heard = sampled(name)
    assert heard.call.caller == Caller("15550101234", CallerKind.PSTN, "+15550101234")
    assert (heard.call.root_id, heard.call.dialled, heard.kind) == (CONVERSATION, "+15550109999", Kind.VOICE)


def test_the_events_of_one_visit_add_up():
    whole = sampled("answer").call
    for name in ("event-started", "event-input", "event-completed", "event-record"):
        assert sampled(name).kind is Kind.NEWS
        whole = merge(whole, sampled(name).call)
    assert (whole.status, whole.duration_s, whole.caller.e164) == (Status.COMPLETED, 94, "+15550101234")
    assert whole.started_at == datetime(2026, 1, 15, 15, 4, 5, tzinfo=UTC)
    assert whole.answered_at == datetime(2026, 1, 15, 15, 4, 9, tzinfo=UTC)
    assert whole.ended_at == datetime(2026, 1, 15, 15, 5, 43, tzinfo=UTC)
    at = "2026-01-15T15:04:20.000Z"
    assert whole.inputs == (Input("digits", "2", "event", at), Input("speech", "roof repair", "event", at))
    url = "https://api.nexmo.com/v1/files/bbbbbbbb-0000-4000-8000-000000000001"
    assert whole.recordings == (Recording("cccccccc-0000-4000-8000-000000000001", url, 31),)


def test_a_withheld_caller_is_none():
    assert sampled("answer-anonymous").call.caller == Caller("anonymous", CallerKind.WITHHELD)


@pytest.mark.parametrize(
    ("told", "values"),
    [
        ({"dtmf": {"digits": "", "timed_out": True}}, [""]),
        ({"dtmf": "42"}, ["42"]),
        ({"dtmf": {"digits": ""}, "speech": {"results": [{"text": "yes"}, {"text": "guess"}]}}, ["yes"]),
        ({"speech": {"error": "x"}}, [""]),
        ({"dtmf": None}, []),
    ],
)
def test_inputs_of_all_shapes(told, values):
    heard = parse(vonage_event(**told))
    assert [entered.value for entered in heard.call.inputs] == values


def test_completed_after_busy_does_not_say_that_anybody_answered():
    busy, completed = parse(vonage_event(status="busy")).call, parse(vonage_event(status="completed", start_time=None, duration="0")).call
    assert completed.status is Status.CANCELED
    assert merge(busy, completed).status is merge(completed, busy).status is Status.BUSY
    assert parse(vonage_ended()).call.status is Status.COMPLETED


def test_an_outbound_leg_is_ignored_and_so_is_a_call_from_our_own_number():
    assert parse(vonage_event(status="answered", direction="outbound")) == Ignored("outbound call or leg")
    assert parse(vonage_event(), OWN_NUMBERS="+15550101234") == Ignored("outbound call or leg", Kind.VOICE)


def test_an_error_is_news_and_the_fallback_waits():
    assert parse(vonage_event(reason="Syntax error in NCCO")).kind is Kind.NEWS
    assert parse(vonage_event(reason="Connection timeout", original_request={"url": "x", "type": "answer"})).kind is Kind.VOICE


def test_an_event_without_a_conversation_is_ignored():
    assert parse(vonage_event(conversation_uuid=None, status="started")) == Ignored("no call id")


# ---- What a token proves


def refused(delivery, **kept):
    with pytest.raises(Refused) as refusal:
        vonage().verify(received(delivery, **kept))
    return refusal.value.reason


def test_a_token_proves_one_body_at_one_time():
    body = b'{"uuid":"1"}'
    assert vonage().verify(received(vonage_signed(body))) == Sender()
    assert refused(replace(vonage_signed(body), body=b'{"uuid":"2"}')) == "body not covered"
    assert refused(vonage_signed(body, payload_hash=None)) == "body not covered"
    assert refused(vonage_signed(body, iat=None)) == "signature malformed"
    assert refused(vonage_signed(body, iat="soon")) == "signature malformed"
    assert refused(vonage_signed(body), now=NOW + 301) == "signature stale"
    assert refused(vonage_signed(body), now=NOW - 301) == "signature stale"
    assert vonage().verify(received(vonage_signed(body, payload_hash=hashlib.sha256(body).hexdigest().upper()))) == Sender()


def test_the_clock_of_the_machine_decides_nothing():
    """`exp` and `nbf` are not Vonage's; if they came, the window around `iat` would still be what counts."""
    assert vonage().verify(received(vonage_signed(b"{}", exp=1, nbf=9_999_999_999))) == Sender()


@pytest.mark.parametrize("algorithm", ["none", "HS512"])
def test_the_token_cannot_choose_how_it_is_proven(algorithm):
    claims = {"iat": int(NOW), "payload_hash": hashlib.sha256(b"{}").hexdigest()}
    token = jwt.encode(claims, "" if algorithm == "none" else VONAGE_SECRET * 2, algorithm=algorithm)
    assert refused(replace(vonage_signed(b"{}"), headers={"Authorization": f"Bearer {token}"})) == "signature wrong"


@pytest.mark.parametrize("value", ["Bearer", "Basic abc", "Bearer  ", ""])
def test_without_a_token_it_is_401(value):
    assert refused(replace(vonage_signed(b"{}"), headers={"Authorization": value})) == "signature missing"


def get(query, **claims):
    signed = vonage_signed(b"", **claims)
    return replace(signed, method="GET", url=f"{PUBLIC_URL}/webhooks/vonage/answer?{query}")


def test_a_get_is_proven_by_what_vonage_may_have_hashed():
    query = "from=15550101234&to=15550109999&uuid=1&conversation_uuid=CON-1"

    def proven(**claims):
        try:
            request = received(get(query, **claims))
            request = replace(request, query=query)
            return vonage().verify(request) == Sender()
        except Refused:
            return False

    assert proven()
    assert proven(payload_hash=None)
    assert proven(payload_hash=hashlib.sha256(query.encode()).hexdigest())
    assert not proven(payload_hash=hashlib.sha256(b"another body").hexdigest())


def test_the_token_of_a_post_proves_no_query():
    """Its body, sent along with a GET, would else prove whatever stands in the query."""
    posted = vonage_event()
    adapter, moved = vonage(), replace(received(posted), method="GET", query="from=15550106666&to=15550109999&conversation_uuid=CON-9")
    assert adapter.verify(received(posted)) == Sender()
    with pytest.raises(Refused, match="payload_hash"):
        adapter.verify(moved)


def test_a_query_that_no_token_covers_costs_little():
    query = "&".join(["from=15550101234"] * 8000)
    request = replace(received(get("")), query=query)
    begun = time.thread_time()
    with pytest.raises(Refused, match="parameters"):
        vonage().verify(request)
    assert time.thread_time() - begun < 0.05


# ---- What a caller hears


def ncco(adapter, request=None):
    answer = adapter.answer(Kind.VOICE, request)
    assert (answer.status, answer.content_type) == (200, "application/json")
    return json.loads(answer.body)


def test_a_caller_hears_a_sentence_unless_told_otherwise():
    assert ncco(vonage())[0]["action"] == "talk"
    assert vonage().answer(Kind.NEWS).status == 204


def test_the_ivr_is_fetched_and_told_which_call_it_is():
    request = received(vonage_event())
    (action,) = ncco(vonage(VONAGE_NEXT_URL="https://ivr.example.net/ncco"), request)
    assert (action["action"], action["eventUrl"]) == ("notify", ["https://ivr.example.net/ncco"])
    assert (action["payload"]["from"], action["payload"]["uuid"]) == ("15550101234", "leg-1")
    asked = replace(request, query="next=https%3A%2F%2Fivr.example.net%2Fother")
    assert ncco(vonage(), asked)[0]["eventUrl"] == ["https://ivr.example.net/other"]
    own = replace(request, query=f"next={PUBLIC_URL}/webhooks/vonage/answer")
    assert ncco(vonage(), own)[0]["action"] == "talk"


def test_a_file_is_answered_as_it_stands(tmp_path):
    file = tmp_path / "menu.json"
    file.write_text('[{"action": "talk", "text": "Hello"}]')
    assert vonage(VONAGE_NCCO_FILE=str(file)).answer(Kind.VOICE).body == file.read_bytes()
    for content in ("[]", "{}", '[{"text": "x"}]', "<Response/>"):
        file.write_text(content)
        with pytest.raises(WrongSettings, match="VONAGE_NCCO_FILE"):
            vonage(VONAGE_NCCO_FILE=str(file))


def test_doctor_is_told_what_could_be_better():
    assert [warning.split()[0] for warning in vonage().warnings()] == ["VONAGE_NEXT_URL"]
    short = vonage(VONAGE_SIGNATURE_SECRET=f"{VONAGE_SECRET} short", VONAGE_NEXT_URL="https://ivr.example.net").warnings()
    assert len(short) == 1
    assert "short" not in short[0].replace("shorter", "")


def test_without_a_secret_it_does_not_start():
    with pytest.raises(WrongSettings, match="VONAGE_SIGNATURE_SECRET"):
        vonage(VONAGE_SIGNATURE_SECRET=" ,")

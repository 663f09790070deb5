"""RingCentral: its handshake, its three ways to send a token, and the parties of a call."""

from __future__ import annotations

import json

import pytest

from bridge.call import CallerKind, Leg, Status, contradicts, merge
from bridge.errors import Refused
from bridge.providers.base import Heard, Ignored, Kind, Sender
from bridge.providers.ringcentral import RingCentral
from bridge.sandbox.phone import Delivery, sample
from tests.providers.support import received, settings

TOKEN = "rc-validation-token-made-up"
ADAPTER = RingCentral(settings(RINGCENTRAL_VALIDATION_TOKEN=TOKEN))
URL = "https://ivr.example.com/webhooks/ringcentral/events"


def request(body=b"{}", query="", method="POST", **headers):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return received(Delivery(method, URL + query, named, body))


def party(number=2, code="Answered", direction="Inbound", caller="+15550101234", to="+15550109999", **more):
    told = {"id": f"p-1-{number}", "direction": direction, "status": {"code": code, "reason": more.pop("reason", None)}}
    return told | {"from": {"phoneNumber": caller}, "to": {"phoneNumber": to}} | more


def parse(*parties, **session):
    told = {"telephonySessionId": "s-1", "eventTime": "2026-01-15T15:04:05Z", "parties": list(parties)} | session
    return ADAPTER.parse(request(json.dumps({"uuid": "1", "body": told}).encode()), Sender())


def test_a_handshake_is_answered_with_its_own_token():
    handshake = request(b"", validation_token="one-time-token-made-up")
    assert ADAPTER.parse(handshake, ADAPTER.verify(handshake)) == Ignored("handshake of a new subscription", keep=False)
    answer = ADAPTER.answer(Kind.NEWS, handshake)
    assert (answer.status, answer.content_type) == (200, "application/json")
    assert answer.headers == {"Validation-Token": "one-time-token-made-up"}
    assert len(answer.body) < 1024


@pytest.mark.parametrize(
    "no_handshake",
    [
        request(b'{"body":{}}', validation_token="one-time-token-made-up"),
        request(b"", validation_token="two words"),
        request(b"", validation_token="a\r\nSet-Cookie: b"),
        request(b"", validation_token="x" * 257),
        request(b"", validation_token=""),
        request(b"", method="GET", validation_token="one-time-token-made-up"),
    ],
)
def test_nothing_else_is_taken_for_a_handshake_or_repeated(no_handshake):
    with pytest.raises(Refused):
        ADAPTER.verify(no_handshake)
    assert ADAPTER.answer(Kind.NEWS, no_handshake).headers == {}


@pytest.mark.parametrize(
    "proven",
    [
        request(verification_token=TOKEN),
        request(validation_token=TOKEN),
        request(query=f"?auth_token={TOKEN}"),
        request(query=f"?a=b&token={TOKEN}", validation_token="something-else"),
    ],
)
def test_the_token_may_come_in_either_header_or_in_the_url(proven):
    assert ADAPTER.verify(proven) == Sender()


@pytest.mark.parametrize(
    ("forged", "status"),
    [(request(), 401), (request(query="?token=x"), 403), (request(query="?Token=" + TOKEN), 401), (request(verification_token="x"), 403)],
)
def test_without_the_token_nothing_is_proven(forged, status):
    with pytest.raises(Refused) as refusal:
        ADAPTER.verify(forged)
    assert refusal.value.status == status


def test_the_recorded_notifications_are_one_call_from_ringing_to_its_end():
    calls = [
        ADAPTER.parse(received(sample("ringcentral", f"session-{name}")), Sender()).call for name in ("disconnected", "setup", "answered")
    ]
    merged = merge(merge(calls[0], calls[1]), calls[2])
    assert len({call.key for call in calls}) == 1
    assert (merged.status, merged.caller.e164, merged.dialled) == (Status.COMPLETED, "+15550101234", "+15550109999")
    assert merged.caller_name == "JANE DOE"
    assert merged.started_at < merged.answered_at < merged.ended_at


def test_a_transfer_is_not_the_end():
    told = ADAPTER.parse(received(sample("ringcentral", "session-transferred")), Sender()).call
    assert (told.status, told.raw_status, told.ended_at) == (Status.IN_PROGRESS, "BlindTransfer", None)


def test_whom_a_caller_is_passed_on_to_is_a_leg_and_contradicts_nothing():
    first = parse(party(2, "Disconnected", reason="AttendedTransfer")).call
    second = parse(party(3, to="+15550108888")).call
    assert (second.dialled, second.legs) == (None, (Leg("p-1-3", "+15550108888", Status.IN_PROGRESS),))
    assert not contradicts(first, second)
    assert second.caller.e164 == "+15550101234"


@pytest.mark.parametrize(
    ("told", "status"),
    [
        (party(code="Disconnected"), Status.COMPLETED),
        (party(code="Disconnected", missedCall=True), Status.NO_ANSWER),
        (party(code="Disconnected", reason="NoAnswer"), Status.NO_ANSWER),
        (party(code="Disconnected", reason="TargetBusy"), Status.BUSY),
        (party(code="Disconnected", reason="Cancelled"), Status.CANCELED),
        (party(code="Disconnected", reason="NoSuchUser"), Status.FAILED),
        (party(code="Disconnected", reason="ANewReason"), Status.COMPLETED),
        (party(code="VoiceMail"), Status.IN_PROGRESS),
        (party(code="Proceeding"), Status.RINGING),
    ],
)
def test_what_a_partys_state_says_of_the_call(told, status):
    assert parse(told).call.status is status


def test_a_caller_without_a_number_is_not_lost_on_the_first_leg_and_told_by_no_other():
    assert parse(party(2) | {"from": {"name": "WIRELESS CALLER"}}).call.caller.kind is CallerKind.EMPTY
    assert parse(party(3) | {"from": {}}).call.caller is None


@pytest.mark.parametrize(
    ("parties", "reason"),
    [
        ([party(1, direction="Outbound")], "outbound call"),
        ([party(2) | {"from": {"phoneNumber": "103", "extensionId": "9"}}], "internal call"),
        ([party(2, caller="103")], "internal call"),
        ([party(2) | {"from": {"extensionNumber": "1030", "name": "Sam"}}], "internal call"),
        ([], "no parties"),
    ],
)
def test_what_makes_no_call_is_ignored_with_its_reason(parties, reason):
    assert parse(*parties) == Ignored(reason)


def test_a_subscription_that_is_about_to_expire_says_so():
    reminder = request(b'{"event":"/restapi/v1.0/subscription/~","body":{"subscriptionId":"s","expiresIn":300}}')
    assert "renew" in ADAPTER.parse(reminder, Sender()).reason


def test_an_extension_is_no_dialled_number():
    heard = parse(party(2, to="102"))
    assert isinstance(heard, Heard)
    assert heard.call.dialled is None

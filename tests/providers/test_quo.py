"""Quo: its two generations of webhooks, and what is made from a call later."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from bridge.call import Input, Recording, Status, Transcript, merge
from bridge.errors import WrongSettings
from bridge.providers.base import Ignored, Sender
from bridge.providers.quo import Quo
from bridge.sandbox.phone import Delivery, sample
from tests.providers.hosted_cases import QUO_KEY, QUO_LEGACY
from tests.providers.support import received, settings

ADAPTER = Quo(settings(QUO_SECRET=QUO_KEY, QUO_LEGACY_KEY=QUO_LEGACY))
CONTEXT = {"participants": {"external": ["+15550101234"], "workspace": ["+15550109999"], "resolution": "available"}}


def parse(kind, resource, context=CONTEXT):
    body = json.dumps({"id": "EV1", "type": kind, "data": {"resource": resource, "context": context}}).encode()
    return ADAPTER.parse(received(Delivery("POST", "https://ivr.example.com/webhooks/quo/events", {}, body)), Sender())


def call(kind="call.completed", **resource):
    return parse(kind, {"id": "AC1", "direction": "incoming"} | resource).call


def sampled(name):
    request = received(sample("quo", name))
    return ADAPTER.parse(request, ADAPTER.verify(request))


def test_both_generations_tell_the_same_call():
    new, legacy = sampled("call-completed"), sampled("legacy-call-completed")
    assert new.call.key == legacy.call.key
    for told in (new.call, legacy.call):
        assert (told.caller.e164, told.dialled, told.status) == ("+15550101234", "+15550109999", Status.COMPLETED)
        assert (told.started_at, (told.ended_at - told.answered_at).seconds) == (datetime(2026, 1, 15, 15, 4, 5, tzinfo=UTC), 94)
    assert (new.delivery_id, legacy.delivery_id) == ("msg_quo0000000000000001", "EV0000000000000002")


def test_the_numbers_stand_in_the_context():
    told = call(status="ringing")
    assert (told.caller.e164, told.dialled) == ("+15550101234", "+15550109999")


def test_participants_that_quo_could_not_tell_are_not_told():
    told = parse("call.ringing", {"id": "AC1"}, {"participants": {"external": [], "resolution": "unavailable"}}).call
    assert (told.caller, told.dialled) == (None, None)


@pytest.mark.parametrize(
    ("kind", "resource", "status"),
    [
        ("call.completed", {"status": "completed", "answeredAt": None}, Status.NO_ANSWER),
        ("call.completed", {"status": "completed"}, Status.COMPLETED),
        ("call.completed", {}, Status.COMPLETED),
        ("call.missed", {"status": "completed", "answeredAt": "2026-01-15T15:04:09Z"}, Status.NO_ANSWER),
        ("call.missed", {}, Status.NO_ANSWER),
        ("call.answered", {"status": "in_progress"}, Status.IN_PROGRESS),
        ("call.forwarded", {}, Status.IN_PROGRESS),
        ("call.completed", {"status": "answered", "completedAt": "2026-01-15T15:05:00Z"}, Status.COMPLETED),
        ("", {"status": "forwarded", "completedAt": "2026-01-15T15:05:00Z", "answeredAt": None}, Status.NO_ANSWER),
        ("call.tomorrow", {}, Status.UNKNOWN),
    ],
)
def test_a_completed_call_may_have_been_answered_by_nobody(kind, resource, status):
    assert call(kind, **resource).status is status


def test_a_choice_in_the_phone_menu_is_an_input():
    assert call("call.menu.selected", phoneMenuSelectionName="Sales").inputs == (Input("digits", "Sales", "phone menu"),)
    assert call("call.menu.selected").inputs == ()


def test_what_is_made_from_a_call_joins_it_and_says_nothing_of_its_end():
    voicemail = call("call.voicemail.completed", id="VM1", callId="AC1", createdAt="2026-01-15T15:06:00Z", duration=12,
                     recordingUrl="https://example.com/v.mp3", transcript="Call me back.")  # fmt: skip
    assert voicemail.recordings == (Recording("VM1", "https://example.com/v.mp3", 12),)
    assert voicemail.transcripts == (Transcript("AC1-voicemail", "Call me back."),)
    assert (voicemail.key, voicemail.status, voicemail.started_at, voicemail.duration_s) == (call().key, Status.UNKNOWN, None, None)


@pytest.mark.parametrize("kind", ["call.recording.completed", "call.summary.completed", "call.transcript.completed"])
def test_what_is_made_from_a_call_names_no_caller_unless_it_tells_who_rang(kind):
    """It is made from the calls that you place as well, and names the customer whom you rang."""
    told = call(kind, id="R1", callId="AC1", direction=None)
    assert (told.caller, told.dialled) == (None, "+15550109999")
    assert call(kind, id="R1", callId="AC1").caller.e164 == "+15550101234"
    context = CONTEXT | {"direction": "outgoing"}
    assert parse(kind, {"id": "R1", "callId": "AC1"}, context) == Ignored("outbound call")


def test_a_voicemail_may_stand_in_its_call():
    told = call(status="missed", voicemail={"id": "VM1", "recordingUrl": "https://example.com/v.mp3", "transcript": "Hello", "duration": 7})
    assert told.recordings == (Recording("VM1", "https://example.com/v.mp3", 7),)
    assert told.transcripts == (Transcript("AC1-voicemail", "Hello"),)


def test_transcripts_and_summaries_are_texts_of_their_own():
    dialogue = call(
        "call.transcript.completed", id=None, callId="AC1", dialogue=[{"content": "Hello"}, {"content": None}, {"content": "Bye"}]
    )
    summary = call("call.summary.completed", id=None, callId="AC1", summary=["Discussed the roof."], nextSteps=["Send an offer."])
    assert merge(dialogue, summary).transcripts == (
        Transcript("AC1-dialogue", "Hello\nBye"),
        Transcript("AC1-summary", "Discussed the roof."),
    )


def test_recordings_of_both_generations_are_read():
    told = call(
        recordings=[{"id": "R1", "url": "https://example.com/1.mp3", "duration": 9.5}], media=[{"url": "https://example.com/2.mp3"}]
    )
    assert told.recordings == (Recording("R1", "https://example.com/1.mp3", 9), Recording(*["https://example.com/2.mp3"] * 2))


@pytest.mark.parametrize(
    ("kind", "resource", "reason"),
    [
        ("call.completed", {"id": "AC1", "direction": "outgoing"}, "outbound call"),
        ("message.received", {"id": "MS1"}, "not about a call"),
        ("call.completed", {}, "no call id"),
    ],
)
def test_what_makes_no_call_is_ignored_with_its_reason(kind, resource, reason):
    assert parse(kind, resource) == Ignored(reason)


def test_either_setting_is_enough():
    assert Quo(settings(QUO_LEGACY_KEY=QUO_LEGACY)).verify(received(sample("quo", "legacy-call-completed"))) == Sender()
    assert Quo(settings(QUO_SECRET=QUO_KEY)).verify(received(sample("quo", "call-completed"))) == Sender()


@pytest.mark.parametrize("name", ["QUO_SECRET", "QUO_LEGACY_KEY"])
def test_a_key_that_cannot_be_used_is_named_and_not_printed(name):
    with pytest.raises(WrongSettings, match=f"{name}: one of its 2 keys") as fault:
        Quo(settings(**{name: f"{QUO_KEY} whsec_***"}))
    assert QUO_KEY not in str(fault.value)

"""Aircall: what is peculiar to it."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from bridge.call import CallerKind, Input, Recording, Status
from bridge.providers.aircall import Aircall
from bridge.providers.base import Ignored, Sender
from bridge.sandbox.phone import Delivery, sample
from tests.providers.support import received, settings

ADAPTER = Aircall(settings(AIRCALL_WEBHOOK_TOKEN="aircall-webhook-token-made-up"))


def parse(data, **top):
    body = json.dumps({"resource": "call", "event": "call.ended", "data": data} | top).encode()
    return ADAPTER.parse(received(Delivery("POST", "https://ivr.example.com/webhooks/aircall/events", {}, body)), Sender())


def call(**data):
    return parse({"id": 1, "direction": "inbound", "status": "done", "answered_at": 1_768_489_449} | data).call


def sampled(name):
    return ADAPTER.parse(received(sample("aircall", name)), Sender())


def test_a_created_call_tells_who_rings():
    told = sampled("call-created").call
    assert (told.root_id, told.caller.e164, told.dialled, told.status) == ("812000001", "+15550101234", "+15550109999", Status.RINGING)
    assert (told.started_at, told.answered_at, told.duration_s) == (datetime(2026, 1, 15, 15, 4, 5, tzinfo=UTC), None, None)


def test_an_ended_call_tells_its_times_and_its_recording():
    told = sampled("call-ended").call
    assert (told.status, told.raw_status, told.duration_s) == (Status.COMPLETED, "done", 98)
    assert told.recordings == (Recording("812000001-recording", "https://example.com/rec/aircall-1.mp3"),)
    assert told.key == sampled("call-created").call.key


def test_a_missed_call_says_why():
    told = sampled("call-ended-missed").call
    assert (told.status, told.raw_status) == (Status.NO_ANSWER, "no_available_agent")


@pytest.mark.parametrize(
    ("data", "status"),
    [
        ({"missed_call_reason": "abandoned_in_ivr"}, Status.CANCELED),
        ({"missed_call_reason": "a_new_reason"}, Status.NO_ANSWER),
        ({"answered_at": None}, Status.NO_ANSWER),
        ({"answered_at": 1_768_489_449}, Status.COMPLETED),
        ({"status": "answered"}, Status.IN_PROGRESS),
    ],
)
def test_done_is_not_always_completed(data, status):
    assert call(**data).status is status


def test_an_anonymous_caller_has_no_number():
    assert sampled("call-created-anonymous").call.caller.kind is CallerKind.WITHHELD


def test_the_page_of_a_recording_outlives_its_link():
    told = call(recording="https://s3.example.com/x?expires=1", asset="https://assets.aircall.io/calls/1/recording", voicemail="ftp://x")
    assert told.recordings == (Recording("1-recording", "https://assets.aircall.io/calls/1/recording"),)


def test_what_the_caller_chose_is_an_input():
    told = call(ivr_options_selected=[{"id": "o1", "key": "2", "title": "Sales"}, {"id": "o2"}, "nonsense"])
    assert told.inputs == (Input("digits", "2", "Sales", "o1"),)


def test_a_known_contact_names_the_caller():
    assert call(contact={"first_name": "Jane", "last_name": None}).caller_name == "Jane"
    assert call(contact={"first_name": " "}).caller_name is None


def test_an_event_sent_again_later_says_the_same():
    first, again = parse({"id": 1}, timestamp=1, token="a"), parse({"id": 1}, timestamp=2, token="b")
    assert first.content == again.content
    assert "token" not in first.content


@pytest.mark.parametrize(
    ("data", "top", "reason"),
    [
        ({"id": 1, "direction": "outbound"}, {}, "outbound call"),
        ({"id": 1}, {"resource": "contact"}, "not about a call"),
        ({"id": None}, {}, "no call id"),
        ([], {}, "no call id"),
    ],
)
def test_what_makes_no_call_is_ignored_with_its_reason(data, top, reason):
    assert parse(data, **top) == Ignored(reason)

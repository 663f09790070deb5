"""Forms, and the names that Twilio coined."""

from __future__ import annotations

import pytest

from bridge.call import Direction, Input
from bridge.errors import Refused
from bridge.providers import forms
from bridge.providers.base import Kind, WebhookRequest


def request(body=b"", query="", method="POST"):
    return WebhookRequest(method, "/webhooks/x/voice", query, {}, body, "https://ivr.example.com", 0)


def test_a_get_has_its_parameters_in_the_query_and_a_post_in_its_body():
    assert forms.Fields.of(request(b"a=1", "a=2")).all("a") == ("1",)
    assert forms.Fields.of(request(b"a=1", "a=2", "GET")).all("a") == ("2",)


def test_blank_and_missing_are_two_things():
    fields = forms.Fields.of(request(b"a=&b=+x+"))
    assert (fields.first("a", "b"), fields.told("a", "b"), fields.first("c"), fields.told("c")) == ("", "x", None, None)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("JANE DOE", "JANE DOE"),
        ("Zoë", "Zoë"),
        ("+15550101234", None),
        ("15550101234", None),
        ("Anonymous", None),
        ("", None),
        (None, None),
    ],
)
def test_a_name_is_neither_the_number_again_nor_a_word_for_nobody(text, name):
    assert forms.display_name(text) == name


def test_a_blank_counts_only_where_nothing_else_came():
    assert forms.inputs([("digits", ""), ("speech", " yes ")], "menu", "d") == (Input("speech", "yes", "menu", "d"),)
    assert forms.inputs([("digits", ""), ("speech", "")], "menu", None) == (Input("digits", "", "menu"),)
    assert forms.inputs([], "menu", None) == ()


@pytest.mark.parametrize("told", ["outbound", "OUTBOUND-API", "outgoing", "outbound-dial"])
def test_a_told_direction_outranks_the_numbers(told):
    assert forms.direction(told, None, (), "US") is Direction.OUTBOUND
    assert forms.direction("a-new-word", None, (), "US") is Direction.INBOUND


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"CallStatus": "ringing"}, Kind.VOICE),
        ({}, Kind.VOICE),
        ({"CallStatus": "in-progress", "RecordingSid": "1"}, Kind.VOICE),
        ({"CallStatus": "completed"}, Kind.NEWS),
        ({"CallStatus": "ringing", "CallbackSource": "call-progress-events"}, Kind.NEWS),
        ({"RecordingSid": "1"}, Kind.NEWS),
        ({"TranscriptionStatus": "completed"}, Kind.NEWS),
    ],
)
def test_in_doubt_somebody_waits(fields, kind):
    assert forms.kind(forms.Fields(fields.items())) is kind


def test_more_parameters_than_any_phone_system_sends_are_not_even_sorted():
    assert len(forms.parameters(b"&".join([b"a=1"] * 5000))) == 5000
    with pytest.raises(Refused, match="500"):
        forms.parameters(b"&".join([b"a=1"] * 5001))


def test_where_a_caller_goes_on_stands_in_the_url():
    assert forms.next_url(request(b"next=https://evil.example", "x=1&next=https%3A%2F%2Fivr.example.net")) == "https://ivr.example.net"
    assert forms.next_url(request(b"next=https://evil.example")) is None
    assert forms.next_url(None) is None

"""3CX: what makes a call one where nobody tells its id."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from bridge.call import CallerKind, Input, Recording, Status, Transcript
from bridge.errors import Refused
from bridge.providers.base import Heard, Ignored, Sender
from bridge.providers.threecx import ThreeCx
from bridge.sandbox.phone import Delivery, sample
from tests.providers.support import received, settings

TOKEN = "3cx-template-token-made-up"
PAGE = (Path(__file__).parents[2] / "docs" / "providers" / "3cx.md").read_text("utf-8")
REPORT = {"CallType": "Inbound", "Number": "+15550101234", "Agent": "101", "CallStartTimeUTC": "2026-01-15T15:04:05Z"}


def parse(report, **environment):
    body = json.dumps(report).encode()
    delivery = Delivery("POST", "https://ivr.example.com/webhooks/3cx/call", {}, body)
    return ThreeCx(settings(THREECX_TOKEN=TOKEN, **environment)).parse(received(delivery), Sender())


def call(**told):
    return parse(REPORT | told).call


def test_the_recorded_report_is_a_call():
    request = received(sample("3cx", "report-call"))
    adapter = ThreeCx(settings(THREECX_TOKEN=TOKEN))
    told = adapter.parse(request, adapter.verify(request)).call
    assert (told.caller.e164, told.caller_name, told.status, told.duration_s) == ("+15550101234", "JANE DOE", Status.COMPLETED, 94)
    assert re.fullmatch("[0-9a-f]{32}", told.root_id)


def test_one_call_reported_by_several_agents_is_one_call():
    assert call(Agent="102", CallType="Missed").key == call(Agent="101").key
    assert call(CallStartTimeUTC="2026-01-15T15:04:05.310Z").key == call().key


@pytest.mark.parametrize("told", [{"Number": "+15550106666"}, {"CallStartTimeUTC": "2026-01-15T15:04:06Z"}])
def test_another_caller_or_another_second_is_another_call(told):
    assert call(**told).key != call().key


def test_callers_without_a_number_are_told_apart_by_the_agent():
    first, second = call(Number="Anonymous", Agent="101"), call(Number="Anonymous", Agent="102")
    assert first.key != second.key
    assert first.caller.kind is CallerKind.WITHHELD


def test_a_time_that_was_never_set_makes_no_two_calls_one():
    """Of a missed call some versions report the year 1."""
    never = [{"CallStartTimeUTC": "0001-01-01T00:00:00Z"}, {"CallStartTimeUTC": "01/01/0001 00:00:00"}]
    for told in never:
        first, second = call(**told, DateTime="2026-01-15 15:04:05"), call(**told, DateTime="2026-01-15 16:00:00")
        assert first.key != second.key
        assert first.started_at is None
        assert call(**told, Duration="00:00:05").key != call(**told, Duration="00:00:06").key


def test_a_report_without_a_time_is_not_lost():
    without = {"CallType": "Inbound", "Number": "+15550101234", "CallStartTimeUTC": "[CallStartTimeUTC]"}
    assert parse(without).call.key == parse(without).call.key != parse(without | {"Duration": "3"}).call.key


def test_a_variable_that_was_not_filled_is_not_told():
    told = call(Name="[Name]", RecordingUrl="[RecordingUrl]", Summary="[Summary]", Duration="[Duration]", CallId="[CallID]")
    assert (told.caller_name, told.recordings, told.transcripts, told.duration_s) == (None, (), (), None)
    assert told.key == call().key


@pytest.mark.parametrize(("duration", "seconds"), [("94", 94), ("00:01:34", 94), ("01:00:00.5", 3600), ("", None), ("soon", None)])
def test_a_duration_is_seconds_or_a_clock(duration, seconds):
    assert call(Duration=duration).duration_s == seconds


@pytest.mark.parametrize(
    ("kind", "status"), [("Inbound", Status.COMPLETED), ("Missed", Status.NO_ANSWER), ("Started", Status.RINGING), ("Chat", Status.UNKNOWN)]
)
def test_the_type_tells_the_status(kind, status):
    assert call(CallType=kind).status is status


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        ({"CallType": "Outbound"}, "outbound call"),
        ({"CallType": "Notanswered"}, "outbound call"),
        ({"CallType": "Not answered"}, "outbound call"),
        ({"CallDirection": "Outbound"}, "outbound call"),
        ({"Number": "+15550109999"}, "outbound call"),
        ({"Number": "[Number]"}, "no caller and no call id"),
    ],
)
def test_what_makes_no_call_is_ignored_with_its_reason(told, reason):
    assert parse(REPORT | told, OWN_NUMBERS="+15550109999") == Ignored(reason)


def test_what_else_a_report_may_tell():
    told = call(
        CallId="f-1", Digits="2", Prompt="menu", Dialled="+15550109999", RecordingUrl="https://pbx.example.com/1", Summary="A roof."
    )
    assert (told.root_id, told.dialled, told.inputs) == ("f-1", "+15550109999", (Input("digits", "2", "menu"),))
    assert told.recordings == (Recording("f-1-recording", "https://pbx.example.com/1"),)
    assert told.transcripts == (Transcript("f-1-Summary", "A roof."),)


@pytest.mark.parametrize(("authorization", "status"), [("", 401), ("Basic x", 401), (TOKEN, 401), ("Bearer x", 403)])
def test_without_the_token_nothing_is_proven(authorization, status):
    with pytest.raises(Refused) as refusal:
        ThreeCx(settings(THREECX_TOKEN=TOKEN)).verify(
            received(Delivery("POST", "https://x/webhooks/3cx/call", {"authorization": authorization}))
        )
    assert refusal.value.status == status


def test_the_template_on_the_page_sends_what_the_adapter_reads():
    template = re.search(r"```xml\n(.*?)```", PAGE, re.DOTALL)[1]
    root = ET.fromstring(template.strip().split("?>", 1)[1])
    report = root.find(".//Scenario[@Id='ReportCall']/Request")
    assert report.find("Headers/Value").text == "Bearer [Token]"
    assert root.find(".//Parameter[@Name='Token']") is not None
    values = {value.get("Key"): value.text for value in report.findall("PostValues/Value")}
    filled = {key: REPORT.get(key, f"[{text.strip('[]')}]") for key, text in values.items()}
    heard = parse(filled)
    assert isinstance(heard, Heard)
    assert heard.call.key == call().key
    assert set(REPORT) <= set(values)

"""K11, content: whatever stands in an event, the call becomes a lead; foreign text stays text, and times are instants."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from urllib.parse import urlencode

import pytest

from tests.cases.support import ADA, DIALLED, generic_key
from tests.cases.test_k10_authenticity import signed

HOSTILE = "<img src=x onerror=alert(1)>"


def form(call, **encoded):
    fields = urlencode({"CallSid": call.sid, "From": call.caller, "To": DIALLED, "CallStatus": "completed", "CallDuration": "9"})
    return "&".join([fields, *(f"{name}={value}" for name, value in encoded.items())]).encode()


@pytest.mark.parametrize("name", ["Ren%E9+Example", "A%00B", "%FF%FE", "%F0%9F%98%80", "Ren\u00e9"])
def test_b115_any_bytes_in_a_form_become_a_lead(bridge, name):
    call = bridge.phones.call()
    bridge.take(signed(call, "/webhooks/twilio/status", body=form(call, CallerName=name)))
    bridge.assert_one_lead(call)
    assert "\x00" not in bridge.note(call)


@pytest.mark.parametrize("name", [b"Ren\xe9", b"\\ud83d", b"A\\u0000B", b"\xed\xa0\xbd"])
def test_b115_any_bytes_in_json_become_a_lead(bridge, name):
    call = bridge.phones.call()
    told = f'{{"type": "call.ended", "data": {{"call_id": "{call.sid}", "from": "{ADA}", "to": "{DIALLED}", "caller_name": "'.encode()
    bridge.take(bridge.phones.generic.sign(told + name + b'"}}', "msg_1"))
    assert bridge.state(generic_key(call)) == "done"
    assert [contact.phone for contact in bridge.contacts()] == [ADA]
    assert "\x00" not in bridge.note(generic_key(call))
    bridge.note(generic_key(call)).encode()


@pytest.mark.parametrize("text", ["word " * 14_000, "\U0001f600 " * 20_000], ids=["letters", "emoji"])
def test_b116_long_transcript_is_cut_with_a_visible_mark(make_bridge, text):
    bridge = make_bridge(world={"note_max_chars": 4000})
    call = bridge.phones.call()
    bridge.take(bridge.phones.ended(call))
    bridge.take(bridge.phones.twilio.post("transcription", {"CallSid": call.sid, "TranscriptionSid": "TR1", "TranscriptionText": text}))
    bridge.assert_one_lead(call)
    assert "[cut: the note's limit is reached]" in bridge.note(call)
    assert 3900 < len(bridge.note(call)) <= 4000


@pytest.mark.parametrize("limit", [1000, 3999])
@pytest.mark.parametrize("late", [False, True])
def test_b116_limit_that_is_lower_than_ours_costs_no_note(make_bridge, limit, late):
    bridge = make_bridge(world={"note_max_chars": limit})
    call = bridge.phones.call()
    told = bridge.phones.twilio.post("transcription", {"CallSid": call.sid, "TranscriptionSid": "TR1", "TranscriptionText": "word " * 9000})
    events = [bridge.phones.ended(call), told] if late else [told, bridge.phones.ended(call)]
    for event in events:
        bridge.take(event) if late else bridge.post(event)
    bridge.rig.rest()
    bridge.assert_one_lead(call)
    assert "[cut: the note's limit is reached]" in bridge.note(call)
    assert bridge.failures() == []


def test_b116_limit_is_a_setting(make_bridge):
    bridge = make_bridge(NOTE_MAX_CHARS="500")
    call = bridge.phones.call()
    bridge.take(bridge.phones.ended(call, TranscriptionSid="TR1", TranscriptionText="word " * 9000))
    bridge.assert_one_lead(call)
    assert len(bridge.note(call)) <= 500


@pytest.mark.parametrize(
    "name", [HOSTILE, '=HYPERLINK("http://x.example")', "{{contact.email}}", "Ada\r\nInjected: yes", "+SUM(1)", "\u202eadA"]
)
def test_b118_foreign_text_stays_text_in_name_and_note(bridge, name):
    call = bridge.phones.call()
    bridge.take(bridge.phones.ended(call, CallerName=name, TranscriptionSid="TR1", TranscriptionText=f"<script>{name}</script>"))
    bridge.assert_one_lead(call)
    [contact] = bridge.contacts(ADA)
    for text in (contact.name, bridge.note(call)):
        assert not {"<", ">", "{{", "}}", "\r", "\u202e"} & {part for part in ("<", ">", "{{", "}}", "\r", "\u202e") if part in text}, text
    assert "\n" not in contact.name
    assert contact.name[:1] not in set("=+-@")
    assert not any(line.startswith("Injected") for line in bridge.note(call).splitlines())


@pytest.mark.parametrize(
    ("told", "local", "utc"),
    [
        ("Sun, 05 Jul 2026 04:05:00 +0000", "Jul 4, 2026, 11:05 PM", "2026-07-05T04:05:00Z"),
        ("2026-07-04T23:05:00-05:00", "Jul 4, 2026, 11:05 PM", "2026-07-05T04:05:00Z"),
        ("Sat, 04 Jul 2026 05:10:00 +0000", "Jul 4, 2026, 12:10 AM", "2026-07-04T05:10:00Z"),
        ("Sat, 04 Jul 2026 17:10:00 +0000", "Jul 4, 2026, 12:10 PM", "2026-07-04T17:10:00Z"),
    ],
)
@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
def test_b119_note_shows_local_time_and_instant_whatever_the_machines_zone(bridge, monkeypatch, zone, told, local, utc):
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        call = bridge.phones.call()
        bridge.take(bridge.phones.twilio.status(call, "ringing", Timestamp=told), bridge.phones.twilio.status(call, "completed"))
        bridge.assert_one_lead(call)
        assert f"Began: {local} (America/Chicago) · {utc}" in bridge.note(call)
        assert bridge.entry(call).facts.started_at == datetime.fromisoformat(utc).astimezone(UTC)
    finally:
        monkeypatch.undo()
        time.tzset()
    assert os.environ.get("TZ") != "Asia/Tokyo"

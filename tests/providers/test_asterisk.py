"""Asterisk: what the script writes and sends, and what the adapter makes of it."""

from __future__ import annotations

import importlib.util
import io
import os
import re
import subprocess
import sys
import threading
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import parse_qsl, urlencode

import pytest

from bridge.call import CallerKind, Input, Leg, Recording, Status
from bridge.errors import WrongSettings
from bridge.providers.asterisk import Asterisk
from bridge.providers.base import Heard, Ignored, Sender
from bridge.sandbox.phone import Delivery, sample
from tests.providers.support import received, settings

PAGE = (Path(__file__).parents[2] / "docs" / "providers" / "asterisk.md").read_text("utf-8")
SCRIPT = Path(__file__).parents[2] / "docs" / "providers" / "scripts" / "callbridge_asterisk.py"
SECRET = "asterisk-shared-secret-made-up"
AGI = (
    "agi_request: x\nagi_channel: PJSIP/trunk-1\nagi_uniqueid: 1768489445.42\nagi_callerid: 15550101234\nagi_calleridname: J; rm -rf /\n\n"
)


def script():
    spec = importlib.util.spec_from_file_location("callbridge_asterisk", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def adapter(**environment):
    return Asterisk(settings(ASTERISK_HMAC_SECRET=SECRET, **environment))


def parse(provider=None, **fields):
    delivery = Delivery("POST", "https://ivr.example.com/webhooks/asterisk/call", {}, urlencode(fields).encode())
    return (provider or adapter()).parse(received(delivery), Sender())


def call(**fields):
    return parse(**{"uniqueid": "1.1", "event": "start", "callerid_num": "15550101234"} | fields).call


@contextmanager
def bridge(*answers):
    """A server that keeps each request and answers with the next status, the last one for ever."""
    got: list[Delivery] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.append(Delivery("POST", f"http://127.0.0.1{self.path}", dict(self.headers), body))
            self.send_response(answers[min(len(got), len(answers)) - 1])
            self.send_header("Location", "/elsewhere")
            self.end_headers()

        def do_GET(self):  # where a redirected POST would end
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/webhooks/asterisk/call", got
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def spool(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("CALLBRIDGE_SPOOL", str(tmp_path))
    return tmp_path


def dialplan_arguments(event):
    """The arguments that the page's dialplan gives the script, with each variable replaced by its own name."""
    [line] = re.findall(rf"AGI\(callbridge_asterisk\.py,({event},.*)\)\n", PAGE)
    return re.sub(r"\$\{(?:[^{}]|\{[^{}]*\})*\}", "VALUE", line).split(",")


@pytest.mark.parametrize("event", ["start", "input", "end"])
def test_the_dialplan_on_the_page_calls_the_script_as_it_wants_to_be_called(event, spool):
    done = subprocess.run([sys.executable, SCRIPT, *dialplan_arguments(event)], input=AGI, text=True, capture_output=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")  # Asterisk would read output as commands
    [written] = spool.glob("*.form")
    fields = dict(parse_qsl(written.read_text()))
    assert (fields["event"], fields["uniqueid"], fields["linkedid"]) == (event, "1768489445.42", "VALUE")
    assert {"system", "callerid_pres"} <= set(fields)


def test_each_extension_of_the_dialplan_returns_and_is_reached():
    block = re.search(r"```asterisk\n(\[callbridge\].*?)```", PAGE, re.DOTALL)[1]
    names = re.findall(r"^exten => (\w+),1,", block, re.MULTILINE)
    assert names == ["start", "input", "end"]
    assert block.count("same => n,Return()") == 3
    assert all(f"callbridge,{name},1" in PAGE for name in names)


def test_what_the_script_sends_is_proven_and_read(spool, monkeypatch):
    one = script()
    one.note("start", ["linkedid=1768489445.42", "callerid_pres=allowed", "dnid=5550109999", "system=pbx1", "empty="], io.StringIO(AGI))
    with bridge(204) as (url, got):
        monkeypatch.setenv("CALLBRIDGE_URL", url)
        monkeypatch.setenv("CALLBRIDGE_SECRET", SECRET)
        assert one.main(["send", "--once"]) == 0
    assert list(spool.iterdir()) == []
    request = received(got[0], now=float(got[0].headers["X-Pbx-Timestamp"]))
    heard = adapter().parse(request, adapter().verify(request))
    assert isinstance(heard, Heard)
    told = heard.call
    assert (told.caller.e164, told.dialled, told.caller_name, told.account) == ("+15550101234", "+15550109999", "J; rm -rf /", "pbx1")


@pytest.mark.parametrize("status", [500, 403, 302, 503])
def test_an_event_that_was_not_taken_stays_and_keeps_its_place(spool, status):
    one = script()
    for event in ("start", "end"):
        one.note(event, [], io.StringIO(AGI))
    with bridge(status, 204) as (url, got):
        assert one.send_all(url, SECRET) is False
        assert len(got) == 1
        assert one.send_all(url, SECRET) is True
    assert [dict(parse_qsl(each.body.decode()))["event"] for each in got] == ["start", "start", "end"]
    assert got[0].body == got[1].body


def test_an_event_that_would_never_be_taken_is_kept_aside(spool):
    one = script()
    one.note("start", [], io.StringIO(AGI))
    with bridge(413) as (url, _):
        assert one.send_all(url, SECRET) is True
    assert [path.suffix for path in spool.iterdir()] == [".refused"]


def test_a_bridge_that_cannot_be_reached_is_no_answer(spool):
    assert script().post("http://127.0.0.1:9/", SECRET, b"") == 0


def test_a_caller_without_a_number_is_told_as_one(spool):
    script().note("start", [], io.StringIO("agi_uniqueid: 1.1\nagi_callerid: unknown\n"))
    [written] = spool.glob("*.form")
    delivery = Delivery("POST", "https://ivr.example.com/webhooks/asterisk/call", {}, written.read_bytes())
    assert adapter().parse(received(delivery), Sender()).call.caller.kind is CallerKind.EMPTY


def test_the_script_says_how_it_is_used():
    done = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "CALLBRIDGE_SECRET" in done.stderr
    assert os.access(SCRIPT, os.X_OK)


def test_the_recorded_event_is_a_call():
    told = adapter().parse(received(sample("asterisk", "dialplan-curl")), Sender()).call
    assert (told.root_id, told.caller.e164, told.dialled, told.status) == ("1768489445.42", "+15550101234", "+15550109999", Status.RINGING)
    assert told.inputs == (Input("digits", "2", "call", "1768489445"),)
    assert told.started_at == datetime(2026, 1, 15, 15, 4, 5, tzinfo=UTC)


@pytest.mark.parametrize("presentation", ["prohib", "prohib_not_screened", "PROHIB_PASSED_SCREEN", "unavailable"])
def test_a_prohibited_number_is_never_used(presentation):
    told = call(callerid_pres=presentation, callerid_name="JANE")
    assert (told.caller.kind, told.caller.e164, told.caller_name) == (CallerKind.WITHHELD, None, None)
    assert "5550101234" not in told.caller.raw


def test_another_channel_of_the_visit_is_a_leg():
    told = call(uniqueid="1.2", linkedid="1.1", dnid="101", disposition="NO ANSWER", event="end", digits="9")
    assert (told.root_id, told.caller, told.inputs, told.legs) == ("1.1", None, (), (Leg("1.2", "101", Status.NO_ANSWER),))


def test_two_systems_may_have_the_same_channel():
    assert call(system="pbx1").key != call(system="pbx2").key != call().key


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, "no call id"),
        ({"uniqueid": "1", "callerid_num": "201", "dnid": "202"}, "internal call"),
        ({"uniqueid": "1", "callerid_num": "+15550109999"}, "outbound call"),
        ({"uniqueid": "1", "direction": "Outbound"}, "outbound call"),
    ],
)
def test_what_makes_no_call_is_ignored_with_its_reason(fields, reason):
    assert parse(adapter(OWN_NUMBERS="+15550109999"), **fields) == Ignored(reason)


def test_a_question_without_an_answer_is_an_empty_input():
    assert call(event="input", prompt="menu", digits="", ts="1").inputs == (Input("digits", "", "menu", "1"),)
    assert call(event="start", digits="").inputs == ()


def test_a_recording_and_who_forwarded_are_told():
    told = call(recording_url="https://pbx.example.com/1.wav", rdnis="5550107777")
    assert told.recordings == (Recording("1.1", "https://pbx.example.com/1.wav"),)
    assert told.forwarded_from == "+15550107777"


@pytest.mark.parametrize("secret", ["short", " , ", "long-enough-secret short"])
def test_a_secret_that_is_too_short_is_named_and_not_printed(secret):
    with pytest.raises(WrongSettings, match="ASTERISK_HMAC_SECRET") as fault:
        Asterisk(settings(ASTERISK_HMAC_SECRET=secret))
    assert "long-enough" not in str(fault.value)

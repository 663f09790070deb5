"""What does not come from the phone system, or is no call."""

from __future__ import annotations

import http.client
import socket
from dataclasses import replace
from urllib.parse import parse_qsl

import pytest
import requests

from bridge.ledger import keys
from bridge.ledger.ignored import IgnoredEvents, Shelf
from bridge.providers.signatures import twilio_signature
from bridge.sandbox.phone import send


def ours_in(road):
    """Our keys in Redis, but for those that come and go without any webhook."""
    return {name for name in road.connection.keys("cb:*") if not name.startswith((b"cb:pace:", b"cb:backfill:", b"cb:silence:"))}


def test_unsigned_and_forged_requests_are_refused_and_leave_nothing_but_a_count(road):
    call = road.call()
    signed = road.phone.voice(call)
    unsigned = replace(signed, headers={name: value for name, value in signed.headers.items() if name != "X-Twilio-Signature"})
    forged = road.phone.post("voice", {"CallSid": call.sid, "From": call.caller}, token="another")
    changed = replace(signed, body=signed.body + b"&Digits=1")
    elsewhere = replace(signed, url=signed.url + "/other")
    before, since = ours_in(road), road.ghl.next_request()
    answers = [send(one) for one in (unsigned, forged, changed, elsewhere)]
    assert [answer.status_code for answer in answers] == [401, 403, 403, 403]
    assert "TWILIO_AUTH_TOKEN" in answers[1].json()["error"]
    counted = ('reason="signature missing"', 'reason="signature wrong"')
    road.await_true(lambda: all(reason in road.page("/metrics") for reason in counted), "the refusals are counted")
    assert ours_in(road) - before <= {keys.COUNT.encode()}
    assert road.entry(call) == {}
    assert road.ghl.requests(since=since) == []


def test_body_of_300_kilobytes_is_refused_and_nothing_is_kept(road):
    before = ours_in(road)
    answer = send(road.phone.post("voice", {"CallSid": "CA1", "Padding": "x" * 300_000}))
    assert answer.status_code == 413
    assert ours_in(road) == before


def sent_in_chunks(road, size: int, *, is_signed: bool = True) -> int:
    fields = {"CallSid": road.call().sid, "CallStatus": "completed", "Direction": "outbound-api", "Padding": ""}
    fields["Padding"] = "x" * (size - len(road.phone.post("status", fields).body))
    told = road.phone.post("status", fields)
    headers = {name: value for name, value in told.headers.items() if is_signed or name != "X-Twilio-Signature"}
    assert len(told.body) == size
    parts = (told.body[at : at + 8192] for at in range(0, size, 8192))
    return requests.post(told.url, data=parts, headers=headers, timeout=20).status_code


def test_the_limit_holds_where_no_length_is_told(road):
    limit = 256 * 1024
    before = ours_in(road)
    assert [sent_in_chunks(road, size) for size in (limit + 1, 5_000_000)] == [413, 413]
    assert [sent_in_chunks(road, size, is_signed=False) for size in (limit, limit + 1)] == [401, 413]
    assert ours_in(road) - before <= {keys.COUNT.encode()}
    assert sent_in_chunks(road, limit) == 204


@pytest.mark.parametrize("chunks", [b"", b"5\r\nabc", b"zz\r\nabc\r\n0\r\n\r\n", b"3\r\nabcXX0\r\n\r\n", b"-1\r\n", b"3;\r\nabc\r\n"])
def test_broken_chunks_are_a_400_and_no_alert(road, chunks):
    host, _, port = road.deployment.url.removeprefix("http://").partition(":")
    before = len(road.sentry.events)
    with socket.create_connection((host, int(port)), timeout=5) as line:
        line.sendall(b"POST /webhooks/twilio/status HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks)
        line.shutdown(socket.SHUT_WR)
        assert line.recv(12) == b"HTTP/1.1 400"
    assert len(road.sentry.events) == before


def test_head_has_no_effect(road):
    call = road.call()
    told = road.ended(call)
    url = f"{told.url}?{told.body.decode()}"
    signature = twilio_signature(road.deployment.environment["TWILIO_AUTH_TOKEN"], url)
    answer = requests.head(url, headers={"X-Twilio-Signature": signature}, timeout=5)
    assert (answer.status_code, set(answer.headers["Allow"].split(", "))) == (405, {"GET", "POST", "OPTIONS"})
    assert road.entry(call) == {}
    assert requests.get(url, headers={"X-Twilio-Signature": signature}, timeout=5).status_code == 204
    road.await_state(call)


def test_signature_over_a_question_mark_that_stands_alone_is_good(road):
    call = road.call()
    told = road.ended(call)
    form = [(name.encode(), value.encode()) for name, value in parse_qsl(told.body.decode(), keep_blank_values=True)]
    signature = twilio_signature(road.deployment.environment["TWILIO_AUTH_TOKEN"], f"{told.url}?", form)
    host, _, path = told.url.removeprefix("http://").partition("/")
    line = http.client.HTTPConnection(host, timeout=5)  # requests would leave the mark out
    line.request("POST", f"/{path}?", told.body, {**told.headers, "X-Twilio-Signature": signature})
    assert line.getresponse().status == 204
    line.close()
    road.await_state(call)


def test_signed_garbage_is_taken_and_kept_with_its_reason(road):
    since = road.ghl.next_request()
    answer = send(road.phone.post("voice", {"Gar\x00bage": "\ufffd\x1b[2J", "CallStatus": "<>{{}}"}))
    assert answer.status_code == 200
    assert answer.headers["Content-Type"].startswith("text/xml")
    kept = IgnoredEvents(road.connection).page(Shelf.UNREAD, limit=1).events[0]
    assert "%1B%5B2J" in kept["body"]
    assert kept["reason"] == "no call id"
    assert 'reason="no call id"' in road.page("/metrics")
    assert road.ghl.requests(since=since) == []


def test_api_is_closed_to_whoever_has_no_token(road):
    for path in ("/api/calls", "/api/calls/twilio-CA1"):
        assert requests.get(road.deployment.url + path, timeout=5).status_code == 401

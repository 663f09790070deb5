"""What does not come from the phone system, or is no call."""

from __future__ import annotations

from dataclasses import replace

import requests

from bridge.ledger import keys
from bridge.sandbox.phone import send


def ours_in(road):
    """Our keys in Redis, but for those of the pace, which run out by themselves."""
    return {name for name in road.connection.keys("cb:*") if not name.startswith(b"cb:pace:")}


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


def test_signed_garbage_is_taken_and_kept_with_its_reason(road):
    since = road.ghl.next_request()
    answer = send(road.phone.post("voice", {"Gar\x00bage": "\ufffd\x1b[2J", "CallStatus": "<>{{}}"}))
    assert answer.status_code == 200
    assert answer.headers["Content-Type"].startswith("text/xml")
    assert b"%1B%5B2J" in road.connection.lindex(keys.IGNORED, 0)
    assert 'reason="no call id"' in road.page("/metrics")
    assert road.ghl.requests(since=since) == []


def test_api_is_closed_to_whoever_has_no_token(road):
    for path in ("/api/calls", "/api/calls/twilio-CA1"):
        assert requests.get(road.deployment.url + path, timeout=5).status_code == 401

"""K10, webhook authenticity and parsing: what is genuine is taken whatever a proxy did to it, what is not leaves a counter."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from urllib.parse import urlencode

import pytest

from bridge.intake import http
from bridge.ledger.ignored import IgnoredEvents, Shelf
from bridge.providers import reading, signatures
from bridge.sandbox.phone import FORM, Delivery
from tests.cases.support import DIALLED, PUBLIC_URL, generic_key, twilio_key
from tests.support.builders import TWILIO_TOKEN


def signed(call, path, *, url=None, body=None, method="POST", content_type=FORM, token=TWILIO_TOKEN):
    """A Twilio request to `path`, signed for `url`."""
    told = {"CallSid": call.sid, "From": call.caller, "To": DIALLED, "CallStatus": "completed", "Direction": "inbound"}
    body = urlencode(told).encode() if body is None else body
    fields = reading.form_fields(body) if method == "POST" else ()
    signature = signatures.twilio_signature(token, url or PUBLIC_URL + path, fields)
    headers = {"X-Twilio-Signature": signature} | ({"Content-Type": content_type} if content_type else {})
    return Delivery(method, PUBLIC_URL + path, headers, body)


@pytest.mark.parametrize(
    ("path", "url"),
    [
        ("/webhooks/twilio/call?loc=L1", None),
        ("/webhooks/twilio/call?loc=L1", "https://ivr.example.com:443/webhooks/twilio/call?loc=L1"),
        ("/webhooks/twilio/call/?loc=L1", None),
        ("/webhooks/twilio/call?b=2&a=1", None),
    ],
    ids=["query", "port", "slash", "order of the query"],
)
def test_b106_request_signed_for_the_public_url_is_genuine_behind_a_proxy(bridge, path, url):
    call = bridge.phones.call()
    bridge.take(signed(call, path, url=url))
    bridge.assert_one_lead(call)


@pytest.mark.parametrize("what", ["body", "query", "order of the query", "path"])
def test_b106_one_changed_character_is_refused_and_queues_nothing(bridge, what):
    call = bridge.phones.call()
    genuine = signed(call, "/webhooks/twilio/call?a=1&b=2")
    forged = {
        "body": replace(genuine, body=genuine.body.replace(b"555", b"556")),
        "query": replace(genuine, url=genuine.url.replace("a=1", "a=2")),
        "order of the query": replace(genuine, url=genuine.url.replace("a=1&b=2", "b=2&a=1")),
        "path": replace(genuine, url=genuine.url.replace("/call", "/cell")),
    }[what]
    assert bridge.post(forged) == [403]
    assert (bridge.entries(), bridge.connection.exists("rq:queue:calls")) == ([], 0)


def test_b107_field_that_comes_twice_is_kept_in_order(bridge):
    call = bridge.phones.call()
    said = [("CallSid", call.sid), ("From", call.caller), ("Digits", "1"), ("Digits", "2"), ("CallStatus", "in-progress")]
    bridge.take(bridge.phones.twilio.post("gather", said), bridge.phones.ended(call))
    bridge.assert_one_lead(call)
    assert [entered.value for entered in bridge.entry(call).facts.inputs] == ["1", "2"]
    assert bridge.note(call).index("Pressed: 1") < bridge.note(call).index("Pressed: 2")


def test_b109_forged_requests_are_refused_store_nothing_and_log_no_body(bridge, caplog):
    call = bridge.phones.call()
    genuine = bridge.phones.ended(call, CallerName="Ada Example")
    unsigned = replace(genuine, headers={"Content-Type": FORM})
    other_secret = bridge.phones.twilio.post("status", {"CallSid": call.sid, "From": call.caller, "To": DIALLED}, token="another")
    old_body = replace(genuine, body=bridge.phones.ended(bridge.phones.call("+12025550199")).body)
    with caplog.at_level("DEBUG"):
        assert bridge.post(unsigned, other_secret, old_body) == [401, 403, 403]
        assert set(bridge.post(*[unsigned] * 100)) == {401}
    assert (bridge.entries(), bridge.asked(), bridge.connection.keys("cb:ignored*")) == ([], 0, [])
    assert "2025550143" not in caplog.text
    assert "Ada" not in caplog.text
    bridge.receiver.flush_counts()
    assert bridge.counted("refused.twilio:signature missing") == 101
    assert bridge.counted("refused.twilio:signature wrong") == 2
    assert bridge.failures() == []


@pytest.mark.parametrize("content_type", ["application/x-www-form-urlencoded; charset=utf-8", "Application/X-WWW-Form-Urlencoded", None])
def test_b110_form_is_a_form_however_its_type_is_spelt(bridge, content_type):
    call = bridge.phones.call()
    bridge.take(signed(call, "/webhooks/twilio/status", content_type=content_type))
    bridge.assert_one_lead(call)


@pytest.mark.parametrize("content_type", ["APPLICATION/JSON; charset=UTF-8", "text/plain", ""])
def test_b110_json_is_json_however_its_type_is_spelt(bridge, content_type):
    call = bridge.phones.call()
    told = bridge.phones.generic.event("call.ended", call)
    bridge.take(replace(told, headers={**told.headers, "Content-Type": content_type}))
    assert bridge.state(generic_key(call)) == "done"
    assert len(bridge.contacts()) == 1


def test_b110_query_of_a_get_is_read(bridge):
    call = bridge.phones.call()
    query = urlencode({"CallSid": call.sid, "From": call.caller, "CallStatus": "completed"})
    bridge.take(signed(call, f"/webhooks/twilio/status?{query}", method="GET", body=b"", content_type=None))
    bridge.assert_one_lead(call)


def test_b110_form_that_says_it_is_json_is_kept_for_inspection_and_never_taken_in_silence(bridge):
    body = b"call_id=1&from=%2B12025550143"
    assert bridge.post(bridge.phones.generic.sign(body, "msg_1")) == [204]
    assert bridge.counted("events.ignored:the body is no JSON object") == 1
    (kept,) = IgnoredEvents(bridge.connection).page(Shelf.UNREAD, limit=9).events
    assert kept["body"] == body.decode()
    assert bridge.post(signed(bridge.phones.call(), "/webhooks/twilio/status", content_type="application/json")) == [403]


@pytest.mark.parametrize(("offset_s", "status"), [(90, 204), (-90, 204), (299, 204), (-299, 204), (301, 403), (-301, 403)])
def test_b112_clocks_may_differ_by_five_minutes_in_both_directions(bridge, monkeypatch, offset_s, status):
    call = bridge.phones.call()
    told = bridge.phones.generic.event("call.ended", call)
    signed_at = int(told.headers["webhook-timestamp"])
    monkeypatch.setattr(http, "time", SimpleNamespace(time=lambda: float(signed_at + offset_s)))
    assert bridge.post(told) == [status]
    bridge.receiver.flush_counts()
    assert bridge.counted("refused.generic:signature stale") == (status == 403), "a count of its own tells a clock from a wrong secret"


def test_b113_replay_of_a_captured_webhook_writes_nothing_and_keeps_nothing(bridge):
    call = bridge.phones.call()
    captured = bridge.phones.ended(call)
    bridge.take(captured)
    bridge.pass_time(3 * 86_400)
    bridge.take(captured)
    writes, keys_before = bridge.changes(), set(bridge.connection.keys())
    size = bridge.connection.memory_usage(f"cb:entry:{twilio_key(call)}")
    bridge.take(*[captured] * 200)
    assert (bridge.changes(), set(bridge.connection.keys())) == (writes, keys_before)
    assert bridge.connection.memory_usage(f"cb:entry:{twilio_key(call)}") == size
    assert bridge.counted("events.repeat") == 201


def test_b113_replay_with_another_delivery_id_is_a_repeat_all_the_same(bridge):
    """The id is a header that no signature covers."""
    call = bridge.phones.call()
    captured = bridge.phones.ended(call)
    bridge.take(captured)
    before = bridge.changes()
    bridge.take(*(replace(captured, headers={**captured.headers, "I-Twilio-Idempotency-Token": str(number)}) for number in range(20)))
    assert (bridge.changes(), bridge.counted("events.repeat")) == (before, 20)


def test_b113_replay_after_the_ledger_has_forgotten_the_call_writes_no_second_note(bridge):
    call = bridge.phones.call()
    captured = bridge.phones.ended(call)
    bridge.take(captured)
    before = bridge.changes()
    bridge.pass_time(bridge.settings.done_days * 86_400 + 60)
    for name in ("entry", "trail", "raw", "repeats"):
        bridge.connection.delete(f"cb:{name}:{twilio_key(call)}")  # Redis lets them expire by its own clock
    bridge.take(captured)
    bridge.assert_one_lead(call)
    assert len(bridge.notes(call)) == 1
    assert bridge.changes() == before

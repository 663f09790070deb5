"""The made-up phone company makes what the real ones make, and the same each time."""

from __future__ import annotations

import json
import random
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from bridge.call import Status, contradicts, merge
from bridge.providers import registry
from bridge.sandbox import phone
from tests.providers.support import NOW, PUBLIC_URL, SECRET, TOKEN, received, settings

PROVIDERS = registry.build(settings(TWILIO_AUTH_TOKEN=TOKEN, GENERIC_SECRET=SECRET))


def twilio_phone(seed=1, url=PUBLIC_URL):
    return phone.TwilioPhone(url, TOKEN, random.Random(seed))


def calls_in(deliveries):
    parsed = [PROVIDERS["twilio"].parse(request, PROVIDERS["twilio"].verify(request)) for request in map(received, deliveries)]
    return [heard.call for heard in parsed]


def test_a_seed_makes_the_same_calls_again():
    assert list(phone.whole_calls(twilio_phone(3), 2)) == list(phone.whole_calls(twilio_phone(3), 2))
    assert list(phone.whole_calls(twilio_phone(3), 2)) != list(phone.whole_calls(twilio_phone(4), 2))


def test_a_whole_call_is_one_call_with_all_it_told():
    one = twilio_phone()
    first, *rest = calls_in(one.whole_call(phone.new_call(one.rng)))
    whole = first
    for news in rest:
        assert news.key == first.key
        whole = merge(whole, news)
    assert (whole.status, whole.duration_s, [entered.value for entered in whole.inputs], len(whole.recordings)) == (
        Status.COMPLETED,
        40,
        ["1"],
        1,
    )


def test_the_faults_are_what_they_are_called():
    one = twilio_phone()
    call = phone.new_call(one.rng)
    assert contradicts(*calls_in(phone.conflicting(one, call)))
    assert calls_in(phone.final_first([one.voice(call), one.status(call, "completed", after_s=9)]))[0].status is Status.COMPLETED
    assert calls_in([one.child_leg(call, "+15550108888")])[0].root_id == call.sid
    assert calls_in([one.gather(call, speech="roof")])[0].inputs[0].value == "roof"


def test_a_storm_keeps_to_its_time_and_names_each_call_once():
    plan = phone.storm(twilio_phone(), 50, over_s=2)
    assert all(0 <= at <= 2 for at, _ in plan)
    assert [at for at, _ in plan] == sorted(at for at, _ in plan)
    assert len({call.root_id for call in calls_in(delivery for _, delivery in plan)}) == 50


def test_a_proxy_between_does_not_change_what_is_signed():
    behind = phone.TwilioPhone("http://127.0.0.1:5000", TOKEN, random.Random(1), signed_url=PUBLIC_URL)
    delivery = behind.voice(phone.new_call(behind.rng))
    assert delivery.url.startswith("http://127.0.0.1:5000/webhooks/twilio/voice")
    assert PROVIDERS["twilio"].verify(received(delivery, public_url=PUBLIC_URL)).account == ""


def test_signed_json_is_proven_and_a_retry_keeps_its_id():
    clock = iter([NOW, NOW + 5])
    pbx = phone.GenericPhone(PUBLIC_URL, SECRET, now=lambda: next(clock))
    call = phone.new_call(random.Random(1))
    first, again = pbx.event("call.started", call), pbx.event("call.started", call)
    assert first.headers["webhook-id"] == again.headers["webhook-id"]
    assert first.headers["webhook-timestamp"] != again.headers["webhook-timestamp"]
    for delivery in (first, again):
        PROVIDERS["generic"].verify(received(delivery))
    assert phone.new_secret(random.Random(1)).startswith("whsec_")


def test_a_sample_can_be_told_of_a_new_call():
    before = phone.sample("twilio", "status-child-leg")
    after = phone.new_ids(before, random.Random(1))
    old, new = (
        dict(pair.split("=") for pair in before.body.decode().split("&")),
        dict(pair.split("=") for pair in after.body.decode().split("&")),
    )
    assert {name for name in old if old[name] != new[name]} == {"CallSid", "ParentCallSid"}
    assert after.url == before.url


@pytest.fixture
def server():
    """Answers 204 and keeps what came, with the number of requests that were under way together."""
    seen, gate = [], threading.Barrier(4)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            seen.append((self.path, self.headers["X-Twilio-Signature"], self.rfile.read(int(self.headers["Content-Length"]))))
            if self.headers.get("Together"):
                gate.wait(timeout=5)
            self.send_response(302 if self.path.endswith("/moved") else 204)
            self.send_header("Location", "/elsewhere")
            self.end_headers()

        def log_message(self, *args):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        running.seen = seen
        yield running
        running.shutdown()
        thread.join()


def test_a_delivery_arrives_as_it_was_signed(server):
    one = twilio_phone(url=f"http://127.0.0.1:{server.server_port}")
    delivery = one.voice(phone.new_call(one.rng))
    assert phone.send(delivery).status_code == 204
    assert server.seen == [("/webhooks/twilio/voice", delivery.headers["X-Twilio-Signature"], delivery.body)]
    assert phone.send(replace(delivery, url=delivery.url + "/moved")).status_code == 302


def test_a_redelivery_comes_at_the_same_instant(server):
    one = twilio_phone(url=f"http://127.0.0.1:{server.server_port}")
    delivery = one.voice(phone.new_call(one.rng))
    together = replace(delivery, headers={**delivery.headers, "Together": "4"})
    assert [answer.status_code for answer in phone.send_together([together] * 4)] == [204] * 4
    assert len({body for _, _, body in server.seen}) == 1


def test_a_plan_is_played_whole(server):
    one = twilio_phone(url=f"http://127.0.0.1:{server.server_port}")
    assert [answer.status_code for answer in phone.play(phone.storm(one, 10, over_s=0.1))] == [204] * 10
    assert len(server.seen) == 10


def test_what_is_sent_as_json_is_json():
    body = phone.GenericPhone(PUBLIC_URL, SECRET, now=lambda: NOW).event("call.input", phone.new_call(random.Random(1)), digits="2").body
    assert json.loads(body)["data"]["digits"] == "2"

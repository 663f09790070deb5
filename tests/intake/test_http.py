"""The door: paths as they were sent, sizes before content, and answers as the provider wants them."""

from __future__ import annotations

import random

import pytest
import redis
from flask import Flask
from flask.testing import FlaskClient
from gunicorn.http.errors import ChunkMissingTerminator, InvalidChunkSize, NoMoreData
from werkzeug.test import EnvironBuilder, run_wsgi_app
from werkzeug.wrappers import Request

from app import create_app
from bridge.intake import http
from bridge.intake.webhook import BODY_LIMIT
from bridge.providers.base import Answer, WebhookRequest
from bridge.sandbox.phone import TwilioPhone, new_call
from tests.support.builders import ENVIRONMENT, TWILIO_TOKEN, make_settings
from tests.support.house import House

PUBLIC_URL = ENVIRONMENT["PUBLIC_URL"]
PHONE = TwilioPhone(PUBLIC_URL, TWILIO_TOKEN)
CALL = new_call(random.Random(1))


class Receiver:
    """Notes what reached it."""

    def __init__(self) -> None:
        self.providers = {"twilio": object()}
        self.requests: list[WebhookRequest] = []

    def receive(self, _provider: object, request: WebhookRequest) -> Answer:
        self.requests.append(request)
        return Answer(201, "text/xml; charset=utf-8", b"<Response/>", {"X-Ours": "yes"})


@pytest.fixture
def receiver() -> Receiver:
    return Receiver()


@pytest.fixture
def client(receiver: Receiver) -> FlaskClient:
    app = Flask("test")
    app.register_blueprint(http.blueprint(receiver, PUBLIC_URL))
    return app.test_client()


def raw(**environ) -> WebhookRequest:
    return http.read(Request(EnvironBuilder(path="/webhooks/twilio/voice").get_environ() | environ), PUBLIC_URL)


@pytest.mark.parametrize(
    ("sent", "path"),
    [
        ("/webhooks/twilio/voice", "/webhooks/twilio/voice"),
        ("/webhooks/twilio/vo%69ce%2Fx%20y", "/webhooks/twilio/vo%69ce%2Fx%20y"),
        ("/webhooks/twilio/voice/?a=%2B1", "/webhooks/twilio/voice/"),
        ("http://ivr.example.com/webhooks/twilio/voice?a=1", "/webhooks/twilio/voice"),
        ("https://ivr.example.com:443/webhooks/twilio", "/webhooks/twilio"),
        ("/webhooks/twilio/voice?next=https://x.example.com/webhooks/", "/webhooks/twilio/voice"),
        ("//webhooks/twilio", "//webhooks/twilio"),
    ],
)
@pytest.mark.parametrize("name", ["RAW_URI", "REQUEST_URI"])
def test_the_path_is_taken_as_it_was_sent(name: str, sent: str, path: str) -> None:
    environ = {"RAW_URI": "", "REQUEST_URI": ""} | {name: sent}
    assert raw(**environ).path == path


def test_without_a_raw_path_the_decoded_one_is_encoded_again() -> None:
    assert raw(RAW_URI="", REQUEST_URI="", PATH_INFO="/webhooks/twilio/a b~c").path == "/webhooks/twilio/a%20b~c"


def test_query_and_body_are_not_decoded(client: FlaskClient, receiver: Receiver) -> None:
    client.post("/webhooks/twilio/voice?a=%2B1+2&a=", data=b"From=%2B1\xff", content_type="application/x-www-form-urlencoded")
    (request,) = receiver.requests
    assert (request.query, request.body, request.method) == ("a=%2B1+2&a=", b"From=%2B1\xff", "POST")
    assert request.url == f"{PUBLIC_URL}/webhooks/twilio/voice?a=%2B1+2&a="


def test_the_url_is_the_public_one_whatever_a_proxy_says(client: FlaskClient, receiver: Receiver) -> None:
    client.post("/webhooks/twilio/voice", headers={"Host": "evil.example.com", "X-Forwarded-Proto": "http"})
    assert receiver.requests[0].url == f"{PUBLIC_URL}/webhooks/twilio/voice"


def test_header_names_are_in_lower_case_and_repeats_are_joined(client: FlaskClient, receiver: Receiver) -> None:
    client.post("/webhooks/twilio", headers=[("X-One", "a"), ("x-one", "b"), ("X-Two", "c")])
    headers = receiver.requests[0].headers
    assert headers["x-two"] == "c"
    assert headers["x-one"] in {"a, b", "a,b"}


@pytest.mark.parametrize(("path", "what"), [("", ""), ("/", ""), ("/voice", "voice"), ("/voice/", "voice"), ("/voice/menu", "voice/menu")])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_trailing_slash_is_the_same_url(client: FlaskClient, receiver: Receiver, path: str, what: str, method: str) -> None:
    answer = client.open(f"/webhooks/twilio{path}", method=method)
    assert answer.status_code == 201, "no redirect: a provider would not follow it with its body"
    assert receiver.requests[0].what == what


def test_the_answer_is_handed_on_whole(client: FlaskClient) -> None:
    answer = client.post("/webhooks/twilio")
    assert (answer.status_code, answer.content_type, answer.data) == (201, "text/xml; charset=utf-8", b"<Response/>")
    assert answer.headers["X-Ours"] == "yes"


def test_a_body_that_is_too_large_is_refused_before_anything_reads_it(client: FlaskClient, receiver: Receiver) -> None:
    answer = client.post("/webhooks/twilio", data=b"x" * (BODY_LIMIT + 1))
    assert answer.status_code == 413
    assert answer.get_json() == {"error": "the body is larger than 256 KB"}
    assert receiver.requests == []
    assert client.post("/webhooks/twilio", data=b"x" * BODY_LIMIT).status_code == 201


def test_a_provider_that_is_not_configured_says_what_to_set(client: FlaskClient) -> None:
    answer = client.post("/webhooks/generic")
    assert answer.status_code == 404
    assert "set GENERIC_SECRET" in answer.get_json()["error"]


def test_an_unknown_provider_is_told_the_known_ones(client: FlaskClient) -> None:
    answer = client.post("/webhooks/nobody/voice")
    assert answer.status_code == 404
    assert "twilio" in answer.get_json()["error"]


@pytest.mark.parametrize("method", ["HEAD", "PUT", "DELETE", "PATCH", "TRACE"])
@pytest.mark.parametrize("path", ["/webhooks/twilio", "/webhooks/twilio/voice/"])
def test_other_methods_are_not_for_webhooks(client: FlaskClient, receiver: Receiver, path: str, method: str) -> None:
    answer = client.open(path, method=method)
    assert (answer.status_code, set(answer.allow)) == (405, {"GET", "POST", "OPTIONS"})
    assert receiver.requests == []


def test_whoever_asks_is_told_the_methods(client: FlaskClient, receiver: Receiver) -> None:
    answer = client.options("/webhooks/twilio/voice")
    assert (answer.status_code, set(answer.allow)) == (200, {"GET", "POST", "OPTIONS"})
    assert receiver.requests == []


@pytest.mark.parametrize(
    ("sent", "url"),
    [
        ("/webhooks/twilio/status?", "/webhooks/twilio/status?"),
        ("/webhooks/twilio/status", "/webhooks/twilio/status"),
        ("/webhooks/twilio/status??", "/webhooks/twilio/status??"),
        ("/webhooks/twilio/status?a=1?", "/webhooks/twilio/status?a=1?"),
        ("http://ivr.example.com/webhooks/twilio/status?", "/webhooks/twilio/status?"),
    ],
)
def test_a_question_mark_that_stands_alone_is_part_of_the_url(sent: str, url: str) -> None:
    request = raw(RAW_URI=sent, QUERY_STRING=sent.partition("?")[2])
    assert (request.url, request.what) == (f"{PUBLIC_URL}{url}", "status")


class Chunks:
    """A body of no told length, as gunicorn hands it on. It notes how much of it was taken."""

    def __init__(self, size: int, fault: Exception | None = None) -> None:
        self.left, self.taken, self.fault = size, 0, fault

    def read(self, size: int = -1) -> bytes:
        part = min(self.left, 8192 if size < 0 else min(size, 8192))
        if not part and self.fault:
            raise self.fault
        self.left, self.taken = self.left - part, self.taken + part
        return b"x" * part


def chunked(client: FlaskClient, body: Chunks) -> int:
    environ = EnvironBuilder(path="/webhooks/twilio", method="POST").get_environ()
    told = {"wsgi.input": body, "wsgi.input_terminated": True, "HTTP_TRANSFER_ENCODING": "chunked"}
    _, status, _ = run_wsgi_app(client.application, environ | told)
    return int(status.split()[0])


def test_a_body_of_no_told_length_has_the_same_limit(client: FlaskClient, receiver: Receiver) -> None:
    assert chunked(client, Chunks(BODY_LIMIT)) == 201
    assert len(receiver.requests[0].body) == BODY_LIMIT
    body = Chunks(20 * BODY_LIMIT)
    assert chunked(client, Chunks(BODY_LIMIT + 1)) == chunked(client, body) == 413
    assert body.taken == BODY_LIMIT + 1
    assert len(receiver.requests) == 1


@pytest.mark.parametrize("fault", [NoMoreData(), InvalidChunkSize(b"zz"), ChunkMissingTerminator(b"XX"), ConnectionResetError()])
def test_broken_chunks_are_the_senders_fault(client: FlaskClient, receiver: Receiver, fault: Exception) -> None:
    assert chunked(client, Chunks(10, fault)) == 400
    assert receiver.requests == []


def test_a_signed_call_passes_the_whole_door(connection: redis.Redis, redis_url: str, tmp_path) -> None:
    app = create_app(make_settings(REDIS_URL=redis_url, SPOOL_PATH=str(tmp_path / "spool")))
    delivery = PHONE.voice(CALL)
    path = delivery.url.removeprefix(PUBLIC_URL)
    answer = app.test_client().post(path, data=delivery.body, headers=dict(delivery.headers))
    assert (answer.status_code, answer.data[:10]) == (200, b"<Response>")
    assert House(connection).entry(f"twilio-{CALL.sid}").facts.caller.e164 == CALL.caller
    app.extensions["callbridge"].connection.close()

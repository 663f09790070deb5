"""The recorded requests of Telnyx, Plivo, Vonage, SignalWire and CallRail have the verdicts that the vendors' own libraries gave them."""

from __future__ import annotations

import copy
import importlib.util
import json
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis
from hypothesis import strategies as st

from bridge.errors import Refused
from bridge.providers import callrail, plivo, registry, signalwire
from bridge.providers.base import Heard, Ignored, Kind, Sender, WebhookRequest
from bridge.sandbox.phone import Delivery, sample, sample_names
from tests.providers import carriers
from tests.providers.support import NOW, PUBLIC_URL, received, settings

RECORDED = json.loads((Path(__file__).parent / "vectors_carriers.json").read_text("utf-8"))["vectors"]
BY_ID = {vector["id"]: vector for vector in RECORDED}
PROVIDERS = registry.build(settings(**{name: value for case in carriers.CASES.values() for name, value in case.environment.items()}))
SHARED = Path(__file__).parents[3] / "shared" / "payloads" / "vectors.json"
# What the collection calls genuine and we refuse, with the reason.
REFUSED_HERE = {"plivo-x-v2": "V2 does not cover the parameters"}


def request_of(vector):
    return received(Delivery(vector["method"], vector["url"], vector["headers"], vector["body"].encode()), now=vector["now"])


def of(provider, *, valid=True):
    return [vector for vector in RECORDED if vector["provider"] == provider and vector["valid"] is valid]


def is_proven(vector):
    try:
        PROVIDERS[vector["provider"]].verify(request_of(vector))
    except Refused:
        return False
    return True


@pytest.mark.parametrize("vector", [vector for vector in RECORDED if vector["valid"]], ids=lambda vector: vector["id"])
def test_a_genuine_request_is_proven_and_read(vector):
    provider, request = PROVIDERS[vector["provider"]], request_of(vector)
    outcome = provider.parse(request, provider.verify(request))
    if vector["id"].startswith("plivo-x-post-empty"):
        assert outcome == Ignored("no call id", outcome.kind)
    else:
        assert isinstance(outcome, Heard)


@pytest.mark.parametrize("vector", [vector for vector in RECORDED if not vector["valid"]], ids=lambda vector: vector["id"])
def test_a_request_that_was_tampered_with_is_refused(vector):
    with pytest.raises(Refused) as refusal:
        PROVIDERS[vector["provider"]].verify(request_of(vector))
    assert refusal.value.status == 403


def test_the_vectors_are_all_there():
    counts = {name: (len(of(name)), len(of(name, valid=False))) for name in carriers.CASES}
    assert counts == {"telnyx": (10, 2), "plivo": (13, 1), "vonage": (7, 3), "signalwire": (4, 0), "callrail": (3, 0)}


@pytest.mark.skipif(not SHARED.exists(), reason="the collection of vectors is not beside the repository")
def test_the_collection_of_vectors_has_the_same_verdicts():
    for vector in json.loads(SHARED.read_text("utf-8"))["vectors"]:
        if vector["provider"] in carriers.CASES:
            body = vector["body"] if "body" in vector else (SHARED.parent / vector["body_file"]).read_text("utf-8")
            told = {"now": NOW} | vector | {"body": body}
            assert is_proven(told) is (vector["valid"] and vector["id"] not in REFUSED_HERE), vector["id"]


def test_a_recorded_request_of_one_provider_is_none_of_another():
    for vector in RECORDED:
        for name in set(carriers.CASES) - {vector["provider"]}:
            with pytest.raises(Refused):
                PROVIDERS[name].verify(replace(request_of(vector), path=f"/webhooks/{name}/events"))


@pytest.mark.parametrize("vector", [vector for vector in RECORDED if vector["valid"] and vector["body"]], ids=lambda vector: vector["id"])
def test_no_byte_of_a_body_can_be_changed(vector):
    body = vector["body"]
    for at in range(0, len(body), 7):
        other = body[:at] + ("x" if body[at] not in "xX" else "y") + body[at + 1 :]
        assert not is_proven(vector | {"body": other}), at


# ---- The vendors' own libraries


def library(name):
    """A vendor's module. One that is missing fails: skipped, nobody would see that nothing is compared any more."""
    return importlib.import_module(name)  # bin/test installs requirements-dev.txt and requirements-dev-alone.txt


def test_plivos_library_takes_our_signatures():
    validate = library("plivo.utils.signature_v3").validate_v3_signature
    cases = [("", "CallUUID=c1&From=1555&Digits="), ("b=2&a=1&a=0", "Tag=b&Tag=a&N%C3%A4me=J%20D"), ("b=2&a=%26", ""), ("", "")]
    for query, body in cases:
        delivery = carriers.plivo_signed(body.encode(), query=query)
        params = plivo_params(body)
        headers = delivery.headers
        nonce, proof = headers["X-Plivo-Signature-V3-Nonce"], headers["X-Plivo-Signature-V3"]
        assert validate("POST", delivery.url, nonce, carriers.PLIVO_TOKEN, proof, params)
        got = carriers.plivo_signed(b"", method="GET", query=query).headers["X-Plivo-Signature-V3"]
        assert validate("GET", delivery.url, nonce, carriers.PLIVO_TOKEN, got, {})


def plivo_params(body):
    from urllib.parse import parse_qs

    return {name: values if len(values) > 1 else values[0] for name, values in parse_qs(body, keep_blank_values=True).items()}


def test_plivos_library_takes_each_recorded_request():
    validate = library("plivo.utils.signature_v3").validate_v3_signature
    for vector in of("plivo"):
        headers, params = vector["headers"], {} if vector["method"] == "GET" else plivo_params(vector["body"])
        nonce, proof = headers["X-Plivo-Signature-V3-Nonce"], headers["X-Plivo-Signature-V3"]
        assert validate(vector["method"], vector["url"], nonce, carriers.PLIVO_TOKEN, proof, params), vector["id"]


def telnyx_verification():
    """The one file of the library that verifies; importing the whole takes ten seconds."""
    package = importlib.util.find_spec("telnyx")
    file = Path(package.submodule_search_locations[0]) / "lib" / "webhook_verification.py"
    spec = importlib.util.spec_from_file_location("telnyx_webhook_verification", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_telnyxs_library_has_the_same_verdicts(monkeypatch):
    module = telnyx_verification()
    for vector in of("telnyx") + of("telnyx", valid=False):
        monkeypatch.setattr(module, "time", SimpleNamespace(time=lambda now=vector["now"]: now))
        try:
            module.verify_webhook_signature(vector["body"].encode(), vector["headers"], carriers.TELNYX_PUBLIC_KEY)
            proven = True
        except module.WebhookVerificationError:
            proven = False
        assert proven is vector["valid"] is is_proven(vector), vector["id"]


def test_vonages_library_takes_each_recorded_request():
    verify = library("vonage_jwt").verify_signature
    for vector in of("vonage"):
        assert verify(vector["headers"]["Authorization"].removeprefix("Bearer "), carriers.VONAGE_SECRET), vector["id"]


def test_signalwires_library_takes_each_recorded_request_and_no_changed_form():
    validator = library("signalwire.request_validator").RequestValidator(carriers.SIGNALWIRE_KEY)
    for vector in of("signalwire"):
        is_json = vector["headers"]["Content-Type"] == "application/json"
        changed = [] if is_json else [vector["body"].replace("5550101234", "5550106666")]  # of changed JSON the library makes a TypeError
        for body in (vector["body"], *changed):
            proven = validator.validate(vector["url"], body if is_json else plivo_params(body), vector["headers"]["X-SignalWire-Signature"])
            assert proven is (body == vector["body"]) is is_proven(vector | {"body": body}), vector["id"]


def test_signalwires_json_is_signed_as_recorded():
    (vector,) = [one for one in of("signalwire") if one["headers"]["Content-Type"] == "application/json"]
    ours = signalwire.body_signature(carriers.SIGNALWIRE_KEY, vector["url"], vector["body"].encode())
    assert ours == vector["headers"]["X-SignalWire-Signature"]


def test_callrails_bodies_are_signed_as_recorded():
    for vector in of("callrail"):
        assert callrail.body_signature(carriers.CALLRAIL_KEY, vector["body"].encode()) == vector["headers"]["Signature"]


def test_plivos_signed_string_is_the_recorded_one():
    vector = BY_ID["plivo-answer-query"]
    headers = vector["headers"]
    ours = plivo.signature_v3(carriers.PLIVO_TOKEN, "POST", vector["url"], vector["body"].encode(), headers["X-Plivo-Signature-V3-Nonce"])
    assert ours == headers["X-Plivo-Signature-V3"]


# ---- Arbitrary events that look like real ones

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["", "inbound", "outgoing", "completed", "1e99"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)
SAMPLES = [(name, one) for name in carriers.CASES for one in sample_names(name)]


def places(found, path=()):
    """The path of each value in a document."""
    yield path
    for key in found if isinstance(found, dict) else ():
        yield from places(found[key], (*path, key))


def with_value(document, path, value):
    if not path:
        return value
    changed = copy.deepcopy(document)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return changed


@pytest.mark.parametrize(("name", "one"), [pair for pair in SAMPLES if sample(*pair).body.startswith(b"{")])
@hypothesis(max_examples=30)
@given(data=st.data())
def test_an_event_with_any_value_anywhere_is_read_or_ignored(name, one, data):
    document = json.loads(sample(name, one).body)
    path, value = data.draw(st.sampled_from(list(places(document)))), data.draw(VALUES)
    request = replace(received(sample(name, one)), body=json.dumps(with_value(document, path, value)).encode())
    assert isinstance(PROVIDERS[name].parse(request, Sender()), Heard | Ignored)


@pytest.mark.parametrize(("name", "one"), [pair for pair in SAMPLES if not sample(*pair).body.startswith(b"{")])
@hypothesis(max_examples=30)
@given(cut=st.integers(0, 600), added=st.binary(max_size=40))
def test_a_form_with_any_bytes_in_it_is_read_or_ignored(name, one, cut, added):
    request = received(sample(name, one))
    body, query = request.body or request.query.encode(), request.query
    changed = body[:cut] + added + body[cut:]
    request = replace(request, body=changed, query=changed.decode("utf-8", "replace") if query else "")
    assert isinstance(PROVIDERS[name].parse(request, Sender()), Heard | Ignored)


@pytest.mark.parametrize("name", list(carriers.CASES))
@hypothesis(max_examples=60)
@given(
    query=st.text(max_size=60) | st.sampled_from(["next=https%3A%2F%2F%5B", "next=%ff", "next=https%3A%2F%2Fx%2F%00&next="]),
    body=st.binary(max_size=60),
)
def test_a_waiting_caller_gets_an_answer_to_anything(name, query, body):
    for content_type in ("application/json", "application/x-www-form-urlencoded"):
        request = WebhookRequest("POST", f"/webhooks/{name}/x", query, {"content-type": content_type}, body, PUBLIC_URL, NOW)
        answer = PROVIDERS[name].answer(Kind.VOICE, request)
        assert 200 <= answer.status < 300
        assert bool(answer.body) == bool(answer.content_type)


@pytest.mark.parametrize("name", list(carriers.CASES))
def test_the_largest_nonsense_is_refused_within_50_ms(name):
    headers = dict.fromkeys(carriers.HEADERS, "A" * 4000) | {
        "content-type": "application/json",
        "authorization": "Bearer " + "." * 4000,
    }
    for body in (b"{" * 250_000, b'{"a":' + b'"' + b"\xff" * 200_000 + b'"}', b"a=%FF&" * 40_000, b"a=%FF&" * 400):
        for content_type in ("application/json", "application/x-www-form-urlencoded"):
            request = WebhookRequest("POST", f"/webhooks/{name}/x", "", headers | {"content-type": content_type}, body, PUBLIC_URL, NOW)
            begun = time.process_time()
            with pytest.raises(Refused):
                PROVIDERS[name].verify(request)
            assert time.process_time() - begun < 0.05

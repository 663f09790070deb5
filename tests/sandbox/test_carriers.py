"""Requests made up for Plivo, Vonage, SignalWire and CallRail are genuine to the bridge, and about calls that nobody has heard of."""

from __future__ import annotations

import random

import pytest

from bridge.providers import registry
from bridge.providers.base import Heard, Sender
from bridge.sandbox import carriers
from bridge.sandbox.phone import sample, sample_names
from tests.providers.carriers import CASES
from tests.providers.support import NOW, PUBLIC_URL, received, settings

PLAYED = ("plivo", "vonage", "signalwire", "callrail")
SETTINGS = settings(**{name: text for one in PLAYED for name, text in CASES[one].environment.items()})
PROVIDERS = registry.build(SETTINGS)
LATER = NOW + 86_400
SAMPLES = [(provider, name) for provider in PLAYED for name in sample_names(provider)]


def new_sample(provider, name, *, seed=1, **where):
    return carriers.new_sample(provider, SETTINGS.value, PUBLIC_URL, name, now=LATER, rng=random.Random(seed), **where)


def heard(provider, delivery):
    request = received(delivery, now=LATER, public_url=PUBLIC_URL)
    outcome = PROVIDERS[provider].parse(request, PROVIDERS[provider].verify(request))
    assert isinstance(outcome, Heard)
    return outcome


@pytest.mark.parametrize(("provider", "name"), SAMPLES)
def test_a_new_sample_is_proven_and_another_call(provider, name):
    first, second = (heard(provider, new_sample(provider, name, seed=seed)) for seed in (1, 2))
    recorded = PROVIDERS[provider].parse(received(sample(provider, name)), Sender())
    assert len({first.call.key, second.call.key, recorded.call.key}) == 3
    assert (first.call.caller, first.call.status, first.kind) == (recorded.call.caller, recorded.call.status, recorded.kind)


@pytest.mark.parametrize("provider", ["plivo", "signalwire"])
def test_the_signature_is_for_the_address_that_the_bridge_believes_to_have(provider):
    name = sample_names(provider)[0]
    delivery = carriers.new_sample(
        provider, SETTINGS.value, "http://127.0.0.1:8000", name, now=LATER, rng=random.Random(1), signed_url=PUBLIC_URL
    )
    assert delivery.url.startswith("http://127.0.0.1:8000/webhooks/")
    assert heard(provider, delivery)


@pytest.mark.parametrize(
    ("provider", "body"),
    [
        ("plivo", b"CallUUID=1"),
        ("vonage", b'{"conversation_uuid": "1"}'),
        ("signalwire", b"CallSid=1"),
        ("signalwire", b'{"call": {"call_id": "1"}}'),
        ("callrail", b'{"resource_id": "1"}'),
    ],
)
def test_any_body_can_be_signed(provider, body):
    assert heard(provider, carriers.sign(provider, SETTINGS.value, PUBLIC_URL, body, now=LATER)).call.root_id == "1"


def test_telnyx_cannot_be_played():
    with pytest.raises(KeyError):
        carriers.sign("telnyx", SETTINGS.value, PUBLIC_URL, b"{}", now=NOW)

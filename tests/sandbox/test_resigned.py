"""Samples and scenarios are accepted by the adapters they are made for, and each is about a new call."""

from __future__ import annotations

import random

import pytest

from bridge.call import Status
from bridge.providers import registry
from bridge.providers.base import Heard, Ignored
from bridge.sandbox import phone, resigned, scenarios
from tests.providers.support import PUBLIC_URL, SECRET, TOKEN, settings

PROVIDERS = registry.build(settings(TWILIO_AUTH_TOKEN=TOKEN, GENERIC_SECRET=SECRET))
SAMPLES = [(provider, name) for provider in PROVIDERS for name in phone.sample_names(provider)]
LOOPBACK = "http://127.0.0.1:8000"


def line_of(provider, url=PUBLIC_URL, public_url=PUBLIC_URL):
    return resigned.line_of(provider, {"twilio": TOKEN, "generic": SECRET}[provider], url, public_url, random.Random(1))


def heard(provider, delivery, public_url=PUBLIC_URL):
    request = scenarios.as_request(delivery, public_url)
    return PROVIDERS[provider].parse(request, PROVIDERS[provider].verify(request))


@pytest.mark.parametrize(("provider", "name"), SAMPLES)
def test_sample_is_signed_anew_and_names_a_new_call(provider, name):
    rng, line = random.Random(1), line_of(provider)
    one, other = (heard(provider, resigned.new_sample(line, name, rng)) for _ in range(2))
    assert isinstance(one, Ignored) or one.call.key != other.call.key


@pytest.mark.parametrize("provider", PROVIDERS)
def test_bridge_behind_a_proxy_is_sent_what_its_public_url_signs(provider):
    base = "https://bridge.example.com/base"
    delivery = scenarios.new_visit(line_of(provider, LOOPBACK, base), random.Random(1)).ringing
    assert delivery.url.startswith(f"{LOOPBACK}/webhooks/{provider}")
    assert isinstance(heard(provider, delivery, base), Heard)
    through_proxy = scenarios.new_visit(line_of(provider, base, base), random.Random(1)).ringing
    assert isinstance(heard(provider, through_proxy, base), Heard)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("scenario", scenarios.SCENARIOS)
def test_scenario_is_about_inbound_calls_that_end(provider, scenario):
    plan = scenarios.SCENARIOS[scenario](line_of(provider), random.Random(1), None)
    events = [heard(provider, one) for batch in plan for one in batch.deliveries]
    ended = {one.call.key for one in events if one.call.status is Status.COMPLETED}
    assert ended == {one.call.key for one in events}


def test_storm_is_as_many_calls_as_asked_for():
    plan = scenarios.storm(line_of("twilio"), random.Random(1), 7)
    assert len({heard("twilio", one).call.key for batch in plan for one in batch.deliveries}) == 7


def test_forged_delivery_has_no_call_key():
    forger = phone.TwilioPhone(PUBLIC_URL, "forged")
    delivery = scenarios.new_visit(forger, random.Random(1)).ringing
    assert scenarios.call_key_of(delivery, PROVIDERS["twilio"], PUBLIC_URL) is None


def test_provider_that_cannot_be_played_is_an_error():
    with pytest.raises(KeyError):
        resigned.line_of("carrier-pigeon", "", PUBLIC_URL, PUBLIC_URL, random.Random(1))

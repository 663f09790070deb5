"""Samples and scenarios are accepted by the adapters they are made for, and each is about a new call."""

from __future__ import annotations

import random

import pytest

from bridge.call import Status
from bridge.providers import registry
from bridge.providers.base import Heard, Ignored
from bridge.sandbox import phone, resigned, scenarios
from tests.providers import carriers
from tests.providers.support import PUBLIC_URL, SECRET, TOKEN, settings
from tests.providers.test_contract import CASES

SETTINGS = settings(TWILIO_AUTH_TOKEN=TOKEN, GENERIC_SECRET=SECRET)
PROVIDERS = registry.build(SETTINGS)
EVERYTHING = settings(**{name: text for case in CASES.values() for name, text in case.environment.items()})
EVERYBODY = registry.build(EVERYTHING)
RECORDED = [provider for provider in registry.PROVIDERS if provider not in PROVIDERS]
SAMPLES = [(provider, name) for provider in PROVIDERS for name in phone.sample_names(provider)]
LOOPBACK = "http://127.0.0.1:8000"


def line_of(provider, url=PUBLIC_URL, public_url=PUBLIC_URL):
    value = (SETTINGS if provider in PROVIDERS else EVERYTHING).value
    return resigned.line_of(provider, value, url, public_url, random.Random(1), telnyx_seed=carriers.TELNYX_KEY.private_bytes_raw())


def heard(provider, delivery, public_url=PUBLIC_URL):
    request = scenarios.as_request(delivery, public_url)
    return PROVIDERS[provider].parse(request, PROVIDERS[provider].verify(request))


def understood(provider, delivery, public_url=PUBLIC_URL):
    request = scenarios.as_request(delivery, public_url)
    return EVERYBODY[provider].parse(request, EVERYBODY[provider].verify(request))


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
        resigned.line_of("carrier-pigeon", SETTINGS.value, PUBLIC_URL, PUBLIC_URL, random.Random(1))


@pytest.mark.parametrize("provider", RECORDED)
def test_each_provider_that_makes_no_calls_of_its_own_repeats_one_visit(provider):
    line = line_of(provider)
    one, other = ([understood(provider, delivery) for delivery in line.visit(random.Random(seed))] for seed in (1, 2))
    assert len({heard.call.key for heard in one}) == len({heard.call.caller.e164 for heard in one if heard.call.caller}) == 1
    assert any(heard.call.status.is_final for heard in one)
    assert one[0].call.key != other[0].call.key or provider == "3cx"  # which names a call by the second in which it began
    assert len({heard.delivery_id for heard in one if heard.delivery_id}) in {0, len(one)}


@pytest.mark.parametrize("name", phone.sample_names("telnyx"))
def test_telnyx_signs_with_the_key_pair_of_the_test(name):
    one, other = (understood("telnyx", resigned.new_sample(line_of("telnyx"), name, random.Random(seed))) for seed in (1, 2))
    assert one.call.key != other.call.key


def test_a_bridge_behind_a_proxy_is_sent_what_it_calls_itself():
    base = "https://bridge.example.com/base"
    delivery = line_of("plivo", LOOPBACK, base).visit(random.Random(1))[0]
    assert delivery.url.startswith(f"{LOOPBACK}/webhooks/plivo")
    assert isinstance(understood("plivo", delivery, base), Heard)


@pytest.mark.parametrize(
    ("provider", "name", "settings_"),
    [
        ("twilio", "", ("TWILIO_AUTH_TOKEN",)),
        ("quo", "", ("QUO_SECRET", "QUO_LEGACY_KEY")),
        ("quo", "call-completed", ("QUO_SECRET",)),
        ("quo", "legacy-call-completed", ("QUO_LEGACY_KEY",)),
        ("bandwidth", "initiate", ("BANDWIDTH_PASSWORD",)),
    ],
)
def test_the_settings_that_may_sign_are_named(provider, name, settings_):
    assert resigned.signing_settings(provider, name) == settings_

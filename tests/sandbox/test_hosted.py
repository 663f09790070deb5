"""Requests made up for the hosted phone systems are genuine to the bridge, and about calls that nobody has heard of."""

from __future__ import annotations

import random

import pytest

from bridge.providers import registry
from bridge.providers.base import Heard, Sender
from bridge.sandbox import hosted
from bridge.sandbox.phone import sample, sample_names
from tests.providers.hosted_cases import ENVIRONMENT
from tests.providers.support import NOW, PUBLIC_URL, received, settings

LATER = NOW + 86_400
SAMPLES = [(provider, name) for provider in ENVIRONMENT for name in sample_names(provider)]


def heard(provider, delivery, *, now=LATER):
    adapter = registry.build(settings(**ENVIRONMENT[provider]))[provider]
    request = received(delivery, now=now)
    outcome = adapter.parse(request, adapter.verify(request))
    assert isinstance(outcome, Heard)
    return outcome.call


def renewed(provider, name, seed=1):
    value = settings(**ENVIRONMENT[provider]).value
    return hosted.new_sample(provider, value, PUBLIC_URL, name, now=LATER, rng=random.Random(seed))


def test_there_is_a_signer_for_each_provider_with_a_case_here():
    assert {name.split()[0] for name in hosted._SIGNERS} == set(ENVIRONMENT)


@pytest.mark.parametrize(("provider", "name"), SAMPLES)
def test_a_sample_made_new_is_genuine_and_another_call(provider, name):
    old = registry.build(settings(**ENVIRONMENT[provider]))[provider].parse(received(sample(provider, name)), Sender()).call
    new = heard(provider, renewed(provider, name))
    assert new.key != old.key
    assert (new.caller, new.status, new.dialled) == (old.caller, old.status, old.dialled)


@pytest.mark.parametrize(("provider", "name"), [sampled for sampled in SAMPLES if sampled[0] != "3cx"])
def test_each_time_it_is_yet_another_call(provider, name):
    assert heard(provider, renewed(provider, name, 1)).key != heard(provider, renewed(provider, name, 2)).key


def test_the_first_of_several_secrets_signs():
    value = settings(DIALPAD_SECRET=ENVIRONMENT["dialpad"]["DIALPAD_SECRET"] + " " + "x" * 32).value
    delivery = hosted.sign("dialpad", value, PUBLIC_URL, b'{"call_id": 1}', now=NOW)
    assert heard("dialpad", delivery).root_id == "1"


def test_a_provider_that_is_not_here_is_a_key_error():
    with pytest.raises(KeyError):
        hosted.sign("twilio", str, PUBLIC_URL, b"", now=NOW)

"""Every recorded vector has the verdict that the providers' own libraries gave it."""

from __future__ import annotations

import json

import pytest

from bridge.errors import Refused
from bridge.providers import registry
from bridge.providers.base import Heard, Ignored
from bridge.sandbox.phone import Delivery
from tests.providers.support import OLD_SECRET, SECRET, SHARED_KEY, SHARED_KEY_ID, TOKEN, VECTORS, received, settings

PROVIDERS = registry.build(
    settings(TWILIO_AUTH_TOKEN=TOKEN, TWILIO_SHARED_KEYS=json.dumps({SHARED_KEY_ID: SHARED_KEY}), GENERIC_SECRET=f"{SECRET},{OLD_SECRET}")
)


def request_of(vector):
    return received(Delivery(vector["method"], vector["url"], vector["headers"], vector["body"].encode()), now=vector["now"])


@pytest.mark.parametrize("vector", [vector for vector in VECTORS if vector["valid"]], ids=lambda vector: vector["id"])
def test_a_genuine_request_is_proven_and_read(vector):
    provider, request = PROVIDERS[vector["provider"]], request_of(vector)
    outcome = provider.parse(request, provider.verify(request))
    if "-x-" in vector["id"] and "CallSid" not in vector["body"] and "call_id" not in vector["body"]:
        assert outcome == Ignored("no call id", outcome.kind)
    else:
        assert isinstance(outcome, Heard)


@pytest.mark.parametrize("vector", [vector for vector in VECTORS if not vector["valid"]], ids=lambda vector: vector["id"])
def test_a_request_that_was_tampered_with_is_refused(vector):
    with pytest.raises(Refused) as refusal:
        PROVIDERS[vector["provider"]].verify(request_of(vector))
    assert refusal.value.status == 403


def test_the_vectors_are_all_there():
    assert len(VECTORS) == 57
    assert sum(vector["valid"] for vector in VECTORS) == 43

"""A caller's name becomes the name of a contact, so what phone systems write where they know none is no name, whoever sends it."""

from __future__ import annotations

import pytest

from bridge.providers import registry
from bridge.providers.base import Heard
from bridge.sandbox.phone import Delivery
from tests.providers import hosted_cases
from tests.providers.support import received
from tests.providers.test_contract import ADAPTERS, CALL, CASES

WITHOUT_NAMES = {"vonage", "bandwidth", "quo"}  # they tell none
OF_ADDRESS_BOOKS = {"aircall"}  # what the owner wrote there is a name


def of_ringcentral(name: str) -> Delivery:
    told = hosted_cases.ringcentral(CALL, "Setup")
    told["body"]["parties"][0]["from"]["name"] = name
    return hosted_cases.signed("ringcentral", told)


NAMED = {
    "twilio": lambda name: CASES["twilio"].started(CallerName=name),
    "generic": lambda name: CASES["generic"].started(caller_name=name),
    "telnyx": lambda name: CASES["telnyx"].started(CallerId=name),
    "plivo": lambda name: CASES["plivo"].started(CallerName=name),
    "signalwire": lambda name: CASES["signalwire"].started(CallerName=name),
    "callrail": lambda name: CASES["callrail"].started(customer_name=name),
    "3cx": lambda name: CASES["3cx"].started(Name=name),
    "asterisk": lambda name: CASES["asterisk"].started(callerid_name=name),
    "dialpad": lambda name: CASES["dialpad"].started(contact={"name": name}),
    "ringcentral": of_ringcentral,
}


def name_in(provider: str, delivery: Delivery) -> str | None:
    heard = ADAPTERS[provider].parse(received(delivery), ADAPTERS[provider].verify(received(delivery)))
    assert isinstance(heard, Heard)
    assert heard.call.caller.e164 == "+15550101234"
    return heard.call.caller_name


def test_every_provider_that_tells_names_is_asked() -> None:
    assert set(NAMED) | WITHOUT_NAMES | OF_ADDRESS_BOOKS == set(registry.PROVIDERS)


@pytest.mark.parametrize("provider", NAMED)
@pytest.mark.parametrize("word", ["Anonymous", "UNKNOWN", "Restricted", "+15550101234", "(555) 010-1234", "15550101234", " ", "-"])
def test_what_is_no_name_is_not_told(provider, word) -> None:
    assert name_in(provider, NAMED[provider](word)) is None


@pytest.mark.parametrize("provider", NAMED)
@pytest.mark.parametrize("name", ["JANE DOE", "José Ñandú", "Anonymous Coffee Ltd", "3M Company"])
def test_a_name_is_told_as_it_is(provider, name) -> None:
    assert name_in(provider, NAMED[provider](name)) == name

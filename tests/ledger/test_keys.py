"""The catalogue of keys: wire format between versions, and no personal data in any name."""

from __future__ import annotations

import re

from bridge.ledger import keys
from tests.support.builders import PHONE


def test_the_names_of_keys_never_change() -> None:
    assert keys.of_call("twilio-CA1") == ("cb:entry:twilio-CA1", "cb:trail:twilio-CA1", "cb:raw:twilio-CA1", "cb:repeats:twilio-CA1")
    assert keys.shelf("unread") == ("cb:ignored:unread", "cb:ignored:unread:raw", "cb:ignored:unread:bytes")
    assert keys.no_lead("twilio-CA1") == "cb:no-lead:twilio-CA1"
    assert keys.state_index("accepted") == "cb:index:state:accepted"
    assert (keys.BORN, keys.ALL, keys.DUE, keys.COUNT, keys.IGNORED, keys.SWEEPER) == (
        "cb:born",
        "cb:index:all",
        "cb:index:due",
        "cb:count",
        "cb:ignored",
        "cb:sweeper",
    )


def test_no_number_stands_in_the_name_of_a_claim() -> None:
    name = keys.claim("loc1", PHONE)
    assert re.fullmatch(r"cb:claim:loc1:[0-9a-f]{32}", name)
    assert PHONE.strip("+") not in name


def test_each_caller_and_location_has_a_claim_of_its_own() -> None:
    assert len({keys.claim("loc1", PHONE), keys.claim("loc2", PHONE), keys.claim("loc1", "+15550105678")}) == 3


def test_every_key_stands_in_the_catalogue() -> None:
    catalogue = keys.__doc__ or ""
    names = [value for name, value in vars(keys).items() if name.isupper() and isinstance(value, str) and value.startswith("cb:")]
    built = ["cb:entry:<", "cb:trail:<", "cb:raw:<", "cb:repeats:<", "cb:index:state:<", "cb:claim:<", "cb:ignored:<", "cb:no-lead:<"]
    assert all(f"`{name}" in catalogue for name in names + built)

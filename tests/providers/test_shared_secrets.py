"""Tokens and passwords: what is configured, and what is compared."""

from __future__ import annotations

import pytest

from bridge.errors import Refused, WrongSettings
from bridge.providers import shared_secrets
from tests.providers.support import settings

NAME = "AIRCALL_WEBHOOK_TOKEN"
FIRST, SECOND = "first-secret-made-up", "second-secret-made-up"


def configured(text, **more):
    return shared_secrets.listed(settings(**{NAME: text}), NAME, **more)


@pytest.mark.parametrize("text", [f"{FIRST} {SECOND}", f"{FIRST},{SECOND}", f" {FIRST} ,\n{SECOND},"])
def test_several_secrets_are_separated_by_spaces_or_commas(text):
    assert configured(text) == (FIRST, SECOND)


@pytest.mark.parametrize("text", [" , ", "short", f"{FIRST} short"])
def test_a_secret_that_could_be_tried_out_is_refused_at_start(text):
    with pytest.raises(WrongSettings, match=f"{NAME}: .* of 12 characters or more") as fault:
        configured(text)
    assert FIRST not in str(fault.value)


def test_a_scheme_may_demand_longer_ones():
    with pytest.raises(WrongSettings, match="of 32 characters or more"):
        configured(FIRST, shortest=32)


@pytest.mark.parametrize(("given", "is_one"), [(FIRST, True), (SECOND, True), (FIRST[:-1], False), ("", False), ("é\ud800", False)])
def test_only_a_whole_secret_counts(given, is_one):
    assert shared_secrets.is_one_of(given, (FIRST, SECOND)) is is_one


@pytest.mark.parametrize(("given", "status"), [("", 401), ("wrong", 403)])
def test_a_refusal_names_the_setting_or_the_place_and_no_secret(given, status):
    with pytest.raises(Refused) as refusal:
        shared_secrets.prove(given, (FIRST,), what="The token", setting=NAME)
    assert refusal.value.status == status
    assert "The token" in str(refusal.value)
    assert FIRST not in str(refusal.value)
    assert (NAME in str(refusal.value)) is (status == 403)


def test_a_known_secret_is_proven():
    assert shared_secrets.prove(SECOND, (FIRST, SECOND), what="The token", setting=NAME) is None

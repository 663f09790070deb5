"""Nested JSON: what is not there, or is something else, is empty."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from bridge.providers import documents

DOCUMENT = {"a": {"b": {"c": "1"}}, "list": [{"x": "1"}, "no", None], "null": None, "text": "", "no": False}


def test_a_part_is_found_through_several_names():
    assert documents.part(DOCUMENT, "a", "b") == {"c": "1"}
    assert documents.part(DOCUMENT) == DOCUMENT


@pytest.mark.parametrize("names", [("z",), ("a", "z"), ("list",), ("text", "b"), ("a", "b", "c"), ("null", "b")])
def test_what_is_no_object_is_an_empty_one(names):
    assert documents.part(DOCUMENT, *names) == {}


def test_members_are_the_objects_of_a_list():
    assert documents.members(DOCUMENT, "list") == [{"x": "1"}]
    assert documents.members(DOCUMENT, "a") == documents.members(DOCUMENT, "z") == []


def test_null_is_not_told_and_everything_else_is():
    assert [documents.is_told(DOCUMENT, name) for name in ("null", "z", "text", "no", "a")] == [False, False, True, True, True]


@pytest.mark.parametrize(
    ("value", "address"),
    [("https://x/", "https://x/"), (" http://x ", "http://x"), ("ftp://x", None), ("", None), (None, None), ([], None)],
)
def test_a_web_address_is_http(value, address):
    assert documents.web_address(value) == address


@pytest.mark.parametrize("value", ["1768489445000", "1768489445000.5", "1768489445999"])
def test_milliseconds_are_an_instant(value):
    assert documents.instant_of_ms(value) == datetime(2026, 1, 15, 15, 4, 5, tzinfo=UTC)


@pytest.mark.parametrize("value", ["1768489445", "", None, "soon", "-1768489445000", "9" * 30])
def test_what_is_no_time_in_milliseconds_is_none(value):
    assert documents.instant_of_ms(value) is None


@pytest.mark.parametrize(
    ("value", "seconds"), [("94000.0", 94), ("999", 0), ("463.294", 0), (None, None), ("", None), ("-1", None), ("1e9", None)]
)
def test_a_duration_in_milliseconds_is_whole_seconds(value, seconds):
    assert documents.seconds_of_ms(value) == seconds

"""Query arguments to filters, and back."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.console import filters
from bridge.console.filters import Sought, WrongFilter


def read(**arguments: str):
    return filters.read(arguments, region="US", zone=UTC)


def test_a_day_is_as_long_as_it_is_there() -> None:
    chicago = ZoneInfo("America/Chicago")
    lengths = {}
    for day in ("2026-03-07", "2026-03-08", "2026-11-01"):
        wanted = filters.read({"day": day}, region="US", zone=chicago)
        lengths[day] = ((wanted.until or 0) - (wanted.since or 0)) / 3600
    assert lengths == {"2026-03-07": 24, "2026-03-08": 23, "2026-11-01": 25}


def test_a_number_is_found_by_any_spelling() -> None:
    assert {read(dialled=text).dialled for text in ("+15550109999", "(555) 010-9999", "555.010.9999")} == {"+15550109999"}


@pytest.mark.parametrize(
    "wrong", [{"state": "x"}, {"cause": "x"}, {"last4": "12a4"}, {"last4": "12345"}, {"day": "29.11.2026"}, {"day": "9999-12-31"}]
)
def test_a_wrong_value_names_what_is_allowed(wrong: dict[str, str]) -> None:
    with pytest.raises(WrongFilter, match=" is "):
        read(**wrong)


def test_empty_fields_of_a_form_are_no_filter() -> None:
    assert filters.kept({"state": "done", "cause": "", "dialled": "  ", "cursor": "x", "q": "y"}) == {"state": "done"}


@given(st.dictionaries(st.sampled_from(filters.NAMES), st.text(max_size=40)))
def test_no_query_breaks_the_page(arguments: dict[str, str]) -> None:
    with suppress(WrongFilter):
        assert filters.read(arguments, region="US", zone=UTC).indices()


@given(st.floats(allow_nan=False, allow_infinity=False), st.text("abcXYZ09-_", max_size=60))
def test_a_cursor_leads_back_to_its_place(at: float, call_key: str) -> None:
    assert filters.read_cursor(filters.cursor((at, call_key)) or "") == (at, call_key)


@given(st.text(max_size=40))
def test_a_made_up_cursor_is_refused_and_no_more(text: str) -> None:
    with suppress(WrongFilter):
        assert filters.read_cursor(text) is None or text


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("1234", Sought(last4="1234")),
        ("twilio-CA1", Sought(call_key="twilio-CA1", contact="twilio-CA1")),
        (" ocQHyuzHvysMo5N5VsXc ", Sought(contact="ocQHyuzHvysMo5N5VsXc")),
        ("(202) 555-0143", Sought(phone="+12025550143")),
        ("Zebulon Quartermaine", Sought()),
        ("", Sought()),
    ],
)
def test_the_search_box_takes_whatever_somebody_has_at_hand(text: str, meant: Sought) -> None:
    assert filters.sought(text, region="US") == meant

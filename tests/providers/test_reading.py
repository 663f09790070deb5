"""Forms, JSON, times and durations from strangers."""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import unquote_to_bytes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.providers import reading


def test_a_form_keeps_order_repeats_blanks_and_bytes():
    fields = reading.form_fields(b"b=1&a=&b=2&c&d=x+y%2B%E9&&=")
    assert fields == [(b"b", b"1"), (b"a", b""), (b"b", b"2"), (b"c", b""), (b"d", b"x y+\xe9"), (b"", b"")]


@given(st.text("%4fFg+ é", max_size=20).map(str.encode) | st.binary(max_size=20))
def test_escapes_are_read_as_the_standard_library_reads_them(sent):
    value = sent.replace(b"&", b"")
    assert reading.form_fields(b"a=" + value) == [(b"a", unquote_to_bytes(value.replace(b"+", b" ")))]


@pytest.mark.parametrize(("sent", "stored"), [("A\x00B", "AB"), ("x\ud83d", "x\ufffd"), ("Jos\u00e9", "Jos\u00e9")])
def test_text_becomes_storable(sent, stored):
    assert reading.clean(sent) == stored


def test_json_numbers_keep_their_digits():
    assert reading.json_object(b'{"a": 12025550143, "b": 2.02555e9, "c": NaN, "d": "001"}') == {
        "a": "12025550143",
        "b": "2.02555e9",
        "c": "NaN",
        "d": "001",
    }


@pytest.mark.parametrize("body", [b"", b"[1]", b'"x"', b"{", b"[" * 200_000, b"1" * 10_000])
def test_what_is_no_json_object_is_none(body):
    assert reading.json_object(body) is None


def test_json_in_another_encoding_is_read_with_replacements():
    assert reading.json_object(b'\xef\xbb\xbf{"name": "Ren\xe9"}') == {"name": "Ren\ufffd"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Sun, 05 Jul 2026 04:05:00 +0000", datetime(2026, 7, 5, 4, 5, tzinfo=UTC)),
        ("Sat, 04 Jul 2026 23:05:00 -0500", datetime(2026, 7, 5, 4, 5, tzinfo=UTC)),
        ("2026-07-04T23:05:00-05:00", datetime(2026, 7, 5, 4, 5, tzinfo=UTC)),
        ("2026-07-05T04:05:00Z", datetime(2026, 7, 5, 4, 5, tzinfo=UTC)),
        ("2026-07-05T04:05:00", datetime(2026, 7, 5, 4, 5, tzinfo=UTC)),
        ("1783224300", datetime(2026, 7, 5, 4, 5, tzinfo=UTC)),
        ("soon", None),
        ("", None),
        (None, None),
        ("0001-01-01T00:00:00+23:59", None),
        # What a field shows that was never set, and what no calendar of ours could show:
        ("0001-01-01T00:00:00Z", None),
        ("1970-01-01T00:00:00Z", None),
        ("100000000", None),
        ("9999-12-31T23:59:59Z", None),
        ("2099-12-31T23:59:59Z", datetime(2099, 12, 31, 23, 59, 59, tzinfo=UTC)),
    ],
)
def test_an_instant_is_in_utc_or_not_told(text, expected):
    assert reading.instant(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("94", 94), ("94.7", 94), (" 0 ", 0), ("-1", None), ("\u0661", None), ("9" * 20, None), (None, None), ([], None)]
)
def test_a_duration_is_whole_seconds_or_not_told(text, expected):
    assert reading.seconds(text) == expected


@given(st.text() | st.binary().map(lambda raw: raw.decode("utf-8", "replace")))
def test_no_text_breaks_a_reader(text):
    found = reading.instant(text)
    assert found is None or found.tzinfo is UTC
    assert reading.seconds(text) is None or reading.seconds(text) >= 0


def test_what_an_event_says_does_not_depend_on_order():
    assert reading.canonical("x", [("b", "1"), ("a", "2")]) == reading.canonical("x", [("a", "2"), ("b", "1")])
    assert reading.canonical("x", [("a", "1"), ("a", "2")]) != reading.canonical("x", [("a", "2"), ("a", "1")])
    assert reading.canonical("x", {"b": 1, "a": {"d": 1, "c": 2}}) == reading.canonical("x", {"a": {"c": 2, "d": 1}, "b": 1})
    assert reading.canonical("x", {}) != reading.canonical("y", {})

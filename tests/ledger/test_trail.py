"""The lines that tell the story of a call."""

from __future__ import annotations

import json

from bridge.ledger.trail import line


def test_a_line_is_one_json_object_without_what_is_unknown() -> None:
    written = line(12.34567, "attempt ended", attempt=1, outcome="again", trace_id=None).to_json()
    assert "\n" not in written
    assert json.loads(written) == {"at": 12.346, "what": "attempt ended", "attempt": 1, "outcome": "again"}


def test_a_fact_that_is_false_or_zero_is_told() -> None:
    assert json.loads(line(1.0, "x", created=False, deaths=0).to_json()) == {"at": 1.0, "what": "x", "created": False, "deaths": 0}


def test_a_line_that_holds_line_breaks_stays_one_line() -> None:
    assert "\n" not in line(1.0, "x", message="a\nb").to_json()

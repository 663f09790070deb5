"""The first page shows what the phone systems list against what the ledger has; a difference is red and names the calls."""

from __future__ import annotations

from datetime import UTC, datetime

from bridge.intake import daily
from bridge.intake.daily import Sum


def first_page(site, *sums: Sum) -> str:
    daily.keep(site.parts.connection, sums)
    return site.browser("vera").page("/console")


def today(site) -> str:
    return datetime.fromtimestamp(site.store.clock.now(), UTC).date().isoformat()


def test_a_sum_that_comes_out_is_shown_calmly(site):
    page = first_page(site, Sum(today(site), "twilio", 3, leads=2, without_lead={"withheld": 1}))
    assert "3 listed" in page
    assert "<p><b>twilio</b>" in page


def test_a_difference_is_red_and_names_the_calls(site):
    page = first_page(site, Sum(today(site), "twilio", 3, leads=2, missing=("twilio-CA9",)))
    assert '<p class="bad"><b>twilio</b>' in page
    assert "twilio-CA9" in page
    assert "backfill" in page


def test_without_a_list_there_is_no_sum(site):
    assert "The daily sum" not in first_page(site)

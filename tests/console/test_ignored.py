"""The page of what made no call: why, and what came, for owners."""

from __future__ import annotations

import json
import re

import pytest

from bridge.ledger import keys
from bridge.ledger.ignored import DROPPED
from tests.console.support import Browser, Site

AT = 1_795_978_175


def keep(site: Site, number: int, reason: str, *, is_understood: bool = False, **more: object) -> None:
    document = {"at": AT + number, "method": "POST", "path": f"/webhooks/twilio/n{number}", **more}
    site.store.keep_ignored(json.dumps(document), reason, is_understood=is_understood)


def shown(page: str) -> list[int]:
    return [int(number) for number in re.findall(r'<span class="muted">POST /webhooks/twilio/n(\d+)</span>', page)]


def older(page: str) -> str | None:
    found = re.search(r'rel="next" href="([^"]+)"', page)
    return found[1].replace("&amp;", "&") if found else None


def test_owners_see_what_could_not_be_understood_each_with_its_reason(site: Site, owner: Browser) -> None:
    keep(site, 1, "no call id", body="Gar=bage")
    keep(site, 2, "outbound call", is_understood=True)
    page = owner.page("/console/ignored")
    assert shown(page) == [1]
    assert re.search(r"<summary>[^<]*no call id <span", page)
    assert "Gar=bage" in page
    assert "outbound call" in page, "the reasons of all are counted"
    assert shown(owner.page("/console/ignored?kind=other")) == [2]


def test_all_of_them_can_be_reached_newest_first(site: Site, owner: Browser) -> None:
    for number in range(120):
        keep(site, number, "no call id")
    seen, path = [], "/console/ignored"
    while path:
        page = owner.page(path)
        seen += shown(page)
        path = older(page)
    assert seen == list(range(119, -1, -1))


def test_a_reason_is_a_filter_that_the_next_page_keeps(site: Site, owner: Browser) -> None:
    for number in range(120):
        keep(site, number, "no call id" if number % 2 else "could not be read: KeyError")
    first = owner.page("/console/ignored?kind=unread&reason=no+call+id")
    assert shown(first) == list(range(119, 19, -2))
    assert shown(owner.page(older(first) or "")) == list(range(19, 0, -2))


def test_what_was_dropped_is_told(site: Site, owner: Browser) -> None:
    assert "before their time" not in owner.page("/console/ignored")
    site.parts.connection.hset(keys.COUNT, DROPPED, "1234")
    assert "1,234 that could not be understood went before their time" in owner.page("/console/ignored")


@pytest.mark.parametrize("query", ["kind=none", "cursor=x", "cursor=WzFd"])
def test_an_address_that_no_page_gave_is_answered_with_what_is_allowed(owner: Browser, query: str) -> None:
    answer = owner.get(f"/console/ignored?{query}")
    assert answer.status_code == 400
    assert "This filter cannot be read" in answer.text


def test_events_of_the_version_before_are_shown(site: Site, owner: Browser) -> None:
    site.parts.connection.lpush(keys.IGNORED, json.dumps({"at": AT, "method": "POST", "path": "/webhooks/twilio/n7", "body": "old=1"}))
    page = owner.page("/console/ignored")
    assert shown(page) == [7]
    assert "old=1" in page

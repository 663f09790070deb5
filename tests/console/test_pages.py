"""What the pages show, to whom, and what they never show."""

from __future__ import annotations

import html
import json
import re
import time
from dataclasses import replace
from datetime import UTC

import pytest

from bridge.call import Input, Recording, Transcript
from bridge.console.site import LocationZone
from bridge.crm.base import Location
from bridge.crm.location_cache import LocationCache
from bridge.ledger import keys, moves
from bridge.ledger.store import Change
from bridge.sandbox.ghl import GhlStandIn
from tests.console.support import NUMBERS, Browser, Site
from tests.support.builders import ANONYMOUS

NAME = "Zebulon Quartermaine"
SECRETS = {NAME, NAME.upper(), "4111111111111111", "My name is Zebulon", "Metropolis"}


def rich_call(site: Site, number: int = 0) -> str:
    """A call that knows everything that a caller may have told, and whose contact GoHighLevel refuses in words that name the caller."""
    facts = {
        "caller_name": NAME,
        "city": "Metropolis",
        "inputs": (Input("digits", "4111111111111111"), Input("speech", "My name is Zebulon")),
        "recordings": (Recording("RE1", "https://api.example.com/RE1"),),
        "transcripts": (Transcript("TR1", "My name is Zebulon"),),
    }
    said = json.dumps({"message": f"phone {NUMBERS[number]} of {NAME.upper()} is taken"})
    fault = site.ghl.add_fault("plain_text", status=400, text=said, method="POST", path="/contacts/")
    call_key = site.accept(number, **facts)
    site.run(call_key)
    site.ghl.remove_fault(fault)
    return call_key


def reachable(browser: Browser) -> dict[str, str]:
    """Every page that links and forms of the first one lead to, by its address."""
    seen: dict[str, str] = {}
    waiting = ["/console"]
    while waiting:
        path = waiting.pop()
        if path in seen or "/static/" in path or not path.startswith("/console") or len(seen) > 80:
            continue
        answer = browser.get(path)
        assert answer.status_code in {200, 302}, path
        seen[path] = answer.text + str(answer.headers)
        waiting += [html.unescape(found) for found in re.findall(r'(?:href|data-live)="([^"#]+)"', answer.text)]
        waiting += [answer.headers["Location"]] if "Location" in answer.headers else []
    return seen


@pytest.mark.parametrize("name", ["vera", "otto"])
def test_no_page_shows_a_number_or_a_name_unless_it_is_revealed(site: Site, name: str) -> None:
    rich_call(site, 0)
    site.run(site.accept(1, caller_name=NAME))
    site.accept(2, caller=replace(ANONYMOUS, raw="+266696687"))
    pages = reachable(site.browser(name))
    assert len(pages) > 8
    for path, text in pages.items():
        shown = [secret for secret in SECRETS | {*NUMBERS, "15550109999", "+15550109999", "266696687"} if secret in text]
        assert not shown, (path, shown)
        assert not re.search(r"\+1\d{10}", text), path


def test_two_versions_of_a_call_can_be_compared_and_only_a_reveal_shows_their_numbers(site: Site, operator: Browser) -> None:
    call_key = site.accept(3)
    known = site.entry(call_key).facts
    assert known.caller is not None
    site.take(replace(known, caller=replace(known.caller, raw=NUMBERS[4], e164=NUMBERS[4]), dialled="+15550108888"))
    there = f"/console/calls/{call_key}"
    assert "another caller, +…04 and another number called, +…88" in operator.page(there)
    assert NUMBERS[4] not in operator.page(there)
    clear = operator.send(f"{there}/reveal", there).text
    assert f"another caller, {NUMBERS[4]} and another number called, +15550108888" in clear


def test_a_long_reason_is_no_headline(site: Site, operator: Browser) -> None:
    call_key, reason = site.park(0), "They rang again, and spoke to Bert. " * 12
    site.desk.close(call_key, by="otto", reason=reason, seen=None)
    assert '<p class="big">Closed by hand by otto.</p>' in operator.page(f"/console/calls/{call_key}")
    for path in ("/console/calls", f"/console/calls/{call_key}"):
        assert "They rang again" in operator.page(path), path


def test_pages_say_whose_time_they_tell(site: Site, viewer: Browser) -> None:
    call_key = site.park(0)
    assert "Times are in UTC." in viewer.page("/console")
    site.parts.crm.location()
    for path in ("/console", "/console/calls", "/console/attention", f"/console/calls/{call_key}"):
        assert "Times are those of America/Chicago." in viewer.page(path), path


def test_times_do_not_jump_to_utc_and_back_while_the_location_is_read_anew(site: Site) -> None:
    cache = LocationCache(site.parts.connection, life_s=0.05)
    zone = LocationZone(cache, "a location")
    assert zone() is UTC
    cache.put(Location("a location", allows_duplicates=False, timezone="Asia/Kolkata"))
    assert str(zone()) == "Asia/Kolkata"
    while cache.get("a location"):
        time.sleep(0.01)
    assert str(zone()) == "Asia/Kolkata"


@pytest.mark.parametrize("anonymous", ["ignore", "lead"])
def test_a_caller_without_a_number_is_said_to_be_searched_for_nowhere(redis_url: str, ghl: GhlStandIn, anonymous: str) -> None:
    site = Site(redis_url, ghl, ANONYMOUS=anonymous)
    page = site.browser("otto").page(f"/console/calls/{site.park(0, caller=ANONYMOUS)}/replay")
    assert "searched for again" not in page
    assert ("Nothing is left to do: the caller withheld the number." in page) is (anonymous == "ignore")
    assert ("there is nobody to search for" in page) is (anonymous == "lead")
    site.close()


def test_a_reveal_shows_all_and_is_written_down(site: Site, operator: Browser) -> None:
    call_key = rich_call(site, 3)
    page = operator.send(f"/console/calls/{call_key}/reveal", f"/console/calls/{call_key}").text
    assert {secret for secret in SECRETS if secret in page} == SECRETS
    assert NUMBERS[3] in page
    assert "a caller" in page, "the raw event"
    assert site.store.trail(call_key)[-1]["what"] == "revealed"
    assert site.store.trail(call_key)[-1]["by"] == "otto"
    assert NUMBERS[3] not in operator.page(f"/console/calls/{call_key}")


def test_what_callers_say_cannot_write_into_a_page(site: Site, owner: Browser) -> None:
    call_key = site.fail(0, caller_name="<script>alert(1)</script>", raw_status='"><img src=x onerror=alert(1)>')
    site.store.keep_ignored('{"at": 1, "method": "POST", "path": "<script>alert(2)</script>"}', "<b>bold</b>")
    shown = [
        owner.send(f"/console/calls/{call_key}/reveal", f"/console/calls/{call_key}").text,
        owner.page(f"/console/calls/{call_key}"),
        owner.page("/console/ignored"),
        owner.page("/console/calls?provider=<script>alert(3)</script>"),
        owner.get("/console/calls?state=<script>").text,
    ]
    for page in shown:
        assert "<script>" not in page
        assert "<img src=x" not in page
        assert "<b>bold" not in page


# ---- Today


def test_the_first_page_says_that_all_is_well(site: Site, viewer: Browser) -> None:
    site.employ()
    site.run(site.accept(0))
    page = viewer.page("/console")
    assert "All is well" in page
    assert "Nothing needs you" in page
    assert re.search(r"<b>1</b> call today", page)
    assert re.search(r"<b>1</b> lead", page)


def test_the_first_page_says_what_is_wrong_with_the_deployment_first(site: Site, viewer: Browser) -> None:
    site.fail(0)
    assert "no worker listens" in viewer.page("/console")


def test_the_first_page_shows_the_oldest_waiting_call_against_its_promise(site: Site, viewer: Browser) -> None:
    site.employ()
    first = site.accept(0)
    site.accept(1)
    site.parts.connection.zincrby(keys.owed("calls"), -600, first)
    page = viewer.page("/console")
    assert f"/console/calls/{first}" in page
    assert "has waited for 10 min" in page
    assert "1 call waits longer than promised." in page


def test_the_live_part_is_the_same_page_without_its_frame(site: Site, viewer: Browser) -> None:
    site.fail(0)
    assert "<html" not in viewer.page("/console/live")
    assert "needed attention" in viewer.page("/console/live")
    assert site.browser().get("/console/live", headers={"X-Live": "1"}).status_code == 401


# ---- Calls


def listed(page: str) -> list[str]:
    return re.findall(r'class="row" href="/console/calls/([^"]+)"', page)


def test_calls_stand_newest_first_and_pages_follow_by_cursor(site: Site, viewer: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridge.console.pages.PAGE", 3)
    made = [site.accept(number) for number in range(7)]
    found, path = [], "/console/calls"
    while path:
        page = viewer.page(path)
        found += listed(page)
        more = re.search(r'rel="next" href="([^"]+)"', page)
        path = html.unescape(more[1]) if more else ""
    assert found == made[::-1]


def test_calls_are_filtered_by_everything_that_is_known(site: Site, viewer: Browser) -> None:
    failed, done = site.fail(0), site.accept(1, provider="telnyx", dialled="+15550105555")
    contact = site.run(done).contact_id
    wanted = {
        "state=needs_attention": [failed],
        "cause=permanent": [failed],
        "owner=anna": [failed],
        "provider=telnyx": [done],
        "dialled=%2B15550105555": [done],
        "dialled=555-010-5555": [done],
        "dialled=%2B15550100000": [],
        f"contact={contact}": [done],
        f"last4={NUMBERS[1][-4:]}": [done],
        f"like={failed}": [failed],
        "location=elsewhere": [],
        "day=2020-01-01": [],
        "state=done&provider=telnyx&last4=" + NUMBERS[1][-4:]: [done],
    }
    for query, expected in wanted.items():
        assert listed(viewer.page(f"/console/calls?{query}")) == expected, query


def test_a_list_says_how_many_there_are_where_that_costs_nothing(site: Site, viewer: Browser) -> None:
    for number in range(3):
        site.accept(number)
    assert ">3 calls<" in viewer.page("/console/calls")
    assert ">3 calls<" not in viewer.page("/console/calls?provider=twilio&state=accepted")


@pytest.mark.parametrize(
    ("provider", "own_id"), [("twilio", "CA53ed"), ("telnyx", "v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4pqg")]
)
def test_a_call_is_found_by_the_id_that_stands_in_the_phone_systems_own_log(
    site: Site, viewer: Browser, provider: str, own_id: str
) -> None:
    call_key = site.accept(0, provider=provider, root_id=own_id)
    assert viewer.send("/console/search", "/console/calls", q=f" {own_id} ").headers["Location"] == f"/console/calls/{call_key}"


def test_a_filter_is_told_in_the_words_of_its_form(viewer: Browser) -> None:
    page = viewer.page("/console/calls?state=needs_attention&cause=exhausted")
    assert "state: needs attention, cause: every try of the budget has failed" in page


def test_the_form_of_the_filters_leads_to_a_short_address(viewer: Browser) -> None:
    answer = viewer.get("/console/calls?state=done&cause=&provider=&dialled=&last4=")
    assert answer.headers["Location"] == "/console/calls?state=done"


@pytest.mark.parametrize("query", ["state=gone", "cause=gone", "last4=12", "day=today", "cursor=x", "like=nobody"])
def test_a_filter_that_cannot_be_read_is_explained(viewer: Browser, query: str) -> None:
    answer = viewer.get(f"/console/calls?{query}")
    assert answer.status_code == 400
    assert "This filter cannot be read" in answer.text


def search(browser: Browser, text: str):
    return browser.send("/console/search", "/console/calls", q=text)


def test_the_search_finds_a_call_by_whatever_somebody_has_at_hand(site: Site, operator: Browser) -> None:
    call_key = site.accept(0)
    contact = site.run(call_key).contact_id
    found = {
        call_key: f"/console/calls/{call_key}",
        NUMBERS[0][-4:]: f"/console/calls?last4={NUMBERS[0][-4:]}",
        NUMBERS[0]: f"/console/calls?like={call_key}",
        "(202) 555-0100": f"/console/calls?like={call_key}",
        str(contact): f"/console/calls?contact={contact}",
        "+1 555 010 9999": "/console/calls?dialled=%2B15550109999",
    }
    for text, there in found.items():
        assert search(operator, text).headers["Location"] == there
    search(operator, "nobody")
    assert "Nothing was found" in operator.page("/console/calls")


def test_an_empty_ledger_says_what_to_do(viewer: Browser) -> None:
    assert "No call has come in yet" in viewer.page("/console/calls")
    assert "No call fits this filter" in viewer.page("/console/calls?state=done")
    assert "Nothing needs you" in viewer.page("/console/attention")


# ---- One call


def test_a_call_tells_its_story(site: Site, viewer: Browser) -> None:
    call_key = site.fail(0)
    site.store.count_repeat(call_key, site.entry(call_key).events[0].fingerprint)
    page = viewer.page(f"/console/calls/{call_key}")
    for text in (
        "Needs attention: it was refused, and no retry mends that.",
        "GHL_TOKEN lacks a scope",
        "The call came in (status).",
        "Attempt 1 began.",
        "trace ",
        "1 delivery, and 1 repeated",
    ):
        assert text in page, text


def test_a_call_links_to_its_contact(site: Site, viewer: Browser) -> None:
    entry = site.run(site.accept(0))
    page = viewer.page(f"/console/calls/{entry.call_key}")
    assert f'href="https://app.gohighlevel.com/v2/location/{entry.location_id}/contacts/detail/{entry.contact_id}"' in page


def test_a_conflict_shows_what_the_other_delivery_said(site: Site, viewer: Browser) -> None:
    site.accept(0)
    other = replace(site.entry("twilio-CA0").facts.caller, raw=NUMBERS[9], e164=NUMBERS[9])
    site.take(replace(site.entry("twilio-CA0").facts, caller=other))
    page = viewer.page("/console/calls/twilio-CA0")
    assert "named another caller" in page
    assert NUMBERS[9] not in page


def test_a_call_that_is_forgotten_is_explained(viewer: Browser) -> None:
    answer = viewer.get("/console/calls/twilio-CA404")
    assert answer.status_code == 404
    assert "The call has been forgotten" in answer.text


def test_every_line_of_a_trail_has_its_sentence(site: Site) -> None:
    """Whatever the code writes into a trail is told in words of its own, not by its bare word."""
    from bridge.console.present import _STORY
    from tests.rules.tree import python_files, text

    written = set()
    for path in python_files("bridge", "handlers"):
        written |= set(re.findall(r'line\(\s*[\w.]*now,\s*"([a-z ,]+)"', text(path) or ""))
        written |= set(re.findall(r'facts, "(note \w+)"', text(path) or ""))
    assert len(written) > 10
    assert written <= set(_STORY), f"bridge/console/present.py has no sentence for {written - set(_STORY)}"


def test_times_are_those_of_the_location(site: Site, viewer: Browser) -> None:
    site.run(site.accept(0))
    at = 1_795_978_175.0  # 2026-11-29 18:49:35 UTC, 12:49:35 in Chicago
    site.store.change("twilio-CA0", lambda entry, _: Change(replace(moves.renew(entry, at, lease_s=1), lease_until=None, accepted_at=at)))
    assert "12:49:35" in viewer.page("/console/calls/twilio-CA0")

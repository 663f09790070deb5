"""The console as people use it: a phone in the hand, a failed call, and what they may not do."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import DESKTOP, Person, Served
from tests.console.support import NUMBERS


def test_a_failed_call_is_found_understood_replayed_and_seen_to_be_done(person: Person, served: Served) -> None:
    call_key = served.site.fail(1)
    page = person.log_in("otto")
    expect(page.get_by_text("1 call needs attention; everything else is well.")).to_be_visible()
    page.get_by_role("link", name="The token is not authorized for this scope").click()
    expect(page.get_by_text("GHL_TOKEN lacks a scope: add contacts.write")).to_be_visible()
    page.get_by_role("link", name="Replay …").click()
    expect(page.get_by_role("heading", name="Replay: what it would do")).to_be_visible()
    expect(page.get_by_text("Find or create the lead")).to_be_visible()
    assert served.site.entry(call_key).state == "needs_attention", "looking has sent nothing"
    page.get_by_role("button", name="Replay now").click()
    expect(page.get_by_text("Done: a new lead was made.")).to_be_visible()
    expect(page.get_by_role("link", name="Contact ")).to_be_visible()
    page.get_by_role("link", name="Today", exact=True).click()
    expect(page.get_by_text("Nothing needs you.")).to_be_visible()
    assert len(served.site.ghl.truth.contacts(NUMBERS[1])) == 1


def test_the_first_page_shows_a_new_failure_without_being_loaded_again(person: Person, served: Served) -> None:
    page = person.log_in("vera")
    expect(page.get_by_text("Nothing needs you.")).to_be_visible()
    served.site.fail(2)
    expect(page.get_by_text("1 call needs attention; everything else is well.")).to_be_visible()


def test_a_viewer_reads_everything_and_is_offered_nothing(person: Person, served: Served) -> None:
    call_key = served.site.fail(3)
    page = person.log_in("vera")
    for path in ("/console/attention", f"/console/calls/{call_key}", "/console/calls"):
        person.go(path)
        assert NUMBERS[3] not in page.content()
        expect(page.get_by_role("button", name="Show number and raw events")).to_have_count(0)
        expect(page.get_by_text("Replay")).to_have_count(0)
    assert page.goto(f"{served.url}/console/calls/{call_key}/replay").status == 403
    expect(page.get_by_role("heading", name="Not with your role")).to_be_visible()
    person.complaints[:] = [one for one in person.complaints if "403" not in one]  # Chromium reports the status that was just asked for


def test_an_operator_sees_the_number_once_and_the_story_tells_it(person: Person, served: Served) -> None:
    call_key = served.site.fail(4)
    page = person.log_in("otto")
    person.go(f"/console/calls/{call_key}")
    assert NUMBERS[4] not in page.content()
    page.get_by_role("button", name="Show number and raw events").click()
    expect(page.get_by_role("heading", name=f"Call from {NUMBERS[4]}")).to_be_visible()
    expect(page.get_by_text("otto looked at the number and the raw events.")).to_be_visible()
    person.go(f"/console/calls/{call_key}")
    assert NUMBERS[4] not in page.content()


@pytest.mark.parametrize("person", [{"viewport": DESKTOP, "java_script_enabled": False}], indirect=True)
def test_everything_works_without_javascript(person: Person, served: Served) -> None:
    call_key = served.site.fail(5)
    page = person.log_in("otto")
    page.get_by_role("link", name="Needs attention").click()
    page.get_by_role("link", name=f"Replay {call_key}").click()
    page.get_by_role("button", name="Replay now").click()
    page.wait_for_url(f"**/calls/{call_key}")
    expect(page.get_by_text("The call is put back")).to_be_visible()


def test_a_page_can_be_used_from_the_keyboard(person: Person, served: Served) -> None:
    served.site.fail(6)
    page = person.log_in("otto")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="What you can do")).to_be_visible()


SCHEMES = [{"color_scheme": "light"}, {"color_scheme": "dark", "viewport": DESKTOP}]


@pytest.mark.parametrize("person", SCHEMES, indirect=True, ids=["light phone", "dark desktop"])
def test_axe_finds_nothing_on_any_page(person: Person, served: Served, axe_source: str) -> None:
    site = served.site
    failed, done = site.fail(7), site.accept(8)
    site.run(done)
    page = person.go("/console/login")
    faults = violations(page, axe_source)
    person.log_in("olga")
    paths = ["", "/calls", "/calls?provider=none", "/attention", "/ignored", "/all/replay", f"/calls/{failed}", f"/calls/{failed}/replay"]
    for path in [*paths, f"/calls/{done}"]:
        person.go(f"/console{path}")
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        faults += violations(page, axe_source)
    assert not faults, "\n".join(faults)


def violations(page, source: str) -> list[str]:
    """What axe finds, against WCAG 2.2 AA and its own best practice."""
    page.evaluate(source)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    return [f"{page.url}: {one['id']} {one['help']} {[node['html'][:120] for node in one['nodes']][:3]}" for one in found]


@pytest.mark.parametrize("person", [{"viewport": {"width": 320, "height": 700}}], indirect=True)
def test_nothing_is_wider_than_a_small_phone(person: Person, served: Served) -> None:
    failed = served.site.fail(9)
    page = person.log_in("olga")
    for path in ("", "/calls", "/attention", f"/calls/{failed}", f"/calls/{failed}/replay", "/all/replay", "/ignored"):
        person.go(f"/console{path}")
        assert page.evaluate("document.documentElement.scrollWidth") <= 320, path

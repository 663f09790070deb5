"""The console as people use it: a phone in the hand, a failed call, and what they may not do."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from bridge.console import bulk
from tests.browser.conftest import DESKTOP, Person, Served
from tests.console.support import NUMBERS


def test_a_failed_call_is_found_understood_replayed_and_seen_to_be_done(person: Person, served: Served) -> None:
    call_key = served.site.fail(1)
    page = person.log_in("otto")
    expect(page.get_by_text("1 call needs attention; everything else is well.")).to_be_visible()
    page.get_by_role("link", name="The token is not authorized for this scope").click()
    expect(page.get_by_text("GHL_TOKEN lacks a scope: add contacts.write")).to_be_visible()
    page.get_by_role("link", name="Replay …").click()
    expect(page.get_by_role("heading", name="Replay this call?")).to_be_visible()
    expect(page.get_by_text("A replay would find or create the lead, tag the lead, write the call's note.")).to_be_visible()
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
        for role in ("link", "button"):  # what to do first may well be said to them, and holds the word
            expect(page.get_by_role(role, name="Replay")).to_have_count(0)
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


def test_a_bulk_action_that_one_request_cannot_finish_goes_on_by_itself(
    person: Person, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "SLICE_S", 0.0)
    monkeypatch.setattr(bulk, "BATCH", 2)
    parked = [served.site.park(number) for number in range(5)]
    page = person.log_in("otto")
    person.go("/console/attention")
    page.get_by_text("Act on all of these at once").click()
    page.get_by_role("link", name="Close all …").click()
    page.get_by_label("Reason, kept with each call").fill("they were rung back")
    page.get_by_role("button", name="Close them").click()
    expect(page.get_by_text("2 of 5 so far")).to_be_visible()
    expect(page.get_by_text("5 calls are closed.")).to_be_visible()
    assert {served.site.entry(call_key).closed_by for call_key in parked} == {"otto"}

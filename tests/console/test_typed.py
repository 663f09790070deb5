"""What people type: kept as it reads, refused where it reads as nothing, and taken for what was meant."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bridge.console import typed
from bridge.ledger.entry import State
from tests.console.support import NUMBERS, Browser, Site, flashed
from tests.console.test_replay_command import replay

UNSEEN = {
    "nothing": "",
    "blanks": " \t\n\u00a0\u3000",
    "no width": "\u200b\u2060\ufeff",
    "a direction": "\u202e\u2066\u200f",
    "a bell and a null": "\a\0",
    "joiners alone": "\u200d \u200c",
}


@pytest.mark.parametrize("text", UNSEEN.values(), ids=UNSEEN)
def test_what_nobody_can_see_is_no_reason_and_no_owner(site: Site, operator: Browser, text: str) -> None:
    call_key = site.fail(0)
    there = f"/console/calls/{call_key}"
    operator.send(f"{there}/close", there, reason=text)
    assert "Type a reason" in flashed(operator)
    operator.send(f"{there}/assign", there, owner=text)
    assert "Name the person" in flashed(operator)
    entry = site.entry(call_key)
    assert (entry.state, entry.owner) == (State.NEEDS_ATTENTION, "anna")


@given(st.text(max_size=60))
@example("0\r\ud7fc\r0")
def test_no_typed_text_changes_how_the_text_beside_it_reads(text: str) -> None:
    told = typed.legible(text)
    assert not {unicodedata.category(char) for char in told} & {"Cc", "Cs"}
    assert not [char for char in told if unicodedata.bidirectional(char) in {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}]
    assert typed.legible(told) == told


@pytest.mark.parametrize("text", ["می‌خواهم", "👩‍👧 rang", "שלום", "naïve"])
def test_what_is_seen_stays_in_every_script(text: str) -> None:
    assert typed.legible(f"  {text}\u202e ") == text


# ---- Contacts


def of_page(site: Site, contact_id: str) -> str:
    return f"https://app.gohighlevel.com/v2/location/{site.settings.ghl_location_id}/contacts/detail/{contact_id}"


@pytest.mark.parametrize(
    "spell",
    [
        lambda _site, one: f" {one}\n",
        of_page,
        lambda site, one: of_page(site, one).replace("app.gohighlevel.com", "crm.agency.example") + "?view=note#top",
    ],
)
def test_a_contact_is_known_by_its_id_and_by_the_address_of_its_page(
    site: Site, operator: Browser, spell: Callable[[Site, str], str]
) -> None:
    call_key = site.fail(0)
    known = site.ghl.add_contact(phone="+12025550999")
    operator.send(f"/console/calls/{call_key}/adopt", f"/console/calls/{call_key}", contact_id=spell(site, known.id))
    assert site.entry(call_key).contact_id == known.id


GARBAGE = ["", "..", "../../locations/x", "x" * 300, "😀", "a b", "%2F", "<b>", "\0"]


@pytest.mark.parametrize("text", GARBAGE)
def test_what_is_no_contact_id_is_sent_to_nobody(site: Site, operator: Browser, text: str) -> None:
    call_key = site.fail(0)
    site.ghl.configure(token_state="revoked")  # who asks, hears it
    operator.send(f"/console/calls/{call_key}/adopt", f"/console/calls/{call_key}", contact_id=text)
    assert "This is no contact id" in flashed(operator)
    assert site.entry(call_key).state is State.NEEDS_ATTENTION


def test_a_contact_of_another_location_is_refused_by_name(site: Site, operator: Browser) -> None:
    call_key = site.fail(0)
    elsewhere = "https://app.gohighlevel.com/v2/location/elsewhere/contacts/detail/abc"
    operator.send(f"/console/calls/{call_key}/adopt", f"/console/calls/{call_key}", contact_id=elsewhere)
    assert "a contact of the location elsewhere" in flashed(operator)


def test_a_silent_gohighlevel_confirms_no_contact_and_the_page_says_so_in_words(site: Site, operator: Browser) -> None:
    call_key = site.fail(0)
    site.ghl.configure(token_state="revoked")
    operator.send(f"/console/calls/{call_key}/adopt", f"/console/calls/{call_key}", contact_id="abc")
    told = flashed(operator)
    assert "did not confirm the contact" in told
    assert "`" not in told, "names of requests stand between quotation marks, as elsewhere"


# ---- The search


@pytest.mark.parametrize("text", ["\u0660\u0661\u0660\u0660", "\uff10\uff11\uff10\uff10", "\u202d0100\u202c", "0100\u200b"])
def test_digits_are_digits_in_every_script(site: Site, operator: Browser, text: str) -> None:
    site.accept(0)
    assert operator.send("/console/search", "/console/calls", q=text).headers["Location"] == "/console/calls?last4=0100"


def test_a_phone_system_is_found_however_its_name_is_written(site: Site, operator: Browser) -> None:
    call_key = site.accept(0)
    assert call_key in operator.page("/console/calls?provider=Twilio")


# ---- The command


def test_who_runs_the_command_is_told_to_viewers_without_a_number(site: Site, viewer: Browser) -> None:
    call_key = site.fail(0)
    replay(site, call_key, by=f"bert {NUMBERS[0]}\u202e")
    page = viewer.page(f"/console/calls/{call_key}")
    assert "bert +…00 put the call back" in page
    assert NUMBERS[0] not in page


def test_the_command_runs_where_its_user_has_no_name(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    call_key = site.fail(0)

    def nameless() -> str:
        raise KeyError("getpwuid(): uid not found: 1000710000")

    monkeypatch.setattr("getpass.getuser", nameless)
    assert replay(site, call_key, by=None).exit_code == 0
    assert site.store.trail(call_key)[-1]["by"] == "flask replay"


@pytest.mark.parametrize("text", UNSEEN.values(), ids=UNSEEN)
def test_an_unseen_reason_is_none_for_the_command_either(site: Site, text: str) -> None:
    call_key = site.park(0, at=site.store.clock.now() - 9 * 86_400)
    for arguments in ((call_key,), ("--all",)):
        assert replay(site, *arguments, "--reason", text).exit_code == 1
        assert site.entry(call_key).state is State.NEEDS_ATTENTION


def test_half_a_character_in_an_option_takes_no_page_down(site: Site, viewer: Browser) -> None:
    """A terminal that is not set to UTF-8 sends such things."""
    call_key = site.fail(0)
    assert replay(site, call_key, "--reason", "mended\udcff").exit_code == 0
    assert replay(site, "twilio-\udcff").exit_code == 1
    assert "mended" in viewer.page(f"/console/calls/{call_key}")


def test_a_call_that_is_named_twice_is_replayed_once(site: Site) -> None:
    call_key = site.fail(0)
    done = replay(site, call_key, call_key, "--json")
    assert (done.exit_code, len(json.loads(done.output)["calls"])) == (0, 1)

"""What people do to calls: looked at first, carried out once, written down."""

from __future__ import annotations

import re

import pytest

from bridge.console.actions import Desk
from bridge.intake.replay import FRESH_S
from bridge.ledger import keys
from bridge.ledger.entry import State
from tests.console.support import NUMBERS, Browser, Site, flashed


def one(call_key: str, action: str = "") -> str:
    return f"/console/calls/{call_key}" + (f"/{action}" if action else "")


def last(site: Site, call_key: str) -> dict:
    return site.store.trail(call_key)[-1]


# ---- Replay


def test_looking_at_a_replay_changes_nothing_here_or_there(site: Site, operator: Browser) -> None:
    call_key = site.fail(0)
    before, requests = site.entry(call_key), len(site.ghl.truth.contacts(NUMBERS[0]))
    page = operator.page(one(call_key, "replay"))
    assert "Nothing has been sent" in page
    assert "accepts the token" in page
    assert site.entry(call_key) == before
    assert len(site.ghl.truth.contacts(NUMBERS[0])) == requests


def test_a_replay_makes_the_lead_and_the_trail_says_who(site: Site, operator: Browser) -> None:
    call_key = site.fail(0)
    operator.send(one(call_key, "replay"), one(call_key, "replay"), reason="the scope is added")
    assert (last(site, call_key)["by"], last(site, call_key)["reason"]) == ("otto", "the scope is added")
    assert site.settle(call_key).state is State.DONE
    assert len(site.ghl.truth.contacts(NUMBERS[0])) == 1


def test_a_page_that_is_out_of_date_never_sends_a_finished_call_again(site: Site, operator: Browser) -> None:
    call_key = site.fail(0)
    stale = re.search(r'name="seen" value="([^"]+)"', operator.page(one(call_key, "replay")))
    assert stale is not None
    operator.send(one(call_key, "replay"), one(call_key, "replay"))
    done = site.settle(call_key)
    assert done.state is State.DONE
    operator.client.post(one(call_key, "replay"), data={"seen": stale[1], "csrf_token": operator.token("/console"), "reason": "again"})
    assert "has moved on" in flashed(operator)
    assert site.entry(call_key) == done
    assert site.work() == 0


@pytest.mark.parametrize("seen", ["", "needs_attention", "done.1.1", "x" * 500])
def test_a_form_with_a_made_up_mark_is_declined(site: Site, operator: Browser, seen: str) -> None:
    call_key = site.fail(0)
    for action, fields in (("replay", {}), ("close", {"reason": "r"}), ("adopt", {"contact_id": "c"})):
        operator.client.post(one(call_key, action), data={"seen": seen, "csrf_token": operator.token("/console"), **fields})
        assert site.entry(call_key).state is State.NEEDS_ATTENTION


def test_two_operators_at_once_start_one_replay(site: Site, operator: Browser, owner: Browser) -> None:
    call_key = site.fail(0)
    for browser in (operator, owner):
        browser.get(one(call_key, "replay"))
    first = operator.send(one(call_key, "replay"), one(call_key, "replay"))
    second = owner.client.post(one(call_key, "replay"), data={"seen": "needs_attention.1.1", "csrf_token": owner.token("/console")})
    assert (first.status_code, second.status_code) == (302, 302)
    assert site.told(call_key).count("replayed") == 1


def test_an_old_call_is_replayed_with_a_reason_only(site: Site, operator: Browser) -> None:
    call_key = site.fail(0)
    site.age(call_key, FRESH_S + 86_400)
    assert "days old" in operator.page(one(call_key, "replay"))
    operator.send(one(call_key, "replay"), one(call_key, "replay"))
    assert site.entry(call_key).state is State.NEEDS_ATTENTION
    operator.send(one(call_key, "replay"), one(call_key, "replay"), reason="they still wait for our call")
    assert site.entry(call_key).waiting_for == "replay"


def test_a_cause_that_stands_is_said_and_asks_for_a_reason(site: Site, operator: Browser) -> None:
    call_key = site.fail(0)
    site.ghl.configure(token_state="revoked")
    page = operator.page(one(call_key, "replay"))
    assert "The cause still stands" in page
    assert "required" in page
    operator.send(one(call_key, "replay"), one(call_key, "replay"))
    assert site.entry(call_key).state is State.NEEDS_ATTENTION


def test_what_reading_cannot_show_is_not_said_to_be_mended(site: Site, operator: Browser) -> None:
    """A scope for writing that is still missing shows only when something is written."""
    call_key = site.fail(0)
    assert site.entry(call_key).trouble.word == "crm.401_scope"
    assert "Whether the cause itself is mended, a look cannot show" in operator.page(one(call_key, "replay"))
    site.ghl.configure(token_state="revoked")
    refused = site.accept(1)
    site.run(refused)
    site.ghl.configure(token_state="valid")
    assert "GoHighLevel answers, and accepts the token for this location." in operator.page(one(refused, "replay"))


def test_a_replay_that_has_nothing_to_do_promises_no_new_contact(site: Site, operator: Browser) -> None:
    call_key = site.accept(0)
    contact = site.run(call_key).contact_id
    site.ghl.delete(contact)
    page = operator.page(one(call_key, "replay"))
    assert "This replay does not make it again" in page
    assert "a new contact is created" not in page
    assert "a new contact is created" in operator.page(f"{one(call_key, 'replay')}?step=find_or_create_lead")
    operator.send(one(call_key, "replay"), one(call_key, "replay"), reason="to see what happens")
    assert site.settle(call_key).contact_id == contact


@pytest.mark.parametrize("tag", ["DNC", "do-not-contact", "Do_Not_Call", "opt-out", "#stop", "do not  disturb"])
def test_a_tag_that_says_do_not_contact_is_understood_however_it_is_spelt(site: Site, operator: Browser, tag: str) -> None:
    call_key = site.fail(0)
    site.ghl.add_contact(phone=NUMBERS[0], tags=(tag,))
    assert "does not want to be contacted" in operator.page(one(call_key, "replay"))


@pytest.mark.parametrize("tag", ["one-stop shop", "dnd campaign 2026", "stopped by"])
def test_a_tag_that_only_holds_such_a_word_is_none(site: Site, operator: Browser, tag: str) -> None:
    call_key = site.fail(0)
    site.ghl.add_contact(phone=NUMBERS[0], tags=(tag,))
    assert "does not want to be contacted" not in operator.page(one(call_key, "replay"))


def test_a_later_call_of_the_same_caller_is_pointed_out(site: Site, operator: Browser) -> None:
    failed = site.fail(0)
    later = site.accept(100)  # the same caller
    site.run(later)
    assert f"has been brought already: {later}" in operator.page(one(failed, "replay"))


def test_a_replay_from_the_note_writes_no_second_note(site: Site, operator: Browser) -> None:
    call_key = site.accept(0)
    contact = site.run(call_key).contact_id
    path = f"{one(call_key, 'replay')}?step=note_call"
    assert "would be done again" in operator.page(path)
    operator.send(one(call_key, "replay"), path, reason="the note was cut")
    assert list(site.entry(call_key).steps) == ["find_or_create_lead", "tag_lead"]
    assert site.settle(call_key).state is State.DONE
    assert len(site.desk.make_crm().list_notes(contact)) == 1


def test_a_step_that_does_not_exist_is_no_page(site: Site, operator: Browser) -> None:
    assert operator.get(f"{one(site.fail(0), 'replay')}?step=send_money").status_code == 404


def test_a_call_under_way_offers_no_replay(site: Site, operator: Browser) -> None:
    page = operator.page(one(site.accept(0), "replay"))
    assert "under way already" in page
    assert "Replay now" not in page


# ---- Adopt, close, assign


def test_an_adopted_contact_gets_the_note_and_no_twin_is_made(site: Site, operator: Browser) -> None:
    call_key = site.fail(0)
    known = site.ghl.add_contact(phone="+12025550999")
    operator.send(one(call_key, "adopt"), one(call_key), contact_id=known.id, reason="she rang from her work")
    entry = site.settle(call_key)
    assert (entry.state, entry.contact_id) == (State.DONE, known.id)
    assert len(site.desk.make_crm().list_notes(known.id)) == 1
    assert site.ghl.truth.contacts(NUMBERS[0]) == []
    assert "adopted" in site.told(call_key)
    again = site.accept(100)
    assert site.run(again).contact_id == known.id, "the caller's next call finds it too"


def test_a_contact_that_does_not_exist_is_not_adopted(site: Site, operator: Browser) -> None:
    call_key = site.fail(0)
    operator.send(one(call_key, "adopt"), one(call_key), contact_id="nobody")
    assert "knows no contact with this id" in flashed(operator)
    assert site.entry(call_key).state is State.NEEDS_ATTENTION


def test_a_call_is_closed_with_a_reason_that_is_kept_without_numbers(site: Site, operator: Browser) -> None:
    call_key = site.fail(0)
    operator.send(one(call_key, "close"), one(call_key), reason="")
    assert "Type a reason" in flashed(operator)
    operator.send(one(call_key, "close"), one(call_key), reason=f"rang {NUMBERS[0]} myself")
    entry = site.entry(call_key)
    assert (entry.state, entry.closed_by) == (State.DONE, "otto")
    assert NUMBERS[0] not in str(entry.reason) + str(site.store.trail(call_key))
    assert "Closed by hand by otto" in operator.page(one(call_key))


@pytest.mark.parametrize("bulk", [False, True])
def test_of_two_operators_who_adopt_at_once_the_first_one_s_contact_is_the_caller_s(
    site: Site, operator: Browser, owner: Browser, monkeypatch: pytest.MonkeyPatch, *, bulk: bool
) -> None:
    """GoHighLevel is asked about the second contact while the first is adopted: the second press is declined and changes nothing."""
    call_key = site.fail(0)
    first, second = (site.ghl.add_contact(phone=phone).id for phone in ("+12025550998", "+12025550999"))
    ask = Desk.known_contact

    def while_the_other_presses(desk: Desk, contact_id: str) -> str:
        monkeypatch.setattr(Desk, "known_contact", ask)
        operator.send(one(call_key, "adopt"), one(call_key), contact_id=first)
        return ask(desk, contact_id)

    monkeypatch.setattr(Desk, "known_contact", while_the_other_presses)
    address, page = ("/console/all/adopt", "/console/all/adopt") if bulk else (one(call_key, "adopt"), one(call_key))
    owner.send(address, page, contact_id=second)
    assert site.told(call_key).count("adopted") == 1
    assert site.settle(call_key).contact_id == first
    later = site.accept(100)  # the same caller
    assert site.run(later).contact_id == first


def test_a_story_that_lost_its_beginning_says_so(site: Site, operator: Browser) -> None:
    call_key = site.fail(0)
    assert "is not kept" not in operator.page(one(call_key))
    for _ in range(keys.TRAIL_LINES):
        site.desk.reveal(call_key, by="otto")
    assert "What happened before that is not kept: a story has 300 lines at most." in operator.page(one(call_key))


def test_a_call_is_given_to_somebody_else(site: Site, operator: Browser) -> None:
    call_key = site.fail(0)
    operator.send(one(call_key, "assign"), one(call_key), owner=" bert ")
    assert site.entry(call_key).owner == "bert"
    assert (last(site, call_key)["by"], last(site, call_key)["to"]) == ("otto", "bert")
    assert site.parts.connection.zscore(keys.index("owner", "bert"), call_key) is not None


def test_a_call_under_way_keeps_its_claim_when_somebody_adopts_for_it(site: Site, operator: Browser) -> None:
    call_key = site.accept(0)
    known = site.ghl.add_contact(phone="+12025550999")
    seen = re.search(r'data-seen="([^"]+)"', operator.page(one(call_key)))
    assert seen is not None
    fields = {"contact_id": known.id, "seen": seen[1], "csrf_token": operator.token("/console")}
    operator.client.post(one(call_key, "adopt"), data=fields)
    assert "under way" in flashed(operator)
    assert site.settle(call_key).contact_id != known.id

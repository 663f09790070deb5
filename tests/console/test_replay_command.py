"""`flask replay`: the same guards without a browser."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from bridge.commands import replay as command_file
from bridge.commands.replay import command
from bridge.console.actions import Desk
from bridge.intake.replay import FRESH_S
from bridge.ledger import by_hand, moves
from bridge.ledger.entry import Cause, Entry, State
from bridge.ledger.store import Change
from bridge.sandbox.ghl import GhlStandIn
from tests.console.support import NUMBERS, Browser, Site


def replay(site: Site, *arguments: str, by: str | None = "ops") -> Result:
    site.app.extensions["callbridge"] = site.parts
    with site.app.app_context():
        return CliRunner().invoke(command, [*arguments, *(["--by", by] if by is not None else [])])


def test_a_dry_run_says_what_would_happen_and_changes_nothing(site: Site) -> None:
    call_key = site.fail(0)
    before = site.entry(call_key)
    done = replay(site, call_key, "--dry-run")
    assert done.exit_code == 0, done.output
    assert "would do find_or_create_lead, tag_lead, note_call" in done.output
    assert site.entry(call_key) == before


def test_a_call_is_put_back_by_whoever_runs_the_command(site: Site) -> None:
    call_key = site.fail(0)
    assert replay(site, call_key, "--reason", "mended").exit_code == 0
    line = site.store.trail(call_key)[-1]
    assert (line["what"], line["by"], line["reason"]) == ("replayed", "ops", "mended")
    assert site.settle(call_key).state is State.DONE


def test_an_old_call_needs_a_reason(site: Site) -> None:
    call_key = site.fail(0)
    site.age(call_key, FRESH_S + 1)
    assert replay(site, call_key, "--dry-run").exit_code == 1
    done = replay(site, call_key, "--json")
    assert done.exit_code == 1
    declined = json.loads(done.output)["calls"][0]["declined"]
    assert "--reason" in declined
    assert "(age)" in declined
    assert "declined" in replay(site, call_key).output
    assert replay(site, call_key, "--reason", "r").exit_code == 0


def test_all_of_a_day_are_replayed_and_the_doubtful_left(site: Site) -> None:
    fresh, old = site.fail(0), site.fail(1)
    site.age(old, FRESH_S + 1)
    looked = json.loads(replay(site, "--all", "--dry-run", "--json").output)
    assert (looked["found"], looked["clean"], looked["need_reason"], looked["replayed"]) == (2, 1, 1, 0)
    done = replay(site, "--all", "--json")
    assert done.exit_code == 1, "one is left"
    told = json.loads(done.output)
    assert (told["replayed"], told["left"], told["crm"]) == (1, 1, "answers")
    assert (site.entry(fresh).state, site.entry(old).state) == (State.ACCEPTED, State.NEEDS_ATTENTION)
    assert replay(site, "--all", "--reason", "r").exit_code == 0
    assert json.loads(replay(site, "--all", "--cause", "stale", "--json").output)["found"] == 0


WRONG = {
    (): "--all",
    ("twilio-CA0", "--all"): "or give --all",
    ("--all", "--day", "today"): "2026-11-29",
    ("--all", "--from-step", "note_call"): "single calls",
    ("twilio-CA0", "--cause", "permanent"): "--cause choose among all calls",
    ("twilio-CA0", "--provider", "twilio", "--day", "2026-11-29"): "--provider and --day choose among all calls",
    ("--all", "--provider", "twillio"): "'signalwire'",
    ("--all", "--provider", ""): "'signalwire'",
    ("--all", "--cause", "stail"): "'stale'",
    ("--all", "--state", "done"): "No such option",
}


@pytest.mark.parametrize("arguments", WRONG)
def test_a_command_that_cannot_be_meant_does_nothing_and_says_what_can(site: Site, arguments: tuple[str, ...]) -> None:
    call_key = site.fail(0)
    done = replay(site, *arguments)
    assert done.exit_code == 2
    assert WRONG[arguments] in done.output
    assert site.entry(call_key).state is State.NEEDS_ATTENTION


def test_unknown_calls_and_steps_are_named(site: Site) -> None:
    assert "There is no such call." in replay(site, "twilio-CA404").output
    done = replay(site, site.fail(0), "--from-step", "send_money")
    assert done.exit_code == 1
    assert "find_or_create_lead" in done.output


# ---- Many


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of two calls."""
    monkeypatch.setattr(command_file, "PART", 2)


def test_calls_that_are_left_keep_none_behind_them_from_being_reached(site: Site, small: None) -> None:
    old, fresh = [site.park(number, at=site.store.clock.now() - FRESH_S - 60) for number in range(5)], [site.park(n) for n in range(5, 9)]
    done = replay(site, "--all", "--json")
    told = json.loads(done.stdout)
    assert (told["found"], told["replayed"], told["left"]) == (9, 4, 5)
    assert "8 looked at, " in done.stderr
    assert {site.entry(call_key).state for call_key in fresh} == {State.ACCEPTED}
    assert {site.entry(call_key).state for call_key in old} == {State.NEEDS_ATTENTION}
    assert json.loads(replay(site, "--all", "--json", "--reason", "r").stdout)["replayed"] == 5


def test_a_dry_run_goes_through_all_of_them_too(site: Site, small: None) -> None:
    for number in range(5):
        site.park(number)
    told = json.loads(replay(site, "--all", "--dry-run", "--json").stdout)
    assert (told["ok"], told["found"], told["clean"], told["left"]) == (True, 5, 5, 0)


def test_of_many_calls_some_contacts_are_looked_at_and_the_border_is_told(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command_file, "LOOKS", 2)
    for number in range(5):
        site.park(number)
    done = replay(site, "--all", "--dry-run")
    assert "The contacts of 2 calls were looked at in GoHighLevel, those of 3 were not." in done.output
    assert "looked at again right before" in done.output


@pytest.mark.parametrize("looks", [25, 1], ids=["looked at", "not looked at"])
def test_nothing_goes_to_a_contact_that_has_opted_out_unless_a_reason_answers_for_it(
    site: Site, monkeypatch: pytest.MonkeyPatch, looks: int
) -> None:
    monkeypatch.setattr(command_file, "LOOKS", looks)
    contacts = [
        site.ghl.add_contact(phone=NUMBERS[1], dnd=True),
        site.ghl.add_contact(phone=NUMBERS[2], tags=["Do Not Contact"]),
    ]
    plain, *opted_out = [site.park(number) for number in range(3)]
    told = json.loads(replay(site, "--all", "--json").stdout)
    assert told["replayed"] == (1 if looks == 25 else 3)
    for call_key in opted_out:
        entry = site.settle(call_key)
        assert entry.state is State.NEEDS_ATTENTION
        if looks == 1:
            assert entry.trouble is not None
            assert (entry.trouble.cause, entry.trouble.word) == (Cause.STALE, "replay.opted_out")
    assert site.settle(plain).state is State.DONE
    assert [site.ghl.truth.notes(contact.id) for contact in contacts] == [[], []]
    assert replay(site, "--all", "--reason", "they have asked for it").exit_code == 0
    assert {site.settle(call_key).state for call_key in opted_out} == {State.DONE}


def test_a_reason_that_was_typed_without_having_seen_it_is_none(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command_file, "LOOKS", 1)
    site.ghl.add_contact(phone=NUMBERS[1], dnd=True)
    site.park(0)
    unseen = site.park(1)
    assert replay(site, "--all", "--reason", "the outage is over").exit_code == 0
    assert site.settle(unseen).state is State.NEEDS_ATTENTION


def test_a_budget_that_is_spent_for_the_moment_stops_no_replay(redis_url: str, ghl: GhlStandIn) -> None:
    site = Site(redis_url, ghl, GHL_BURST="2")
    for number in range(3):
        site.park(number)
    assert json.loads(replay(site, "--all", "--dry-run", "--json").stdout)["looked_at"] == 1
    told = json.loads(replay(site, "--all", "--json").stdout)
    assert (told["looked_at"], told["crm"], told["replayed"]) == (0, "not asked", 3)
    site.close()


@pytest.mark.parametrize("looks", [25, 1], ids=["looked at", "not looked at"])
def test_the_console_has_the_same_guard(site: Site, operator: Browser, monkeypatch: pytest.MonkeyPatch, looks: int) -> None:
    monkeypatch.setattr(Desk.survey, "__kwdefaults__", Desk.survey.__kwdefaults__ | {"looks": looks})
    contact = site.ghl.add_contact(phone=NUMBERS[1], dnd=True)
    plain, opted_out = site.park(0), site.park(1)
    page = operator.page("/console/all/replay")
    assert ("looked at again right before its call is sent" in page) is (looks == 1)
    operator.send("/console/all/replay", "/console/all/replay")
    assert site.settle(opted_out).state is State.NEEDS_ATTENTION
    assert site.settle(plain).state is State.DONE
    assert site.ghl.truth.notes(contact.id) == []
    operator.send("/console/all/replay", "/console/all/replay", reason="they have asked for it")
    assert site.settle(opted_out).state is State.DONE
    assert len(site.ghl.truth.notes(contact.id)) == 1


# ---- What is told of single calls


def test_of_a_contact_that_is_gone_the_whole_way_is_told_that_follows(site: Site) -> None:
    call_key = site.fail(0)
    site.store.change(call_key, lambda entry, _: Change(worked_on(entry, "nobody")))
    done = replay(site, call_key, "--dry-run")
    assert done.exit_code == 1
    assert "would do find_or_create_lead, tag_lead, note_call" in done.output
    assert "The caller is searched for anew; if nothing is found, a new contact is created." in done.output
    assert replay(site, call_key, "--reason", "it was merged").exit_code == 0
    assert site.settle(call_key).state is State.DONE


def worked_on(entry: Entry, contact_id: str) -> Entry:
    return moves.adopt(moves.record(entry, by_hand.FIND, entry.accepted_at - 3600, version=1), contact_id, created=True)


def test_a_later_call_that_was_brought_is_told_though_the_newest_has_failed(site: Site) -> None:
    first, second = site.fail(0), site.accept(100)
    site.run(second)
    contact = site.entry(second).contact_id
    site.park(200)
    done = replay(site, first, "--dry-run", "--json")
    (later,) = [check for check in json.loads(done.output)["calls"][0]["checks"] if check["name"] == "later"]
    assert contact is not None
    assert second in later["say"]

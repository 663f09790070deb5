"""`flask replay`: the same guards without a browser."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from bridge.commands.replay import command
from bridge.intake.replay import FRESH_S
from bridge.ledger.entry import State
from tests.console.support import Site


def replay(site: Site, *arguments: str) -> Result:
    site.app.extensions["callbridge"] = site.parts
    with site.app.app_context():
        return CliRunner().invoke(command, [*arguments, "--by", "ops"])


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
    assert "reason" in json.loads(done.output)["calls"][0]["declined"]
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


@pytest.mark.parametrize("arguments", [(), ("twilio-CA0", "--all"), ("--all", "--day", "today"), ("--all", "--from-step", "note_call")])
def test_a_command_that_says_too_little_does_nothing(site: Site, arguments: tuple[str, ...]) -> None:
    call_key = site.fail(0)
    assert replay(site, *arguments).exit_code == 2
    assert site.entry(call_key).state is State.NEEDS_ATTENTION


def test_unknown_calls_and_steps_are_named(site: Site) -> None:
    assert "There is no such call." in replay(site, "twilio-CA404").output
    done = replay(site, site.fail(0), "--from-step", "send_money")
    assert done.exit_code == 1
    assert "find_or_create_lead" in done.output

"""`simulate` against a running bridge: what is sent, what became of it, and where it never sends to."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from flask import Flask

from app import build_parts
from bridge.call import Call
from bridge.commands import simulate
from bridge.ledger.entry import Attempt, Entry, State
from bridge.providers import registry
from bridge.sandbox import scenarios
from bridge.sandbox.deployment import Deployment
from bridge.settings import load
from tests.providers import carriers
from tests.providers.hosted_cases import ENVIRONMENT

NOW = 1_768_489_445.0
DOCS = Path(__file__).parents[2] / "docs"
RECORDED = tuple(name for name in registry.PROVIDERS if name not in simulate.WITH_SCENARIOS)
SECRETS = {name: text for case in carriers.CASES.values() for name, text in case.environment.items()}
SECRETS |= {name: text for environment in ENVIRONMENT.values() for name, text in environment.items()}
TELNYX_SEED = carriers.TELNYX_KEY.private_bytes_raw().hex()
ENTRY = Entry(
    call_key="twilio-CA1",
    facts=Call(provider="twilio", account="", root_id="CA1"),
    location_id="l",
    owner="o",
    accepted_at=NOW,
    last_event_at=NOW,
)


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    with Deployment(tmp_path_factory.mktemp("simulate"), workers=1, environment=SECRETS | {"GHL_BURST": "1000"}) as running:
        running.ghl.configure(burst=1000)  # all these calls shall not wait for the request budget
        yield running


def flask_app(environment):
    app = Flask("simulate")
    app.extensions["callbridge"] = build_parts(load(environment, registry.SETTINGS))
    return app


def invoke(app, *arguments):
    with app.app_context():
        try:
            return CliRunner().invoke(simulate.command, arguments)
        finally:
            app.extensions["callbridge"].connection.close()


@pytest.fixture
def run(deployment):
    return partial(invoke, flask_app(deployment.settings))


@pytest.mark.parametrize("provider", simulate.WITH_SCENARIOS)
def test_new_caller_becomes_a_lead(run, deployment, provider):
    said = run(provider)
    assert said.exit_code == 0, said.output
    *deliveries, call = said.output.splitlines()
    assert len(deliveries) == 4
    assert all(line.startswith("20") and f"POST /webhooks/{provider}/" in line for line in deliveries)
    key, became = call.split("  ")
    assert became == f"done, contact {deployment.bridge.call(key)['contact_id']}"


@pytest.mark.parametrize("provider", RECORDED)
def test_every_other_phone_system_has_a_visit_that_becomes_a_lead(run, deployment, provider):
    said = run(provider, "--json", *(["--telnyx-seed", TELNYX_SEED] if provider == "telnyx" else []))
    assert said.exit_code == 0, said.output
    told = json.loads(said.output)
    assert told["deliveries"]
    assert [(call["state"], call["call_key"].startswith(f"{provider}-")) for call in told["calls"]] == [("done", True)]
    assert deployment.bridge.call(told["calls"][0]["call_key"])["contact_id"]


def test_count_is_how_many_visits_there_are(run):
    said = run("plivo", "--count", "2", "--json")
    assert len(json.loads(said.output)["calls"]) == 2


def test_only_those_with_calls_of_their_own_play_scenarios(run):
    said = run("plivo", "--scenario", "storm")
    assert said.exit_code == 2
    assert "twilio and generic" in said.output


@pytest.mark.parametrize(
    ("arguments", "exit_code", "says"),
    [
        ([], 1, "secrets.token_hex(32)"),
        (["--telnyx-seed", "12ad"], 2, "64 hex digits"),
        (["--telnyx-seed", "no hex"], 2, "64 hex digits"),
        (["--telnyx-seed", "03" * 32], 1, carriers._public(carriers.TELNYX_STRANGE_KEY)),
    ],
)
def test_telnyx_is_played_with_a_key_pair_of_one_s_own_and_the_command_says_how(run, arguments, exit_code, says):
    said = run("telnyx", *arguments)
    assert said.exit_code == exit_code
    assert says in said.output


def test_either_key_of_quo_will_do(deployment):
    environment = {name: value for name, value in deployment.settings.items() if name != "QUO_SECRET"}
    legacy = invoke(flask_app(environment), "quo")
    assert legacy.exit_code == 0, legacy.output
    assert "/webhooks/quo/legacy" in legacy.output
    versioned = invoke(flask_app(environment), "quo", "--sample", "call-completed")
    assert versioned.exit_code == 1
    assert "QUO_SECRET is not set" in versioned.output


def test_a_proxy_of_the_environment_is_not_asked_for_a_bridge_on_this_machine(run, deployment, monkeypatch):
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{deployment.redis.port}")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    said = run("callrail")
    assert said.exit_code == 0, said.output


@pytest.mark.parametrize("page", sorted((DOCS / "providers").glob("*.md")), ids=lambda page: page.stem)
def test_every_command_on_the_page_of_a_phone_system_works(run, page):
    commands = re.findall(r"flask --app app simulate ([^`\n#]*)", page.read_text("utf-8"))
    assert commands, "a section `Try it` with a `flask --app app simulate` is missing"
    for command in dict.fromkeys(map(str.strip, commands)):
        assert page.stem not in registry.PROVIDERS or command.split()[0] == page.stem
        said = run(*command.replace("$seed", TELNYX_SEED).split())
        assert said.exit_code == 0, f"{command}: {said.output}"


@pytest.mark.parametrize("scenario", simulate.SCENARIOS[1:])
def test_scenario_ends_well_and_is_told_as_json(run, deployment, scenario):
    said = run("twilio", "--scenario", scenario, "--json", *(["--count", "3"] if scenario == "storm" else []))
    told = json.loads(said.output)
    assert (said.exit_code, told["ok"]) == (0, True)
    assert {call["state"] for call in told["calls"]} == {"done"}
    assert len(told["calls"]) == {"storm": 3, "twice-at-once": 2}.get(scenario, 1)
    assert deployment.ghl.counts()["duplicates"] == {}


def test_sample_is_sent_as_often_as_asked_for_and_waits_for_its_call_to_end(run):
    said = run("twilio", "--sample", "voice-inbound", "--count", "2")
    assert said.exit_code == 0, said.output
    assert said.output.count("200  POST /webhooks/twilio/voice") == 2
    assert said.output.count("because the call is still going on") == 2


def test_sample_that_is_no_call_of_ours_is_said_to_be_none(run):
    said = run("twilio", "--sample", "studio-http")
    assert said.exit_code == 0, said.output
    assert "202" in said.output or "204" in said.output


def test_names_of_samples_are_listed(run):
    assert "call-started" in run("generic", "--sample", "list").output.splitlines()


def test_unknown_sample_says_which_there_are(run):
    said = run("generic", "--sample", "no-such")
    assert said.exit_code == 2
    assert "call-started" in said.output


def test_loopback_bridge_is_sent_what_the_public_url_signs(deployment):
    app = flask_app(deployment.settings | {"PUBLIC_URL": "https://bridge.example.com"})
    said = invoke(app, "twilio", "--url", deployment.url, "--wait", "0")
    assert said.exit_code == 1
    assert said.output.startswith("403  POST /webhooks/twilio/voice"), "this bridge was started with another PUBLIC_URL"


def test_refused_call_that_needs_attention_ends_with_1_and_its_hint(run, deployment):
    deployment.ghl.add_fault("scope_missing", method="POST", path="/contacts/", times=1)
    said = run("twilio")
    assert said.exit_code == 1
    assert "needs attention (crm.401_scope)" in said.output
    assert "add contacts.write" in said.output


def test_bridge_that_is_away_is_named(run, deployment):
    said = run("twilio", "--url", f"http://127.0.0.1:{deployment.redis.port}")
    assert said.exit_code == 1
    assert "start the Procfile's `web`, or give --url" in said.output


def test_phone_system_that_is_not_configured_is_named(deployment):
    app = flask_app({name: value for name, value in deployment.settings.items() if name != "GENERIC_SECRET"})
    said = invoke(app, "generic")
    assert said.exit_code == 1
    assert "GENERIC_SECRET is not set" in said.output


def test_sample_and_scenario_together_are_refused(run):
    assert run("twilio", "--sample", "voice-inbound", "--scenario", "storm").exit_code == 2


@pytest.mark.parametrize("url", ["http://127.0.0.1:8000/", "http://localhost:8000", "http://[::1]:8000"])
def test_bridge_on_this_machine_may_be_sent_to(url):
    assert simulate.target(url, "https://bridge.example.com") == url.rstrip("/")


def test_public_url_is_where_calls_go_by_default():
    assert simulate.target(None, "https://bridge.example.com") == "https://bridge.example.com"


@pytest.mark.parametrize(
    "url", ["https://other.example.com", "http://127.0.0.1.example.com", "ftp://127.0.0.1", "127.0.0.1:80", "http://a@example.com"]
)
def test_nothing_is_ever_sent_to_anybody_else(url):
    with pytest.raises(click.UsageError, match="PUBLIC_URL"):
        simulate.target(url, "https://bridge.example.com")


@pytest.mark.parametrize(
    ("change", "settled", "well"),
    [
        ({"state": State.DONE}, True, True),
        ({"state": State.NEEDS_ATTENTION}, True, False),
        ({"state": State.RUNNING}, False, False),
        ({"queued_at": NOW}, False, False),
        ({"next_try_at": NOW + 100}, True, True),
        ({"next_try_at": NOW + 100, "spent": 1}, True, False),
        ({"next_try_at": NOW + 1}, False, True),
        ({"next_try_at": NOW + 100, "attempts": (Attempt(1, NOW, "w", NOW, "again", cause="crm.budget"),)}, False, False),
    ],
)
def test_entry_is_settled_when_nothing_is_about_to_happen(change, settled, well):
    entry = replace(ENTRY, **change)
    assert (simulate.is_settled(entry, NOW), simulate.is_well(entry)) == (settled, well)


def test_no_entry_is_not_settled():
    assert not simulate.is_settled(None, NOW)


def test_scenarios_of_the_command_are_those_of_the_sandbox():
    assert set(simulate.SCENARIOS) == {*scenarios.SCENARIOS, "storm"}

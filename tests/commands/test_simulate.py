"""`simulate` against a running bridge: what is sent, what became of it, and where it never sends to."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial

import click
import pytest
from click.testing import CliRunner
from flask import Flask

from app import build_parts
from bridge.call import Call
from bridge.commands import simulate
from bridge.ledger.entry import Entry, State
from bridge.providers import registry
from bridge.sandbox import scenarios
from bridge.sandbox.deployment import Deployment
from bridge.settings import load

NOW = 1_768_489_445.0
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
    with Deployment(tmp_path_factory.mktemp("simulate"), workers=1) as running:
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


@pytest.mark.parametrize("provider", simulate.SECRETS)
def test_new_caller_becomes_a_lead(run, deployment, provider):
    said = run(provider)
    assert said.exit_code == 0, said.output
    *deliveries, call = said.output.splitlines()
    assert len(deliveries) == 4
    assert all(line.startswith("20") and f"POST /webhooks/{provider}/" in line for line in deliveries)
    key, became = call.split("  ")
    assert became == f"done, contact {deployment.bridge.call(key)['contact_id']}"


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
    ],
)
def test_entry_is_settled_when_nothing_is_about_to_happen(change, settled, well):
    entry = replace(ENTRY, **change)
    assert (simulate.is_settled(entry, NOW), simulate.is_well(entry)) == (settled, well)


def test_no_entry_is_not_settled():
    assert not simulate.is_settled(None, NOW)


def test_scenarios_of_the_command_are_those_of_the_sandbox():
    assert set(simulate.SCENARIOS) == {*scenarios.SCENARIOS, "storm"}

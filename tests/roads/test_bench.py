"""The bench measures a running bridge from outside, and refuses to make leads in a real GoHighLevel."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import click
import pytest

from bridge.commands import bench
from bridge.commands.bench import Figures, Result, allowed, as_document, as_text, figures, medians
from bridge.providers import registry
from bridge.sandbox.deployment import ROOT
from bridge.settings import load

LOCAL = {
    "REDIS_URL": "redis://127.0.0.1:1/0",
    "PUBLIC_URL": "http://127.0.0.1:8000",
    "SECRET_KEY": "0123456789",
    "GHL_BASE_URL": "http://127.0.0.1:8001",
    "GHL_TOKEN": "pit-1",
    "GHL_LOCATION_ID": "loc1",
    "TWILIO_AUTH_TOKEN": "token",
}


def test_bench_of_a_running_bridge_says_how_soon_it_answers_beside_healthz(road):
    command = [sys.executable, "-m", "flask", "--app", "app", "bench", "--clients", "5", "--rounds", "2", "--requests", "20", "--json"]
    ended = subprocess.run(command, cwd=ROOT, env=road.deployment.environment, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    told = json.loads(ended.stdout.splitlines()[-1])
    assert told["ok"]
    assert (told["clients"], told["requests"], len(told["rounds"])) == (5, 20, 2)
    for side in ("webhook", "healthz"):
        assert 0 < told[side]["p50_ms"] <= told[side]["p99_ms"]
        assert told[side]["failed"] == 0
    road.await_true(road.is_idle, "the calls of the bench are worked off")


def test_bench_without_a_bridge_says_how_to_start_one():
    command = [sys.executable, "-m", "bridge.commands", "bench"]
    ended = subprocess.run(command, cwd=ROOT, env={"PATH": os.defpath}, capture_output=True, text=True, timeout=30, check=False)
    assert ended.returncode == 1
    assert "--sandbox" in ended.stderr


@pytest.mark.parametrize("name", ["PUBLIC_URL", "GHL_BASE_URL"])
def test_bench_refuses_what_is_not_on_this_machine(name):
    settings = load(LOCAL | {name: "https://elsewhere.example"}, registry.SETTINGS)
    with pytest.raises(click.ClickException, match=name):
        allowed(settings)


def test_bench_names_the_secret_that_it_needs():
    settings = load(LOCAL | {"TWILIO_AUTH_TOKEN": "", "GENERIC_SECRET": "whsec_" + "A" * 32}, registry.SETTINGS)
    with pytest.raises(click.ClickException, match="TWILIO_AUTH_TOKEN"):
        allowed(settings)
    assert allowed(load(LOCAL, registry.SETTINGS)) == bench.Target("http://127.0.0.1:8000", "token")


def test_percentiles_are_of_the_answers_that_came_and_failures_are_counted():
    waited = [number / 1000 for number in range(1, 102)]
    assert figures([*waited, None, None], 2.0) == Figures(p50_ms=51.0, p99_ms=100.0, per_s=50.5, failed=2)
    assert figures([None, None], 2.0) == Figures(0.0, 0.0, 0.0, 2)


def test_one_slow_round_does_not_move_the_medians_and_one_failure_is_enough():
    rounds = [Figures(10, 20, 100, 0), Figures(500, 900, 3, 1), Figures(12, 22, 90, 0)]
    assert medians(rounds) == Figures(12, 22, 90, 1)
    result = Result(50, 500, rounds, [Figures(5, 6, 300, 0)] * 3)
    assert not result.ok
    assert as_document(result)["ok"] is False
    assert "An acknowledgement takes 7.0 ms more" in as_text(result)

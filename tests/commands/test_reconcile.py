"""`reconcile`: the day adds up, or the calls that do not are named."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta

import pytest

from bridge.commands import backfill, reconcile
from bridge.intake import daily
from bridge.sandbox.call_list_types import SandboxCall
from tests.commands.backfilled import commands


@pytest.fixture
def deployment(redis_url):
    with commands(redis_url) as made:
        yield made


@pytest.fixture
def run(deployment):
    return deployment[0]


@pytest.fixture
def world(deployment):
    return deployment[1]


YESTERDAY = (datetime.now(UTC) - timedelta(days=1)).date()
NOON = datetime.combine(YESTERDAY, datetime.min.time(), UTC).timestamp() + 43_200


def add(world, number=0):
    world.add("twilio", SandboxCall(f"CA{number}", f"+1555010{number:04d}", "+15550109999", NOON + number))


def test_day_that_adds_up_ends_zero(run, world) -> None:
    add(world)
    run(backfill.command, "--since", "3d")
    done = run(reconcile.command, "--day", "yesterday")
    assert done.exit_code == 0
    assert "1 calls at the provider = 0 leads + 0 without lead + 0 need attention + 1 under way: adds up" in done.output


def test_difference_is_red_and_names_the_calls(run, world) -> None:
    add(world)
    done = run(reconcile.command, "--day", YESTERDAY.isoformat(), color=True)
    assert done.exit_code == 1
    assert "\x1b[31m" in done.output
    assert "DOES NOT ADD UP" in done.output
    assert "twilio-CA0" in done.output
    assert "+1555" not in done.output


def test_sum_as_json_is_kept_for_the_console(run, world, connection) -> None:
    add(world)
    told = json.loads(run(reconcile.command, "--day", "yesterday", "--json").output)
    assert told["ok"] is False
    assert told["day"] == YESTERDAY.isoformat()
    assert told["sums"][0]["missing"] == ["twilio-CA0"]
    (kept,) = daily.kept(connection, YESTERDAY)
    assert kept.missing == ("twilio-CA0",)


def test_today_is_what_is_asked_for_unless_a_day_is_named(run, world) -> None:
    add(world)
    done = run(reconcile.command, "--json")
    assert json.loads(done.output)["sums"][0]["listed"] == 0
    assert abs(datetime.fromisoformat(json.loads(done.output)["day"]).timestamp() - time.time()) < 3 * 86_400


def test_day_that_is_none_and_provider_without_list_are_refused(run) -> None:
    assert run(reconcile.command, "--day", "someday").exit_code == 2
    done = run(reconcile.command, "--provider", "telnyx")
    assert done.exit_code == 1
    assert "telnyx: it is not configured" in done.output


def test_provider_without_credentials_is_skipped_with_one_line(redis_url) -> None:
    with commands(redis_url, GENERIC_SECRET="whsec_Z2VuZXJpYy1tYWRlLXVwLXNpZ25pbmctc2VjcmV0ISE=") as (run, _):
        done = run(reconcile.command)
        assert "generic: skipped, it has no list of calls" in done.output

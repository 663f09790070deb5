"""The doctor: one line for each finding, which says what to change."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from click.testing import CliRunner, Result
from flask.cli import FlaskGroup
from rq import Worker

from app import create_app
from bridge.sandbox.ghl import GhlStandIn
from bridge.work.queues import calls_queue
from tests.support.builders import make_settings


@pytest.fixture
def ghl() -> Iterator[GhlStandIn]:
    with GhlStandIn() as ghl:
        yield ghl


@pytest.fixture
def environment(redis_url: str, ghl: GhlStandIn, tmp_path: Path) -> dict[str, str]:
    crm = {"GHL_BASE_URL": ghl.url, "GHL_TOKEN": ghl.world.token, "GHL_LOCATION_ID": ghl.world.location_id}
    return crm | {"REDIS_URL": redis_url, "SPOOL_PATH": str(tmp_path / "spool")}


@pytest.fixture
def listening(connection: redis.Redis) -> Iterator[None]:
    worker = Worker([calls_queue(connection)], connection=connection)
    worker.register_birth()
    yield
    worker.register_death()


def run(environment: dict[str, str], *options: str) -> Result:
    """`flask doctor`, as a person would start it."""
    app = create_app(make_settings(**environment))
    flask = FlaskGroup(create_app=lambda: app, add_version_option=False, set_debug_flag=False, load_dotenv=False)
    result = CliRunner().invoke(flask, ["doctor", *options])
    app.extensions["callbridge"].connection.close()
    return result


def examined(environment: dict[str, str]) -> tuple[int, dict[str, tuple[bool | None, str]]]:
    result = run(environment, "--json")
    told = json.loads(result.stdout.splitlines()[-1])
    assert told["ok"] is (result.exit_code == 0)
    findings = reversed(told["findings"])  # of two with one name the first
    return result.exit_code, {finding["name"]: (finding["ok"], finding["say"]) for finding in findings}


def test_a_deployment_that_is_well_ends_0(environment: dict[str, str], listening: None) -> None:
    code, found = examined(environment | {"SENTRY_DSN": "", "API_TOKEN": "api-token-made-up"})
    assert code == 0, found
    assert {"settings", "redis", "eviction", "persistence", "workers", "gohighlevel", "duplicates", "twilio"} <= set(found)
    assert found["twilio"][1].endswith("https://ivr.example.com/webhooks/twilio")
    assert found["alerts"][0] is None, "a warning does not fail"


def test_every_finding_is_a_line_for_people(environment: dict[str, str], listening: None) -> None:
    result = run(environment)
    lines = [line for line in result.stdout.splitlines() if line.startswith(("ok  ", "warn", "BAD "))]
    assert result.exit_code == 0
    assert any(line.startswith("ok    redis: ") for line in lines)
    assert any(line.startswith("warn  api: API_TOKEN") for line in lines)


def test_missing_workers_are_bad(environment: dict[str, str]) -> None:
    code, found = examined(environment)
    assert code == 1
    assert found["workers"][0] is False


@pytest.mark.parametrize(
    ("token_state", "setting"), [("revoked", "GHL_TOKEN"), ("scope_missing", "scope"), ("wrong_location", "GHL_LOCATION_ID")]
)
def test_a_token_that_does_not_work_names_the_setting(
    environment: dict[str, str], ghl: GhlStandIn, listening: None, token_state: str, setting: str
) -> None:
    ghl.configure(token_state=token_state)
    code, found = examined(environment)
    assert code == 1
    ok, say = found["gohighlevel"]
    assert ok is False
    assert setting in say


def test_a_location_that_allows_duplicates_is_named_loudly(environment: dict[str, str], ghl: GhlStandIn, listening: None) -> None:
    ghl.configure(allow_duplicate_contact=True)
    code, found = examined(environment)
    ok, say = found["duplicates"]
    assert (code, ok) == (0, None)
    assert "ALLOWS DUPLICATE CONTACTS" in say
    assert "UNCERTAIN_CREATE=ask" in say
    assert "a person is asked" in examined(environment | {"UNCERTAIN_CREATE": "ask"})[1]["duplicates"][1]


def test_without_redis_the_rest_is_still_examined(environment: dict[str, str], tmp_path: Path) -> None:
    code, found = examined(environment | {"REDIS_URL": f"unix://{tmp_path}/none.sock"})
    assert code == 1
    assert found["redis"][0] is False
    assert "twilio" in found
    assert "workers" not in found


def test_the_doctor_shows_no_secret(environment: dict[str, str], ghl: GhlStandIn) -> None:
    ghl.configure(token_state="revoked")
    _, found = examined(environment)
    told = " ".join(say for _, say in found.values())
    assert ghl.world.token not in told
    assert "twilio_test_auth_token" not in told

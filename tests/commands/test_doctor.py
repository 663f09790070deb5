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
from bridge.intake.spool import Spooled
from bridge.sandbox.ghl import GhlStandIn
from bridge.work.queues import calls_queue
from tests.intake.events import fill
from tests.support.builders import make_settings
from tests.watch.smtp import MailServer


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


def test_a_spool_that_cannot_be_written_is_bad(environment: dict[str, str], listening: None) -> None:
    code, found = examined(environment | {"SPOOL_PATH": "/proc/nowhere/spool.sqlite3"})
    assert code == 1
    assert found["spool"][0] is False
    assert "SPOOL_PATH" in found["spool"][1]


def test_webhooks_in_the_spool_are_told_of_and_those_that_could_not_be_taken_are_bad(environment: dict[str, str], listening: None) -> None:
    spool = fill(Path(environment["SPOOL_PATH"]), range(2))
    ok, say = examined(environment)[1]["spool"]
    assert (ok, "; 2 wait now, the oldest for " in say) == (True, True)

    def refuse(_item: Spooled) -> None:
        raise KeyError

    while spool.count():
        spool.drain(refuse, limit=1)
    code, found = examined(environment)
    assert (code, found["spool"][0]) == (1, False)
    assert found["spool"][1].startswith("2 webhooks could not be taken")


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


# ---- The ways to an owner

HOOK = {"ALERT_WEBHOOK_URL": "http://127.0.0.1:9/services/T1/hush"}


@pytest.fixture
def mail() -> Iterator[MailServer]:
    with MailServer() as server:
        yield server


def by_mail(url: str) -> dict[str, str]:
    return {"ALERT_EMAIL_TO": "ops@example.com", "ALERT_EMAIL_FROM": "bridge@example.com", "SMTP_URL": url}


def test_nobody_is_told_only_where_no_way_is_set(environment: dict[str, str], mail: MailServer) -> None:
    assert "nobody is told" in examined(environment)[1]["alerts"][1]
    for way in (HOOK, by_mail(mail.url())):
        _, found = examined(environment | way)
        assert "alerts" not in found
        assert found["console"] == (None, "CONSOLE_USERS is not set: there is no console, and the links in alerts lead nowhere.")


def test_a_webhook_is_not_tried_and_its_address_not_shown(environment: dict[str, str], listening: None) -> None:
    code, found = examined(environment | HOOK)
    assert (code, found["webhook"][0]) == (0, True)
    assert "was not tried" in found["webhook"][1]
    assert not any("hush" in say for _, say in found.values())


def test_the_mail_server_is_logged_in_to_and_no_mail_sent(environment: dict[str, str], listening: None, mail: MailServer) -> None:
    code, found = examined(environment | by_mail(mail.url("me:pw@")))
    assert (code, found["email"][0]) == (0, True)
    assert (len(mail.logins), mail.mails) == (1, [])


def test_a_mail_server_that_does_not_take_us_is_bad(environment: dict[str, str], listening: None, mail: MailServer) -> None:
    mail.offers = b"250 SIZE"
    code, found = examined(environment | by_mail(mail.url("me:hush-pw@")))
    assert (code, found["email"][0]) == (1, False)
    assert "SMTP_URL" in found["email"][1]
    assert "hush" not in found["email"][1]
    assert "ConnectionRefusedError" in examined(environment | by_mail("smtp://127.0.0.1:9"))[1]["email"][1]


def test_a_mail_server_without_anybody_to_write_to_is_named(environment: dict[str, str], mail: MailServer) -> None:
    assert "ALERT_EMAIL_TO is not" in examined(environment | {"SMTP_URL": mail.url()})[1]["email"][1]

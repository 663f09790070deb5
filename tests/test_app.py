"""The app as a whole: what it has, what it refuses to start with, and what it asks of Redis at its start."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from rq import Worker

from app import create_app
from bridge import connections
from bridge.errors import WrongSettings
from bridge.work.queues import calls_queue
from tests.support.builders import ENVIRONMENT, make_settings


@pytest.fixture
def settings(redis_url: str, tmp_path: Path) -> dict[str, str]:
    return {"REDIS_URL": redis_url, "SPOOL_PATH": str(tmp_path / "spool")}


@pytest.fixture
def app(settings: dict[str, str]) -> Iterator:
    app = create_app(make_settings(**settings, API_TOKEN="api-token-made-up"))
    yield app
    app.extensions["callbridge"].connection.close()


def rules(app) -> set[str]:
    return {rule.rule for rule in app.url_map.iter_rules()}


def test_the_outside_is_all_there(app) -> None:
    wanted = {"/webhooks/<provider>", "/webhooks/<provider>/<path:what>", "/healthz", "/readyz", "/metrics"}
    assert wanted | {"/api/calls", "/api/calls/<call_key>"} <= rules(app)
    assert {"worker", "doctor"} <= set(app.cli.commands)


def test_without_a_token_there_is_no_api(settings: dict[str, str]) -> None:
    app = create_app(make_settings(**settings))
    assert not any(rule.startswith("/api") for rule in rules(app))
    assert app.test_client().get("/api/calls").status_code == 404


def test_starting_asks_nothing_of_redis(tmp_path: Path) -> None:
    app = create_app(make_settings(REDIS_URL=f"unix://{tmp_path}/none.sock", SPOOL_PATH=str(tmp_path / "spool")))
    assert app.test_client().get("/healthz").status_code == 200
    assert list(tmp_path.iterdir()) == []


def test_without_workers_the_app_is_not_ready(app, connection: redis.Redis) -> None:
    answer = app.test_client().get("/readyz")
    assert answer.status_code == 503
    assert [name for name, check in answer.get_json()["checks"].items() if not check["ok"]] == ["workers"]


def test_no_page_makes_the_web_more_patient_with_redis(app, connection: redis.Redis) -> None:
    """A caller on the line waits for as long as the web's connections do, and RQ's classes raise the time-outs of a pool that they get."""
    worker = Worker([calls_queue(connection)], connection=connection)
    worker.register_birth()
    pool = app.extensions["callbridge"].connection.connection_pool
    client, before = app.test_client(), dict(pool.connection_kwargs)
    for rule in app.url_map.iter_rules():
        if "GET" in (rule.methods or ()):
            client.get(rule.rule.replace("<", "").replace(">", ""), headers={"Authorization": "Bearer api-token-made-up"})
    worker.register_death()
    assert pool.connection_kwargs == before
    assert before["socket_timeout"] == connections.READ_TIMEOUT_S


def test_an_environment_with_faults_does_not_start(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name, value in (ENVIRONMENT | {"PORT": "x", "WORKERS": "0"}).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as ended:
        create_app()
    assert ended.value.code == 3, "gunicorn would start workers for ever"
    faults = [text for text in capsys.readouterr().err.splitlines() if text.startswith("  - ")]
    assert sorted(fault.removeprefix("  - ").partition(":")[0] for fault in faults) == ["PORT", "WORKERS"]


def test_a_provider_that_cannot_be_used_does_not_start(settings: dict[str, str]) -> None:
    with pytest.raises(WrongSettings, match="GENERIC_SECRET"):
        create_app(make_settings(**settings, GENERIC_SECRET="whsec_short"))

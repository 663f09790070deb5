"""What platforms ask: is the process up, can the deployment work, and what are its figures."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import redis
from flask import Flask
from flask.testing import FlaskClient

from bridge.watch import http
from tests.support.broken import unreachable
from tests.support.builders import make_call
from tests.support.house import House, make_store


def untouched() -> int:
    raise AssertionError("asked without need")


def client_of(store, listening: Callable[[], int] = lambda: 2, waiting: Callable[[], int] = lambda: 0) -> FlaskClient:
    app = Flask("test")
    app.register_blueprint(http.blueprint(store, listening, waiting))
    return app.test_client()


def test_a_live_process_touches_nothing() -> None:
    answer = client_of(make_store(unreachable()), untouched, untouched).get("/healthz")
    assert (answer.status_code, answer.get_json()) == (200, {"ok": True})


def test_a_deployment_that_can_work_is_ready(connection: redis.Redis) -> None:
    answer = client_of(make_store(connection)).get("/readyz")
    assert answer.status_code == 200
    assert {name: check["ok"] for name, check in answer.get_json()["checks"].items()} == {
        "redis": True,
        "eviction": True,
        "persistence": True,
        "workers": True,
    }


def test_without_workers_it_is_not_ready(connection: redis.Redis) -> None:
    answer = client_of(make_store(connection), lambda: 0).get("/readyz")
    assert answer.status_code == 503
    assert "worker" in answer.get_json()["checks"]["workers"]["say"]


def test_without_redis_it_is_not_ready_and_asks_no_further() -> None:
    answer = client_of(make_store(unreachable()), untouched).get("/readyz")
    assert (answer.status_code, list(answer.get_json()["checks"])) == (503, ["redis"])


def test_a_redis_that_evicts_is_not_ready(connection: redis.Redis) -> None:
    connection.config_set("maxmemory-policy", "allkeys-lru")
    try:
        assert client_of(make_store(connection)).get("/readyz").status_code == 503
    finally:
        connection.config_set("maxmemory-policy", "noeviction")


def test_a_warning_does_not_take_it_out_of_service(connection: redis.Redis) -> None:
    connection.config_set("appendonly", "no")
    try:
        answer = client_of(make_store(connection)).get("/readyz")
    finally:
        connection.config_set("appendonly", "yes")
    assert answer.status_code == 200
    assert "AOF" in answer.get_json()["checks"]["persistence"]["say"]


def test_the_figures_name_no_caller(connection: redis.Redis) -> None:
    house = House(connection)
    house.accept(make_call())
    answer = client_of(house.store, waiting=lambda: 4).get("/metrics")
    assert answer.content_type.startswith("text/plain")
    assert b"callbridge_queue_jobs 4.0" in answer.data
    assert b"5550" not in answer.data


@pytest.mark.parametrize("waiting", [lambda: 0, lambda: unreachable().llen("x")])
def test_without_redis_there_are_no_figures(waiting: Callable[[], int]) -> None:
    assert client_of(make_store(unreachable()), waiting=waiting).get("/metrics").status_code == 503

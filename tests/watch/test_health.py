"""Whether Redis keeps what it is given, and what to change where it does not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from bridge.watch.health import Finding, check_redis, check_workers
from tests.support.broken import unreachable


@pytest.fixture
def configured(connection: redis.Redis) -> Iterator[redis.Redis]:
    """A Redis whose configuration a test may change."""
    before = {name: value for setting in ("maxmemory-policy", "appendonly") for name, value in connection.config_get(setting).items()}
    yield connection
    for name, value in before.items():
        connection.config_set(name, value)


def found(connection: redis.Redis) -> dict[str, Finding]:
    return {finding.name: finding for finding in check_redis(connection)}


def test_a_redis_that_keeps_everything_is_well(connection: redis.Redis) -> None:
    findings = check_redis(connection)
    assert [finding.name for finding in findings] == ["redis", "eviction", "persistence"]
    assert all(finding.ok for finding in findings)


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl"])
def test_a_redis_that_evicts_is_refused(configured: redis.Redis, policy: str) -> None:
    configured.config_set("maxmemory-policy", policy)
    eviction = found(configured)["eviction"]
    assert eviction.ok is False
    assert policy in eviction.say
    assert "noeviction" in eviction.say


def test_a_redis_without_append_only_file_is_a_warning(configured: redis.Redis) -> None:
    configured.config_set("appendonly", "no")
    persistence = found(configured)["persistence"]
    assert persistence.ok is None
    assert "AOF" in persistence.say


def test_a_redis_that_is_away_says_what_to_check() -> None:
    (finding,) = check_redis(unreachable())
    assert finding.ok is False
    assert "REDIS_URL" in finding.say


@pytest.mark.parametrize(("listening", "ok"), [(0, False), (1, True), (5, True)])
def test_somebody_has_to_listen(listening: int, ok: bool) -> None:
    finding = check_workers(listening)
    assert finding.ok is ok
    assert (str(listening) if ok else "worker") in finding.say

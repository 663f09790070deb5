"""How the parts are built: once, when they are first used, and for one process."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import redis

from app import build_parts
from bridge import parts as process
from bridge.ledger import keys
from bridge.ledger.entry import State
from bridge.ledger.store import Change
from bridge.parts import Parts
from bridge.settings import DAY_S
from tests.support.builders import KEY, done_entry, make_settings


@pytest.fixture
def parts(redis_url: str, tmp_path: Path) -> Parts:
    return build_parts(make_settings(REDIS_URL=redis_url, SPOOL_PATH=str(tmp_path / "spool"), DONE_DAYS="91", ATTEMPT_LEASE_S="31"))


def test_making_the_parts_connects_to_nothing(tmp_path: Path) -> None:
    settings = make_settings(REDIS_URL=f"unix://{tmp_path}/none.sock", SPOOL_PATH=str(tmp_path / "spool"))
    parts = build_parts(settings)
    assert all([parts.store, parts.claims, parts.crm, parts.receiver, parts.drainer, parts.sweeper, parts.attempt])
    assert list(tmp_path.iterdir()) == []


def test_each_part_is_made_once_and_shared(parts: Parts) -> None:
    assert parts.store is parts.store
    assert parts.attempt.store is parts.sweeper.store is parts.receiver.store is parts.store
    assert parts.attempt.crm is parts.crm


def test_the_web_is_impatient_and_workers_are_patient(parts: Parts) -> None:
    patient = replace(parts, patient=True)
    assert parts.connection.get_retry().get_retries() == 0
    assert patient.connection.get_retry().get_retries() > 0
    assert patient.connection is not parts.connection, "a copy for another process shares no socket"


def test_a_claim_outlives_one_request(parts: Parts) -> None:
    claim = parts.claims.acquire("loc1", "+1", owner="x")
    assert claim.outlives(parts.settings.request_timeout_s, parts.claims.now())
    parts.connection.close()


def test_retention_comes_from_the_settings(parts: Parts, connection: redis.Redis) -> None:
    parts.store.change(KEY, lambda _old, _moment: Change(done_entry()))
    assert connection.ttl(keys.entry(KEY)) in {91 * DAY_S, 91 * DAY_S - 1}
    assert parts.store.get(KEY).state is State.DONE
    parts.connection.close()


def test_the_parts_of_a_process_are_the_last_ones_named(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_running", [])
    with pytest.raises(RuntimeError, match="worker"):
        process.running()
    other = replace(parts, patient=True)
    process.use(parts)
    process.use(other)
    assert process.running() is other

"""Fixtures for tests that run jobs: those of tests/work/jobs.py, in processes of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from bridge.work import queues
from tests.work.processes import Processes, processes

FAILURE_TTL_S = 600


@pytest.fixture
def job_of_these_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queues, "JOB", "tests.work.jobs.run")


@pytest.fixture
def put(job_of_these_tests: None, connection: redis.Redis) -> Callable[..., None]:
    """Put a call, and say what its job shall do."""

    def put(call_key: str, what: str = "nothing", client: redis.Redis = connection) -> None:
        with client.pipeline() as pipe:
            pipe.multi()
            pipe.set(f"do:{call_key}", what)
            queues.put(pipe, call_key, failure_ttl=FAILURE_TTL_S)
            pipe.execute()

    return put


@pytest.fixture
def group(redis_url: str, tmp_path: Path) -> Iterator[Processes]:
    with processes(redis_url, tmp_path) as group:
        yield group

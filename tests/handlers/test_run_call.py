"""The job finds the parts of its process and runs the call."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import redis

from bridge import parts
from bridge.ledger.entry import State
from handlers.run_call import run_call
from tests.support.builders import KEY, make_call
from tests.support.house import House


@pytest.fixture
def no_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "_running", [])


def test_a_job_runs_with_the_parts_of_its_process(connection: redis.Redis, no_parts: None) -> None:
    house = House(connection)
    house.accept(make_call())
    parts.use(SimpleNamespace(attempt=house.needs))
    run_call(KEY)
    assert house.entry().state is State.DONE


def test_a_process_without_parts_says_how_to_start_one(no_parts: None) -> None:
    with pytest.raises(RuntimeError, match="flask --app app worker"):
        run_call(KEY)

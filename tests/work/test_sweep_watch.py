"""Whoever sweeps also watches, and nobody else does."""

from __future__ import annotations

from dataclasses import replace

import pytest
import redis

from bridge.ledger.entry import State
from bridge.work.sweep import Sweeper
from tests.support.builders import KEY, NOW, done_entry
from tests.support.house import House


def run_passes(sweeper: Sweeper, passes: int) -> None:
    left = [passes]

    def stop(_seconds: float) -> bool:
        left[0] -= 1
        return left[0] <= 0

    sweeper.run(stop)


def test_the_sweeper_that_acts_watches_at_once_and_then_every_few_seconds(connection: redis.Redis) -> None:
    looks: list[int] = []
    house = House(connection)
    run_passes(Sweeper(connection, house.store, watch=lambda: looks.append(1)), 5)
    assert looks == [1], "five passes take no five seconds"


def test_the_sweeper_that_waits_does_not_watch(connection: redis.Redis) -> None:
    looks: list[int] = []
    house = House(connection)
    assert Sweeper(connection, house.store).hold()
    run_passes(Sweeper(connection, house.store, watch=lambda: looks.append(1)), 3)
    assert looks == []


def test_redis_going_away_while_watching_does_not_end_the_sweeper(connection: redis.Redis) -> None:
    def fail() -> None:
        raise redis.ConnectionError("away")

    chores: list[int] = []
    house = House(connection)
    run_passes(Sweeper(connection, house.store, chores=(lambda: chores.append(1),), watch=fail), 3)
    assert chores == [1]


def test_a_fault_in_watching_does_not_stop_the_calls(connection: redis.Redis, caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise KeyError("a bug")

    house = House(connection)
    house.put(replace(done_entry(), state=State.ACCEPTED, next_try_at=NOW))
    run_passes(Sweeper(connection, house.store, watch=fail), 2)
    assert house.jobs() == [KEY]
    assert "sweeping goes on" in caplog.text

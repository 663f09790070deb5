"""One clock for all processes, and what it shows while Redis is away."""

from __future__ import annotations

import time

import pytest
import redis

from bridge.clock import REST_S, SYNC_EVERY_S, RedisClock
from tests.support.broken import unreachable


class Monotonic:
    def __init__(self) -> None:
        self.at = 5000.0

    def __call__(self) -> float:
        return self.at


def asked(connection: redis.Redis) -> int:
    return int(connection.info("commandstats").get("cmdstat_time", {}).get("calls", 0))


def test_the_time_is_that_of_redis(connection: redis.Redis) -> None:
    seconds, microseconds = connection.time()
    assert RedisClock(connection).now() == pytest.approx(seconds + microseconds / 1e6, abs=0.5)


def test_the_local_clock_counts_on_between_two_questions(connection: redis.Redis) -> None:
    monotonic = Monotonic()
    clock = RedisClock(connection, monotonic=monotonic)
    first, questions = clock.now(), asked(connection)
    monotonic.at += SYNC_EVERY_S - 1
    assert clock.now() == pytest.approx(first + SYNC_EVERY_S - 1)
    assert asked(connection) == questions


def test_redis_is_asked_again_after_half_a_minute(connection: redis.Redis) -> None:
    monotonic = Monotonic()
    clock = RedisClock(connection, monotonic=monotonic)
    first, questions = clock.now(), asked(connection)
    monotonic.at += SYNC_EVERY_S + 1
    assert clock.now() == pytest.approx(first, abs=5), "the monotonic clock ran ahead, and Redis put it right"
    assert asked(connection) == questions + 1


def test_the_last_offset_holds_while_redis_is_away(connection: redis.Redis) -> None:
    monotonic = Monotonic()
    clock = RedisClock(connection, monotonic=monotonic)
    first = clock.now()
    clock._connection = unreachable()
    monotonic.at += 2 * SYNC_EVERY_S
    assert clock.now() == pytest.approx(first + 2 * SYNC_EVERY_S)


def test_the_wall_clock_stands_in_until_redis_was_reached() -> None:
    assert RedisClock(unreachable()).now() == pytest.approx(time.time(), abs=1)


def test_a_redis_that_did_not_answer_is_left_alone_for_a_while(connection: redis.Redis) -> None:
    monotonic = Monotonic()
    clock = RedisClock(unreachable(), monotonic=monotonic)
    clock.now()
    clock._connection = connection
    questions = asked(connection)
    clock.now()
    assert asked(connection) == questions, "a caller on the line would wait for a second time-out"
    monotonic.at += REST_S
    clock.now()
    assert asked(connection) == questions + 1

"""Figures read from Redis at scrape time."""

from __future__ import annotations

import random

import pytest
import redis
from prometheus_client.parser import text_string_to_metric_families

from bridge.ledger import keys
from bridge.ledger.entry import State
from bridge.watch import metrics
from tests.support.broken import unreachable
from tests.support.builders import make_call
from tests.support.house import House, make_store


def scraped(house: House, waiting_jobs: int = 0) -> dict[tuple[str, ...], float]:
    page = metrics.render(house.store, waiting_jobs).decode()
    samples = [sample for family in text_string_to_metric_families(page) for sample in family.samples]
    return {(sample.name, *sorted(value for value in sample.labels.values() if value)): sample.value for sample in samples}


@pytest.fixture
def house(connection: redis.Redis) -> House:
    return House(connection)


def test_the_road_of_a_call_shows_in_the_figures(house: House) -> None:
    house.accept(make_call())
    house.accept(make_call())
    house.clock.advance(7)
    before = scraped(house, waiting_jobs=3)
    assert before["callbridge_calls", "accepted"] == 1
    assert before[("callbridge_oldest_waiting_seconds",)] == 7
    assert before[("callbridge_queue_jobs",)] == 3
    house.run()
    after = scraped(house)
    assert (after["callbridge_calls", "accepted"], after["callbridge_calls", "done"]) == (0, 1)
    assert after[("callbridge_oldest_waiting_seconds",)] == 0
    assert (after["callbridge_events_total", "new"], after["callbridge_events_total", "repeat"]) == (1, 1)
    assert (after[("callbridge_attempts_total",)], after[("callbridge_done_total",)]) == (1, 1)


def test_refusals_and_ignored_events_show_their_reason(house: House) -> None:
    house.store.count_many({"refused.twilio:signature wrong": 4})
    house.store.keep_ignored('{"at": 1}', "outbound call")
    figures = scraped(house)
    assert figures["callbridge_refused_total", "signature wrong", "twilio"] == 4
    assert figures["callbridge_events_total", "ignored", "outbound call"] == 1


def test_an_empty_ledger_shows_every_state(house: House) -> None:
    figures = scraped(house)
    assert {name[1] for name in figures if name[0] == "callbridge_calls"} == {state.value for state in State}
    assert ("callbridge_attempts_total",) not in figures or figures[("callbridge_attempts_total",)] == 0


def test_a_scrape_costs_the_same_however_many_calls_there_are(house: House) -> None:
    def cost() -> int:
        house.connection.config_resetstat()
        scraped(house)
        return sum(stat["calls"] for stat in house.connection.info("commandstats").values())

    empty = cost()
    for number in range(30):
        house.connection.zadd(keys.state_index("done"), {f"x{number}": random.random()})
    assert cost() == empty


def test_a_redis_that_is_away_is_an_error_of_redis() -> None:
    with pytest.raises(redis.ConnectionError):
        metrics.render(make_store(unreachable()), 0)

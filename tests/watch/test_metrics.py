"""Figures read from Redis at scrape time."""

from __future__ import annotations

import random

import pytest
import redis
from prometheus_client.parser import text_string_to_metric_families

from bridge.ledger import keys, moves
from bridge.ledger.entry import Cause, State, Taken
from bridge.watch import metrics, promises
from tests.support.broken import unreachable
from tests.support.builders import make_call, make_settings, parked_entry, running_entry
from tests.support.house import House, make_store

WATCHED = promises.processes(make_settings())


def scraped(house: House, waiting_jobs: int = 0, left_today: int | None = None) -> dict[tuple[str, ...], float]:
    page = metrics.render(house.store, waiting_jobs, WATCHED, left_today).decode()
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
    assert before["callbridge_oldest_waiting_seconds", "calls"] == 7
    assert before[("callbridge_queue_jobs",)] == 3
    house.run()
    after = scraped(house)
    assert (after["callbridge_calls", "accepted"], after["callbridge_calls", "done"]) == (0, 1)
    assert after["callbridge_oldest_waiting_seconds", "calls"] == 0
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


def test_counters_stand_at_nought_before_anything_has_happened(house: House) -> None:
    """One that is born with its first burst shows Prometheus no increase."""
    figures = scraped(house)
    without_labels = [metric for metric, _, labels in metrics._COUNTERS.values() if not labels]
    assert len(without_labels) >= 7
    assert [figures.get((f"{metric}_total",)) for metric in without_labels] == [0] * len(without_labels)
    assert {name[1]: value for name, value in figures.items() if name[0] == "callbridge_events_total"} == dict.fromkeys(Taken, 0)


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
        metrics.render(make_store(unreachable()), 0, WATCHED)


def test_what_is_promised_shows_for_each_process(house: House) -> None:
    house.accept(make_call())
    house.clock.advance(61)
    late = scraped(house, left_today=1234)
    assert late["callbridge_late_calls", "calls"] == late["callbridge_waiting_calls", "calls"] == 1
    assert late["callbridge_silent_seconds", "calls"] == 61
    assert late["callbridge_promise_seconds", "calls"] == late["callbridge_promise_bound_seconds", "calls"] == 60
    assert late["callbridge_crm_requests_left", "calls"] == 1234
    assert late["callbridge_crm_daily_limit", "calls"] == 200_000
    house.run()
    assert scraped(house)["callbridge_late_calls", "calls"] == 0


def test_a_budget_that_is_not_known_and_a_call_that_never_came_have_no_figure(house: House) -> None:
    figures = scraped(house)
    assert ("callbridge_crm_requests_left", "calls") not in figures
    assert ("callbridge_silent_seconds", "calls") not in figures


def test_the_time_to_a_lead_is_a_histogram(house: House) -> None:
    house.accept(make_call())
    house.clock.advance(45)
    house.run()
    figures = scraped(house)
    buckets = {name[1]: value for name, value in figures.items() if name[0] == "callbridge_lead_seconds_bucket"}
    assert (buckets["30"], buckets["60"], buckets["+Inf"]) == (0, 1, 1)
    assert figures["callbridge_lead_seconds_sum", "calls"] == 45
    assert figures["callbridge_settled_seconds_count", "calls"] == 1


def test_attempts_that_were_cut_short_show_for_two_hours(house: House) -> None:
    house.put(running_entry())
    house.change(moves.put_back)
    assert scraped(house)["callbridge_cut_short_attempts", "calls", "died"] == 1
    assert scraped(house)["callbridge_cut_short_attempts", "calls", "timed_out"] == 0
    house.clock.advance(2 * 3600)
    assert scraped(house)["callbridge_cut_short_attempts", "calls", "died"] == 0


def test_calls_that_need_attention_show_by_their_cause(house: House) -> None:
    house.put(parked_entry(Cause.UNCERTAIN))
    figures = scraped(house)
    assert figures["callbridge_attention_calls", "calls", "uncertain"] == 1
    assert figures["callbridge_attention_calls", "calls", "conflict"] == 0

"""Prometheus figures, read from Redis at scrape time: the work is done in forked processes whose own counters die with them.

Constant cost: one hash of counters and the sizes of a few sorted sets, however many calls there are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from bridge.ledger import keys
from bridge.ledger.entry import State
from bridge.ledger.store import Store

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# Our counters by their first word, with the metric and the labels that the rest of the name fills (`refused.twilio:forged`).
_COUNTERS = {
    "events": ("callbridge_events", "Events taken in, by what they were to the ledger.", ("taken", "reason")),
    "refused": ("callbridge_refused", "Webhooks refused, by provider and reason.", ("provider", "reason")),
    "attempts": ("callbridge_attempts", "Attempts begun.", ()),
    "again": ("callbridge_attempts_again", "Attempts that have to be made again.", ()),
    "done": ("callbridge_done", "Times that a call reached done.", ()),
    "parked": ("callbridge_parked", "Times that a call came to need attention.", ()),
    "deaths": ("callbridge_worker_deaths", "Attempts whose process died.", ()),
    "jobs_lost": ("callbridge_jobs_lost", "Jobs that RQ lost and the sweeper put again.", ()),
}


class _FromRedis(Collector):
    def __init__(self, store: Store, waiting_jobs: int) -> None:
        self._store = store
        self._waiting_jobs = waiting_jobs

    def collect(self) -> Iterable[Metric]:
        connection, now = self._store.connection, self._store.clock.now()
        with connection.pipeline(transaction=False) as pipe:
            pipe.hgetall(keys.COUNT)
            for state in State:
                pipe.zcard(keys.state_index(state))
            pipe.zrange(keys.state_index(State.ACCEPTED), 0, 0, withscores=True)
            counted, *sizes, oldest = pipe.execute()
        yield from _counters({name.decode(): int(times) for name, times in cast("dict[bytes, bytes]", counted).items()})
        calls = GaugeMetricFamily("callbridge_calls", "Calls in the ledger, by state.", labels=["state"])
        for state, size in zip(State, sizes, strict=True):
            calls.add_metric([state.value], size)
        yield calls
        age = now - oldest[0][1] if oldest else 0.0
        yield GaugeMetricFamily("callbridge_oldest_waiting_seconds", "Age of the oldest call that is neither done nor parked.", age)
        yield GaugeMetricFamily("callbridge_queue_jobs", "Jobs that wait for a worker.", self._waiting_jobs)


def _counters(counted: dict[str, int]) -> Iterable[Metric]:
    for word, (metric, text, labels) in _COUNTERS.items():
        family = CounterMetricFamily(metric, text, labels=labels)
        for name, times in sorted(counted.items()):
            first, _, rest = name.partition(".")
            if first == word:
                told, _, reason = rest.partition(":")
                family.add_metric([told, reason][: len(labels)], times)
        yield family


def render(store: Store, waiting_jobs: int) -> bytes:
    """The page for Prometheus. Raises redis.RedisError."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_FromRedis(store, waiting_jobs))
    return generate_latest(registry)

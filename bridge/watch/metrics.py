"""Prometheus figures, read from Redis at scrape time: the work is done in forked processes whose own counters die with them.

Constant cost: a few hashes of counters and the sizes of a few sorted sets, however many calls there are. What is promised for a process
(bridge/watch/promises.py) carries its name as a label.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import cast

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from bridge.ledger import keys
from bridge.ledger.entry import State, Taken
from bridge.ledger.owed import BEYOND, BOUNDS, Reached
from bridge.ledger.store import Store
from bridge.watch import promises
from bridge.watch.promises import Figures, Process

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# Our counters by their first word, with the metric and the labels that the rest of the name fills (`refused.twilio:forged`).
_COUNTERS = {
    "events": ("callbridge_events", "Events taken in, by what they were to the ledger.", ("taken", "reason")),
    "refused": ("callbridge_refused", "Webhooks refused, by provider and reason.", ("provider", "reason")),
    "attempts": ("callbridge_attempts", "Attempts begun.", ()),
    "again": ("callbridge_attempts_again", "Attempts that have to be made again.", ()),
    "done": ("callbridge_done", "Times that a call reached done.", ()),
    "without_lead": ("callbridge_without_lead", "Calls that are done and made no lead, by reason.", ("reason",)),
    "parked": ("callbridge_parked", "Times that a call came to need attention.", ()),
    "deaths": ("callbridge_worker_deaths", "Attempts whose process died, or had no Redis until their lease had run out.", ()),
    "jobs_lost": ("callbridge_jobs_lost", "Jobs that RQ lost and the sweeper put again.", ()),
    "alerts_withheld": ("callbridge_alerts_withheld", "Sentry events that the storm guard only counted.", ()),
}
# These stand at 0 before anything has happened. A counter that is born with its first burst shows no increase, and no rule fires.
_FROM_THE_START = {
    **{word: 0 for word, (_, _, labels) in _COUNTERS.items() if not labels},
    **{f"events.{taken.value}": 0 for taken in Taken},
}
_TIMED = {
    Reached.LEAD: ("callbridge_lead_seconds", "From the event that makes a lead to the contact in the CRM."),
    Reached.SETTLED: ("callbridge_settled_seconds", "From news of a call to all of it in the CRM."),
}
_PROCESS = ("process",)


class _FromRedis(Collector):
    def __init__(self, store: Store, waiting_jobs: int, watched: Sequence[Process], left_today: int | None) -> None:
        self._store = store
        self._waiting_jobs = waiting_jobs
        self._watched = watched
        self._left_today = left_today

    def collect(self) -> Iterable[Metric]:
        with self._store.connection.pipeline(transaction=False) as pipe:
            pipe.hgetall(keys.COUNT)
            for state in State:
                pipe.zcard(keys.state_index(state))
            counted, *sizes = pipe.execute()
        yield from _counters({name.decode(): int(times) for name, times in cast("dict[bytes, bytes]", counted).items()})
        calls = GaugeMetricFamily("callbridge_calls", "Calls in the ledger, by state.", labels=["state"])
        for state, size in zip(State, sizes, strict=True):
            calls.add_metric([state.value], size)
        yield calls
        yield GaugeMetricFamily("callbridge_queue_jobs", "Jobs that wait for a worker.", self._waiting_jobs)
        figures = {process: promises.read(self._store, process, left_today=self._left_today) for process in self._watched}
        yield from _promised(figures)
        for what, (metric, text) in _TIMED.items():
            yield _histogram(metric, text, {process.name: self._took(process, what) for process in self._watched})

    def _took(self, process: Process, what: Reached) -> dict[str, float]:
        told = cast("dict[bytes, bytes]", self._store.connection.hgetall(keys.took(process.name, what)))
        return {name.decode(): float(value) for name, value in told.items()}


def _promised(figures: Mapping[Process, Figures]) -> Iterable[Metric]:
    yield _gauge(
        "callbridge_oldest_waiting_seconds",
        "Age of the oldest call for which something is owed.",
        {process.name: of.oldest_s for process, of in figures.items()},
    )
    yield _gauge(
        "callbridge_waiting_calls", "Calls for which something is owed.", {process.name: of.waiting for process, of in figures.items()}
    )
    yield _gauge(
        "callbridge_late_calls", "Calls that wait longer than promised.", {process.name: of.late for process, of in figures.items()}
    )
    yield _gauge("callbridge_promise_seconds", "What is promised (PROMISE_S).", {process.name: process.promise_s for process in figures})
    yield _gauge(
        "callbridge_promise_bound_seconds",
        "The bound of callbridge_lead_seconds beyond which a lead is late for certain.",
        {process.name: promises.certain_bound(process.promise_s) for process in figures},
    )
    yield _gauge(
        "callbridge_silent_seconds",
        "Since the newest call was accepted, or since the bridge watches where there was none.",
        {process.name: of.silent_s for process, of in figures.items() if of.silent_s is not None},
    )
    yield _gauge(
        "callbridge_crm_daily_limit", "Requests to the CRM allowed in a day.", {process.name: process.daily for process in figures}
    )
    yield _gauge(
        "callbridge_crm_requests_left",
        "Requests to the CRM that are left for today.",
        {process.name: of.left_today for process, of in figures.items() if of.left_today is not None},
    )
    cut_short = GaugeMetricFamily(
        "callbridge_cut_short_attempts", "Attempts of this hour and the one before that were cut short.", labels=["process", "how"]
    )
    for process, of in figures.items():
        for how, count in (("died", of.died), ("timed_out", of.timed_out)):
            cut_short.add_metric([process.name, how], count)
    yield cut_short
    attention = GaugeMetricFamily("callbridge_attention_calls", "Calls that need attention, by cause.", labels=["process", "cause"])
    for process, of in figures.items():
        for cause, count in (of.attention or {}).items():
            attention.add_metric([process.name, cause.value], count)
    yield attention


def _gauge(name: str, text: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=_PROCESS)
    for process, value in values.items():
        family.add_metric([process], value)
    return family


def _histogram(name: str, text: str, told: Mapping[str, Mapping[str, float]]) -> Metric:
    family = HistogramMetricFamily(name, text, labels=_PROCESS)
    bounds = [*(str(bound) for bound in BOUNDS), BEYOND]
    for process, took in told.items():
        upto = accumulate(took.get(bound, 0.0) for bound in bounds)
        family.add_metric([process], list(zip(bounds, upto, strict=True)), took.get("sum", 0.0))
    return family


def _counters(counted: dict[str, int]) -> Iterable[Metric]:
    """Counters that differ only in what no label tells are one: Prometheus takes no two samples of the same labels."""
    for word, (metric, text, labels) in _COUNTERS.items():
        sums: dict[tuple[str, ...], int] = {}
        for name, times in sorted((_FROM_THE_START | counted).items()):
            first, _, rest = name.partition(".")
            if first == word:
                told, _, reason = rest.partition(":")
                values = (told, reason)[: len(labels)]
                sums[values] = sums.get(values, 0) + times
        family = CounterMetricFamily(metric, text, labels=labels)
        for values, times in sums.items():
            family.add_metric(values, times)
        yield family


def render(store: Store, waiting_jobs: int, watched: Sequence[Process], left_today: int | None = None) -> bytes:
    """The page for Prometheus. `left_today`: requests to the CRM, None where it cannot be told. Raises redis.RedisError."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_FromRedis(store, waiting_jobs, watched, left_today))
    return generate_latest(registry)

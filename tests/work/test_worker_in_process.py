"""What our worker changes in RQ's, one method at a time; tests/work/test_worker.py has the whole in real processes."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator

import pytest
import redis
from rq.worker import HerokuWorker

from bridge.work import queues
from bridge.work.worker import LEASE_S, CallWorker, describe_end

NOBODY = 2**30  # no process has this id


@pytest.fixture
def worker(connection) -> CallWorker:
    """A registered worker in this process; it is not told to work."""
    worker = CallWorker(connection, parked=lambda _: False, horse_died=lambda *_: None)
    worker.register_birth()
    return worker


@pytest.fixture
def busy(worker, monkeypatch) -> Iterator[list[signal.Signals]]:
    """The worker runs a job in a process; the signals that this process was sent."""
    sent: list[signal.Signals] = []
    monkeypatch.setattr(HerokuWorker, "fork_work_horse", lambda *_: None)
    monkeypatch.setattr(HerokuWorker, "kill_horse", lambda _, sig: sent.append(sig))
    monkeypatch.setattr(worker, "_horse_pid", NOBODY)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    worker.set_state("busy")
    yield sent
    for number, handler in handlers.items():
        signal.signal(number, handler)


def fetch(connection):
    return queues.calls_queue(connection).fetch_job("c-1")


def test_a_worker_waits_two_seconds_at_most_between_two_looks_for_redis():
    assert CallWorker.max_connection_wait_time <= 2


def test_two_stop_signals_at_one_instant_are_one(worker, busy):
    """The second one may come before RQ has changed its handler, and a second warning interrupts the job without delay."""
    worker.request_stop(signal.SIGTERM, None)
    worker.request_stop(signal.SIGTERM, None)
    assert busy == [signal.SIGRTMIN]


def test_a_failure_of_a_call_that_was_put_again_leaves_the_new_job_alone(connection, put, worker, monkeypatch):
    monkeypatch.setattr(worker, "_parked", lambda _: True)
    put("c-1")
    job = fetch(connection)
    execution = worker.prepare_execution(job)
    put("c-1")
    worker.handle_job_failure(job, worker.queues[0], execution=execution)
    assert not connection.exists("rq:failed:calls", "rq:wip:calls")
    assert (fetch(connection).get_status(), connection.ttl("rq:job:c-1")) == ("queued", -1)


def test_a_failure_is_shown_where_the_ledger_cannot_be_asked(connection, put, worker, monkeypatch):
    def broken(_: str) -> bool:
        raise redis.ConnectionError

    monkeypatch.setattr(worker, "_parked", broken)
    put("c-1")
    worker.handle_job_failure(fetch(connection), worker.queues[0])
    assert connection.zscore("rq:failed:calls", "c-1")


def test_a_worker_is_seen_again_after_redis_lost_its_memory(connection, worker):
    connection.flushall()
    worker.run_maintenance_tasks()
    assert connection.smembers("rq:workers") == {worker.key.encode()}
    assert connection.hget(worker.key, "queues") == b"calls"


def test_a_heartbeat_renews_the_lease_and_never_brings_a_dropped_job_back(connection, put, worker):
    put("c-1")
    job = fetch(connection)
    execution = worker.prepare_execution(job)
    connection.delete(job.key)
    connection.zadd("rq:wip:calls", {execution.composite_key: time.time() + 1})
    worker.maintain_heartbeats(job, execution)
    assert not connection.exists(job.key)
    assert connection.zscore("rq:wip:calls", execution.composite_key) > time.time() + LEASE_S - 2


def test_a_heartbeat_that_fails_does_not_end_the_worker(connection, put, worker, monkeypatch):
    put("c-1")
    job = fetch(connection)
    execution = worker.prepare_execution(job)

    def refuse(_: object) -> None:
        raise redis.ConnectionError

    with monkeypatch.context() as patch:
        patch.setattr(redis.client.Pipeline, "execute", refuse)
        worker.maintain_heartbeats(job, execution)
        worker.run_maintenance_tasks()
    assert "c-1" in queues.presence(connection).running


def test_stop_signals_are_held_back_until_a_forked_process_is_ready_for_them(put, connection, worker, monkeypatch):
    held = []
    monkeypatch.setattr(HerokuWorker, "fork_work_horse", lambda *_: held.append(signal.pthread_sigmask(signal.SIG_BLOCK, [])))
    monkeypatch.setattr(worker, "_horse_pid", NOBODY)
    put("c-1")
    worker.fork_work_horse(fetch(connection), worker.queues[0])
    assert {signal.SIGTERM, signal.SIGINT} <= held[0]
    assert not {signal.SIGTERM, signal.SIGINT} & signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_a_job_that_starts_after_the_stop_signal_is_warned_too(put, connection, worker, busy):
    worker._stop_requested = True
    put("c-1")
    worker.fork_work_horse(fetch(connection), worker.queues[0])
    assert busy == [signal.SIGRTMIN]


@pytest.mark.parametrize(("status", "words"), [(None, "overdue"), (9, "SIGKILL"), (256, "exit code 1"), (0, "exit code 0")])
def test_the_end_of_a_process_is_told_in_words(status, words):
    assert describe_end(status) == words

"""One clean job for each call, in the caller's transaction; and a true picture of where jobs are."""

from __future__ import annotations

import threading
import time

import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st
from rq import Worker
from rq.job import Job
from rq.serializers import JSONSerializer

from bridge.connections import web_connection
from bridge.work import queues


def fetch(connection, call_key="c-1") -> Job:
    return Job.fetch(call_key, connection=connection, serializer=JSONSerializer)


def forget(connection, call_key="c-1") -> None:
    with connection.pipeline() as pipe:
        pipe.multi()
        queues.forget(pipe, call_key)
        pipe.execute()


def drop(connection, enqueued_at: bytes | str, call_key="c-1") -> None:
    with connection.pipeline() as pipe:
        queues.drop(pipe, call_key, enqueued_at)
        pipe.execute()


def enqueued_at(connection) -> bytes:
    return connection.hget("rq:job:c-1", "enqueued_at")


def test_the_wire_format_stays():
    """Jobs of the version before wait in Redis while a deploy is under way: a changed name here strands them."""
    assert (queues.QUEUE, queues.JOB) == ("calls", "handlers.run_call.run_call")


def test_put_writes_a_job_that_another_version_can_run(connection):
    with connection.pipeline() as pipe:
        pipe.multi()
        queues.put(pipe, "c-1", failure_ttl=77)
        pipe.execute()
    job = fetch(connection)
    assert (job.func_name, job.args, job.kwargs) == ("handlers.run_call.run_call", ["c-1"], {})
    assert (job.result_ttl, job.failure_ttl, job.timeout) == (0, 77, queues.JOB_TIMEOUT_S)
    assert job.description == "call"
    assert connection.lrange("rq:queue:calls", 0, -1) == [b"c-1"]
    assert connection.ttl("rq:job:c-1") == -1


def test_a_discarded_transaction_leaves_nothing(connection):
    with connection.pipeline() as pipe:
        pipe.multi()
        queues.put(pipe, "c-1", failure_ttl=77)
        pipe.reset()
    assert connection.keys() == []


def test_a_transaction_that_lost_its_race_leaves_nothing(connection):
    with connection.pipeline() as pipe:
        pipe.watch("entry")
        connection.set("entry", "changed by another")
        pipe.multi()
        queues.put(pipe, "c-1", failure_ttl=77)
        with pytest.raises(redis.WatchError):
            pipe.execute()
    assert connection.keys() == [b"entry"]


def test_nothing_is_sent_outside_the_transaction(redis_url, connection):
    with redis.Redis.from_url(redis_url) as fresh, connection.monitor() as monitor:
        with fresh.pipeline() as pipe:
            pipe.multi()
            queues.put(pipe, "c-1", failure_ttl=77)
            pipe.execute()
        fresh.set("end", 1)
        sent = []
        while not sent or not sent[-1].startswith("SET end"):
            sent.append(monitor.next_command()["command"])
    handshake = ("HELLO", "CLIENT", "SELECT")
    commands = [command.split()[0] for command in sent if not command.startswith(handshake)]
    assert (commands[0], commands[-2], commands[-1]) == ("MULTI", "EXEC", "SET")
    assert commands.count("MULTI") == commands.count("EXEC") == 1


@pytest.mark.parametrize("change", [lambda pipe: queues.put(pipe, "c-1", failure_ttl=77), lambda pipe: queues.forget(pipe, "c-1")])
def test_a_job_is_not_touched_without_a_transaction(connection, put, change):
    put("c-1")
    with connection.pipeline() as pipe:
        pipe.watch("entry")
        with pytest.raises(RuntimeError, match="multi"):
            change(pipe)
    assert connection.exists("rq:job:c-1")


def test_put_on_a_queued_call_leaves_one_job(connection, put):
    put("c-1")
    put("c-2")
    put("c-1")
    assert connection.lrange("rq:queue:calls", 0, -1) == [b"c-2", b"c-1"]


def test_put_on_a_failed_call_leaves_one_clean_job(connection, put):
    put("c-1", "fail")
    fail_in_rq(connection)
    assert connection.zscore("rq:failed:calls", "c-1")
    assert connection.exists("rq:results:c-1")
    put("c-1")
    assert connection.zscore("rq:failed:calls", "c-1") is None
    assert not connection.exists("rq:results:c-1")
    assert connection.ttl("rq:job:c-1") == -1
    assert fetch(connection).get_status() == "queued"
    assert fetch(connection)._exc_info is None
    assert connection.lrange("rq:queue:calls", 0, -1) == [b"c-1"]


def fail_in_rq(connection, call_key="c-1") -> None:
    connection.lpop("rq:queue:calls")
    job = fetch(connection, call_key)
    with connection.pipeline() as pipe:
        job.set_status("failed", pipeline=pipe)
        job._handle_failure("Traceback", pipe)
        pipe.execute()


def test_put_on_a_finished_call_leaves_one_job_that_does_not_expire(connection, put):
    put("c-1")
    connection.lpop("rq:queue:calls")
    connection.expire("rq:job:c-1", 5)
    put("c-1")
    assert connection.ttl("rq:job:c-1") == -1
    assert connection.lrange("rq:queue:calls", 0, -1) == [b"c-1"]


def test_put_on_a_canceled_call_leaves_one_job(connection, put):
    put("c-1")
    fetch(connection).cancel()
    put("c-1")
    assert not connection.exists("rq:canceled:calls")
    assert connection.lrange("rq:queue:calls", 0, -1) == [b"c-1"]


def test_put_frees_a_call_that_was_stuck_with_a_dead_worker(connection, put):
    put("c-1")
    connection.lmove("rq:queue:calls", "rq:queue:calls:intermediate")
    connection.set("rq:queue:calls:intermediate:first_seen:c-1", time.time())
    put("c-1")
    assert queues.presence(connection) == queues.Presence(frozenset({"c-1"}), frozenset(), frozenset())
    assert not connection.exists("rq:queue:calls:intermediate:first_seen:c-1")


def test_forget_leaves_only_what_rq_keeps_for_all(connection, put):
    put("c-1", "fail")
    fail_in_rq(connection)
    put("c-1")
    forget(connection)
    assert {key.decode() for key in connection.scan_iter("rq:*")} == {"rq:queues"}


def test_forget_bears_a_call_that_rq_never_heard_of(connection):
    forget(connection, "never")
    assert connection.keys() == []


def test_drop_deletes_the_job_that_ended(connection, put):
    put("c-1")
    drop(connection, enqueued_at(connection))
    assert not connection.exists("rq:job:c-1")


def test_drop_leaves_a_job_that_was_put_again(connection, put):
    put("c-1")
    before = enqueued_at(connection)
    put("c-1")
    assert before != enqueued_at(connection)
    drop(connection, before)
    assert fetch(connection).get_status() == "queued"


def test_drop_deletes_the_rest_of_a_job_that_was_forgotten_while_it_ran(connection):
    connection.hset("rq:job:c-1", "status", "started")
    drop(connection, "2026-01-01T00:00:00.000000Z")
    assert not connection.exists("rq:job:c-1")


def test_presence_tells_where_each_job_is(connection, put):
    for call_key in ("queued", "taken", "running", "lost"):
        put(call_key)
    connection.delete("rq:queue:calls")
    connection.rpush("rq:queue:calls", "queued")
    connection.rpush("rq:queue:calls:intermediate", "taken")
    connection.zadd("rq:wip:calls", {"running:execution": time.time() + 9, "lost:execution": time.time() - 1})
    found = queues.presence(connection)
    assert found == queues.Presence(frozenset({"queued"}), frozenset({"taken"}), frozenset({"running"}))
    assert [call_key in found for call_key in ("queued", "taken", "running", "lost", "never")] == [True, True, True, False, False]


def test_presence_is_one_round_trip(connection):
    before = connection.info("commandstats").get("cmdstat_exec", {"calls": 0})["calls"]
    queues.presence(connection)
    after = connection.info("commandstats")
    assert after["cmdstat_exec"]["calls"] - before == 1


def test_depth_counts_what_waits(connection, put):
    assert queues.depth(connection) == 0
    put("c-1")
    put("c-2")
    assert queues.depth(connection) == 2


def test_tidy_keeps_what_is_of_use(connection, put):
    put("queued")
    put("taken")
    connection.lrem("rq:queue:calls", 0, "taken")
    connection.rpush("rq:queue:calls:intermediate", "taken")
    connection.zadd("rq:wip:calls", {"running:1": time.time() + 9, "late:1": time.time() - 9})
    connection.zadd("rq:failed:calls", {"failed": time.time() + 9})
    before = {key: connection.dump(key) for key in connection.scan_iter()}
    queues.tidy(connection)
    assert {key: connection.dump(key) for key in connection.scan_iter()} == before


def test_tidy_throws_away_what_is_past_its_time(connection, put):
    connection.rpush("rq:queue:calls:intermediate", "ghost")
    connection.zadd("rq:wip:calls", {"lost:1": time.time() - 90})
    connection.zadd("rq:failed:calls", {"failed": time.time() - 9})
    queues.tidy(connection)
    assert connection.keys() == []


def test_tidy_lets_the_hash_of_an_abandoned_run_expire_but_not_that_of_a_queued_call(connection, put):
    for call_key in ("abandoned", "put-again"):
        put(call_key)
        connection.zadd("rq:wip:calls", {f"{call_key}:1": time.time() - 90})
    connection.hset("rq:job:abandoned", "status", "started")
    queues.tidy(connection)
    assert connection.ttl("rq:job:abandoned") > 0
    assert connection.ttl("rq:job:put-again") == -1


def test_racing_transactions_leave_one_job(redis_url, connection):
    """Eight deliveries of one call at once, each checking the entry as the ledger does."""
    accepted = []

    def accept() -> None:
        with redis.Redis.from_url(redis_url) as client, client.pipeline() as pipe:
            while True:
                try:
                    pipe.watch("entry")
                    if pipe.exists("entry"):
                        return
                    pipe.multi()
                    pipe.set("entry", 1)
                    queues.put(pipe, "c-1", failure_ttl=77)
                    pipe.execute()
                except redis.WatchError:
                    continue
                accepted.append(1)
                return

    threads = [threading.Thread(target=accept) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(accepted) == queues.depth(connection) == 1


@given(st.from_regex(r"[A-Za-z0-9_-]{1,80}", fullmatch=True))
def test_every_call_key_is_told_from_its_execution(call_key):
    assert queues._ids([f"{call_key}:0123abcd".encode(), call_key.encode()]) == {call_key}


def register(connection, name: str) -> Worker:
    worker = Worker([queues.calls_queue(connection)], connection=connection, name=name, worker_ttl=30)
    worker.register_birth()
    return worker


def test_only_workers_that_have_lately_said_so_are_listening(connection):
    assert queues.listening(connection) == 0
    fresh, killed, ended = (register(connection, name) for name in ("fresh", "killed", "ended"))
    ended.register_death()
    assert queues.listening(connection) == 2
    connection.expire(killed.key, 59)  # as if it had been silent for its whole `worker_ttl`
    assert queues.listening(connection) == 1
    connection.delete(killed.key)
    assert queues.listening(connection) == 1
    fresh.register_death()
    assert queues.listening(connection) == 0


def test_counting_workers_leaves_the_patience_of_a_client_as_it_was(redis_url, connection):
    """RQ raises the read time-out of the pool of whoever makes a `Worker`, and `Worker.all` makes one of each."""
    register(connection, "one")
    with web_connection(redis_url) as client:
        before = dict(client.connection_pool.connection_kwargs)
        assert queues.listening(client) == 1
        assert client.connection_pool.connection_kwargs == before

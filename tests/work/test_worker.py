"""Real workers on a real Redis: what becomes of a job when processes, signals or Redis fail it."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from bridge.sandbox.redis_server import RedisServer
from bridge.work import queues
from bridge.work.worker import LEASE_S
from tests.work.processes import Processes, await_true, is_alive, processes


def pop(connection: redis.Redis, name: str) -> str:
    return await_true(lambda: connection.lpop(name), f"something in {name!r}").decode()


def began(connection: redis.Redis, group: Processes) -> tuple[str, int]:
    """The call that has begun, and the process that runs it."""
    call_key, pid = pop(connection, "began").split()
    group.others.append(int(pid))
    return call_key, int(pid)


def traces(connection: redis.Redis, call_key: str) -> set[str]:
    """Everywhere in RQ's keys where a call is left."""
    named = {key.decode() for key in connection.scan_iter(f"rq:*{call_key}*")}
    lists = {key.decode() for key in connection.scan_iter("rq:queue:*") if call_key.encode() in connection.lrange(key, 0, -1)}
    sets = {
        key.decode()
        for key in connection.scan_iter("rq:*:calls", _type="zset")
        if any(member.decode().startswith(call_key) for member in connection.zrange(key, 0, -1))
    }
    return named | lists | sets


def await_no_trace(connection: redis.Redis, call_key: str) -> None:
    await_true(lambda: not traces(connection, call_key), f"no trace of {call_key}")


def test_a_job_runs_and_leaves_no_trace(connection, put, group):
    group.start_worker()
    put("c-1")
    assert pop(connection, "ended") == "c-1"
    await_no_trace(connection, "c-1")


def test_the_log_names_the_call_and_not_what_it_is_about(connection, put, group):
    group.start_worker()
    put("c-1")
    pop(connection, "ended")
    assert "c-1" in group.await_log("Job OK")
    assert "jobs.run" not in group.log()


def test_a_running_job_has_a_short_lease(connection, put, group):
    group.start_worker()
    put("c-1", "wait")
    began(connection, group)
    assert queues.presence(connection).running == {"c-1"}
    (_, expires), *_ = connection.zrange("rq:wip:calls", 0, -1, withscores=True)
    assert expires - time.time() <= LEASE_S
    connection.rpush("go:c-1", 1)
    pop(connection, "ended")


def test_a_failure_that_the_ledger_will_repeat_is_not_kept_by_rq(connection, put, group):
    group.start_worker()
    put("c-1", "fail")
    began(connection, group)
    await_no_trace(connection, "c-1")
    assert not connection.exists("rq:failed:calls")


def test_a_call_that_needs_attention_is_among_rqs_failed_jobs(connection, put, group):
    group.start_worker()
    connection.sadd("parked", "c-1")
    put("c-1", "fail")
    await_true(lambda: connection.zscore("rq:failed:calls", "c-1"), "a failed job")
    assert 0 < connection.ttl("rq:job:c-1") <= 600
    assert "ValueError: as told" in queues.calls_queue(connection).fetch_job("c-1").latest_result().exc_string
    await_true(lambda: not connection.zcard("rq:wip:calls"), "the lease to go")


def test_a_call_that_was_put_while_its_job_ended_runs_once_more(connection, put, group):
    group.start_worker()
    put("c-1", "wait")
    began(connection, group)
    put("c-1")
    connection.rpush("go:c-1", 1)
    assert began(connection, group)[0] == "c-1"
    pop(connection, "ended")
    pop(connection, "ended")
    await_no_trace(connection, "c-1")


def test_a_failed_call_that_was_put_again_meanwhile_is_not_kept_as_failed(connection, put, group):
    group.start_worker()
    connection.sadd("parked", "c-1")
    put("c-1", "wait")
    _, pid = began(connection, group)
    put("c-1")
    os.kill(pid, signal.SIGKILL)
    assert pop(connection, "ended") == "c-1"
    await_no_trace(connection, "c-1")


def test_the_ledger_is_told_at_once_when_the_process_of_a_job_is_killed(connection, put, group):
    worker = group.start_worker()
    put("c-1", "die")
    assert pop(connection, "died") == "c-1 SIGKILL"
    await_no_trace(connection, "c-1")
    put("c-2")
    assert pop(connection, "ended") == "c-2"
    assert worker.poll() is None


def test_a_killed_job_that_needs_attention_is_among_rqs_failed_jobs(connection, put, group):
    group.start_worker()
    connection.sadd("parked", "c-1")
    put("c-1", "die")
    await_true(lambda: connection.zscore("rq:failed:calls", "c-1"), "a failed job")


def test_a_broken_ledger_does_not_end_the_worker(connection, put, group):
    group.start_worker()
    connection.set("ledger is broken", 1)
    put("c-1", "die")
    put("c-2")
    assert pop(connection, "ended") == "c-2"
    assert "the sweeper will see it" in group.log()


def test_a_lost_machine_shows_by_its_lease_and_is_not_called_a_failure(connection, put, group):
    worker = group.start_worker()
    put("c-1", "wait")
    _, pid = began(connection, group)
    worker.kill()
    os.kill(pid, signal.SIGKILL)
    assert "c-1" in queues.presence(connection)
    # Not waited for: the clock of the lease is moved on instead.
    (member, _), *_ = connection.zrange("rq:wip:calls", 0, -1, withscores=True)
    connection.zadd("rq:wip:calls", {member: time.time() - 90})
    assert "c-1" not in queues.presence(connection)
    worker.wait()
    group.start_worker()
    await_true(lambda: not connection.exists("rq:wip:calls"), "the lease to be forgotten")
    assert not connection.exists("rq:failed:calls")
    put("c-1")
    assert pop(connection, "ended") == "c-1"
    await_true(lambda: not connection.exists("rq:job:c-1"), "the job to be dropped")


def test_a_job_taken_by_a_worker_that_died_is_not_called_a_failure(connection, put, group):
    put("c-1")
    connection.lmove("rq:queue:calls", "rq:queue:calls:intermediate")
    connection.set("rq:queue:calls:intermediate:first_seen:c-1", time.time() - 3600)
    group.start_worker()
    put("c-2")
    pop(connection, "ended")
    assert queues.presence(connection).taken == {"c-1"}
    assert not connection.exists("rq:failed:calls")


def test_a_job_outlives_the_stop_signals_of_a_deploy(connection, put, group):
    worker = group.start_worker()
    put("c-1", "wait")
    _, pid = began(connection, group)
    worker.terminate()  # Heroku signals every process, and then the supervisor passes its own signal on
    os.kill(pid, signal.SIGTERM)
    group.await_log("Imminent shutdown")
    deadline = time.monotonic() + 1.2  # RQ takes a second signal for a cold stop when it comes more than a second later
    await_true(lambda: time.monotonic() > deadline, "a second to pass")
    worker.terminate()
    os.kill(pid, signal.SIGTERM)
    group.await_log("already stopping")
    assert is_alive(pid)
    connection.rpush("go:c-1", 1)
    assert pop(connection, "ended") == "c-1"
    assert worker.wait(10) == 0
    await_no_trace(connection, "c-1")
    assert not connection.exists("rq:workers")


def test_an_idle_worker_stops_at_once(group):
    worker = group.start_worker()
    began_at = time.monotonic()
    worker.terminate()
    assert worker.wait(10) == 0
    assert time.monotonic() - began_at < 3


def test_a_job_that_outstays_the_warning_is_interrupted_and_the_ledger_told(connection, put, group):
    worker = group.start("hasty worker")
    group.await_log("Listening on")
    put("c-1", "wait")
    began(connection, group)
    worker.terminate()
    assert pop(connection, "died") == "c-1 shutdown"
    assert worker.wait(10) == 0
    await_no_trace(connection, "c-1")
    assert not connection.exists("ended")


@pytest.mark.parametrize("options", ["", "?socket_timeout=2"])
def test_an_idle_worker_waits_in_one_go_and_is_known_to_listen(connection, group, options):
    """Longer than redis-py waits for an answer by itself: a wait that breaks off hears of no job, and says nothing of the worker."""
    group.redis_url += options
    group.start_worker()
    await_true(lambda: waits_s(connection) >= 7, "seven seconds of one wait", within_s=15)
    assert queues.listening(connection) == 1


def waits_s(connection):
    """For how long the one client that waits for a job has been waiting."""
    return max((int(client["idle"]) for client in connection.client_list() if client["cmd"] == "blmove"), default=0)


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")
def test_a_worker_has_one_thread_and_no_channel(connection, group):
    worker = group.start_worker()
    assert len(list(Path(f"/proc/{worker.pid}/task").iterdir())) == 1
    assert connection.pubsub_channels() == []


@pytest.fixture
def mortal_redis() -> Iterator[RedisServer]:
    folder = Path(tempfile.mkdtemp(prefix="cb"))
    server = RedisServer(folder).start()
    yield server
    server.stop()
    shutil.rmtree(folder, ignore_errors=True)


def test_an_idle_worker_survives_an_outage_of_redis(mortal_redis, put, tmp_path):
    with processes(mortal_redis.url, tmp_path) as group, redis.Redis.from_url(mortal_redis.url) as client:
        worker = group.start_worker()
        mortal_redis.stop()
        time.sleep(3)  # the length of the outage is what is tested
        mortal_redis.start()
        back = time.monotonic()
        put("c-1", client=client)
        assert pop(client, "ended") == "c-1"
        assert time.monotonic() - back < 2.5
        assert worker.poll() is None


def test_a_job_that_ends_while_redis_is_away_is_not_made_a_failure(mortal_redis, put, tmp_path):
    with processes(mortal_redis.url, tmp_path) as group, redis.Redis.from_url(mortal_redis.url) as client:
        group.start_worker()
        put("c-1", "outage", client=client)
        began(client, group)
        mortal_redis.stop()
        group.await_log("the outage has begun")
        time.sleep(1)  # the length of the outage is what is tested: RQ's last words on the job fall into it
        mortal_redis.start()
        await_no_trace(client, "c-1")
        assert "exception raised" not in group.log()

"""What the design relies on, or works around, in RQ itself. When one of these fails after an upgrade, the code named with it may change."""

from __future__ import annotations

import inspect
import json
import time
import zlib

import pytest
import rq
from rq import Queue, Worker
from rq.exceptions import DuplicateJobError
from rq.job import Job
from rq.registry import StartedJobRegistry
from rq.results import Result
from rq.serializers import JSONSerializer
from rq.timeouts import JobTimeoutException
from rq.worker import HerokuWorker

JOB = "tests.work.jobs.run"


@pytest.fixture
def queue(connection) -> Queue:
    return Queue("calls", connection=connection, serializer=JSONSerializer)


def test_the_version_is_the_one_that_was_tried():
    assert rq.VERSION.split(".")[0] == "3"


@pytest.mark.parametrize("job_id", ["v3:MdI9", "a.b", "a b", "a@b", "a/b", "é", "", "a\n"])
def test_a_job_id_is_letters_digits_underscore_and_dash(queue, job_id):
    """Hence the call key of our own: a Telnyx id has a colon."""
    with pytest.raises(ValueError, match="Job ID"):
        queue.enqueue_call(JOB, job_id=job_id)


def test_a_job_id_may_be_long(queue):
    assert queue.enqueue_call(JOB, job_id="a" * 1000).id == "a" * 1000


def test_a_second_enqueue_lists_a_job_twice(queue, connection):
    """Hence the LREM in `put`."""
    queue.enqueue_call(JOB, job_id="c-1")
    queue.enqueue_call(JOB, job_id="c-1")
    assert connection.lrange(queue.key, 0, -1) == [b"c-1", b"c-1"]


def test_an_enqueue_keeps_the_time_to_live_of_the_hash_that_it_writes_over(queue, connection):
    """Hence the DEL in `put`: a call that waits longer than what is left of it would be lost without a word."""
    queue.enqueue_call(JOB, job_id="c-1")
    connection.expire("rq:job:c-1", 50)
    queue.enqueue_call(JOB, job_id="c-1")
    assert 0 < connection.ttl("rq:job:c-1") <= 50


def test_an_enqueue_leaves_the_row_among_the_failed_jobs(queue, connection):
    """Hence the ZREM in `put`: `rq requeue --all` would run a call that is done."""
    job = queue.enqueue_call(JOB, job_id="c-1")
    queue.failed_job_registry.add(job, 100)
    queue.enqueue_call(JOB, job_id="c-1")
    assert connection.zscore("rq:failed:calls", "c-1")


def test_an_enqueue_in_a_pipeline_waits_for_it(queue, connection):
    queue.get_redis_server_version()
    with connection.pipeline() as pipe:
        pipe.multi()
        queue.enqueue_call(JOB, job_id="c-1", pipeline=pipe)
        assert connection.keys() == []
        pipe.execute()
    assert connection.lrange(queue.key, 0, -1) == [b"c-1"]


def test_unique_ignores_the_pipeline(queue, connection):
    """Hence no `unique=True`: the job would exist without its entry. The ledger's compare-and-set tells repeats."""
    with connection.pipeline() as pipe:
        pipe.multi()
        queue.enqueue_call(JOB, job_id="c-1", pipeline=pipe, unique=True)
        pipe.reset()
    assert connection.lrange(queue.key, 0, -1) == [b"c-1"]


def test_unique_lasts_only_as_long_as_the_hash(queue, connection):
    queue.enqueue_call(JOB, job_id="c-1", unique=True)
    with pytest.raises(DuplicateJobError):
        queue.enqueue_call(JOB, job_id="c-1", unique=True)
    connection.delete("rq:job:c-1")
    queue.enqueue_call(JOB, job_id="c-1", unique=True)


def test_a_job_in_json_is_no_pickle(queue, connection):
    queue.enqueue_call(JOB, args=("c-1",), job_id="c-1")
    assert json.loads(zlib.decompress(connection.hget("rq:job:c-1", "data"))) == [JOB, None, ["c-1"], {}]


def test_a_description_that_is_not_given_spells_out_the_arguments(queue):
    """Hence `description="call"`: it reaches logs and alerts."""
    assert "'c-1'" in queue.enqueue_call(JOB, args=("c-1",)).description


def test_one_queue_is_popped_by_way_of_the_intermediate_list_and_several_are_not(queue, connection):
    """Hence one queue for each worker: what a worker holds when it dies is still listed."""
    queue.enqueue_call(JOB, job_id="c-1")
    Queue.dequeue_any([queue], None, connection=connection, serializer=JSONSerializer)
    assert connection.lrange("rq:queue:calls:intermediate", 0, -1) == [b"c-1"]
    other = Queue("other", connection=connection, serializer=JSONSerializer)
    queue.enqueue_call(JOB, job_id="c-2")
    Queue.dequeue_any([queue, other], None, connection=connection, serializer=JSONSerializer)
    assert connection.lrange("rq:queue:calls:intermediate", 0, -1) == [b"c-1"]


def test_a_popped_id_without_a_job_stays_in_the_intermediate_list(queue, connection):
    """Hence the ghosts that `tidy` looks for."""
    connection.rpush(queue.key, "ghost")
    assert Queue.dequeue_any([queue], None, connection=connection, serializer=JSONSerializer) is None
    assert connection.lrange("rq:queue:calls:intermediate", 0, -1) == [b"ghost"]


def test_rqs_own_cleaning_fails_a_job_whose_lease_ran_out(queue, connection):
    """Hence a `tidy` of our own: whether a call was abandoned is the ledger's to say."""
    queue.enqueue_call(JOB, job_id="c-1")
    connection.hset("rq:job:c-1", "status", "started")
    connection.zadd("rq:wip:calls", {"c-1:1": time.time() - 1})
    StartedJobRegistry(queue=queue).cleanup()
    assert connection.zscore("rq:failed:calls", "c-1")


def test_reading_the_started_registry_cleans_it(queue, connection):
    """Hence `presence` reads the sorted set itself."""
    connection.zadd("rq:wip:calls", {"c-1:1": time.time() - 1})
    assert queue.started_job_registry.count == 0
    assert not connection.exists("rq:wip:calls")


def test_a_heartbeat_brings_a_deleted_hash_back(queue, connection):
    """Hence `maintain_heartbeats` and `handle_execution_ended` of our own."""
    job = queue.enqueue_call(JOB, job_id="c-1")
    connection.delete(job.key)
    job.heartbeat(job.enqueued_at, 10)
    assert list(connection.hgetall(job.key)) == [b"last_heartbeat"]


def test_a_worker_needs_a_long_lease_unless_told_otherwise(queue, connection):
    worker = Worker([queue], connection=connection)
    assert worker.get_heartbeat_ttl(queue.enqueue_call(JOB, job_id="c-1")) >= 60


def test_the_results_of_a_failed_job_expire_only_if_the_failure_does(queue, connection):
    """Hence an explicit `failure_ttl`."""
    for job_id, ttl in (("kept", None), ("c-1", 60)):
        job = queue.enqueue_call(JOB, job_id=job_id, failure_ttl=ttl)
        Result.create_failure(job, job.failure_ttl, exc_string="")
    assert connection.ttl("rq:results:kept") == -1
    assert 0 < connection.ttl("rq:results:c-1") <= 60


def test_a_timeout_can_be_swallowed_by_the_job():
    """A job that catches Exception catches its own timeout, too."""
    assert issubclass(JobTimeoutException, Exception)


def test_the_methods_that_our_worker_replaces_are_still_called():
    """A renamed one would silently bring RQ's own behaviour back."""
    replaced = {
        "get_heartbeat_ttl": Worker.prepare_job_execution,
        "maintain_heartbeats": Worker.monitor_work_horse,
        "handle_work_horse_killed": Worker.monitor_work_horse,
        "handle_job_failure": Worker.monitor_work_horse,
        "fork_work_horse": Worker.execute_job,
        "handle_execution_ended": Worker._finalize_success,
        "handle_job_success": Worker._finalize_success,
        "handle_exception": Worker._finalize_failure,
        "setup_work_horse_signals": Worker.main_work_horse,
        "run_maintenance_tasks": Worker.work,
        "subscribe": Worker.bootstrap,
        "request_force_stop": Worker.request_stop,
        "handle_warm_shutdown_request": Worker.request_stop,
    }
    assert [name for name, caller in replaced.items() if f"self.{name}" not in inspect.getsource(caller)] == []
    assert {"imminent_shutdown_delay", "frame_properties", "max_connection_wait_time", "log_result_lifespan"} <= set(dir(HerokuWorker))


def test_a_job_finds_its_function_by_its_path(queue):
    job = Job.fetch(queue.enqueue_call(JOB, job_id="c-1").id, connection=queue.connection, serializer=JSONSerializer)
    assert job.func.__name__ == "run"

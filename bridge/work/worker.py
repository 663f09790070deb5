"""The RQ worker of this project: RQ's own for Heroku, with short leases, and with the ledger's word in place of RQ's memory.

What is changed, and why (read in and tried on rq 3.0.0; tests/work/test_worker.py):

* A job that ended is deleted only if the call was not put again meanwhile.
* A job goes to RQ's failed registry only if the ledger says that the call needs attention.
* A process that died under a job is reported to the ledger at once; a whole dyno that died shows by its lease within seconds.
* Stop signals never cost a job its attempt: not when every process gets one, not when one comes twice, not while RQ forks.
* Maintenance deletes and never decides. No second thread, no remote commands: a process that forks should have one thread.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import redis
from redis.client import Pipeline
from rq import Queue
from rq.exceptions import ShutDownImminentException
from rq.executions import Execution
from rq.job import Job
from rq.registry import StartedJobRegistry
from rq.serializers import JSONSerializer
from rq.utils import as_text, now, utcformat
from rq.worker import HerokuWorker
from rq.worker_registration import clean_worker_registry, register

from bridge.connections import await_redis, worker_connection
from bridge.work import queues

WORKER_TTL_S = 30  # RQ blocks for a job half as long, and looks after itself between two such waits
HEARTBEAT_S = 5
LEASE_S = 15  # three heartbeats: a job whose worker is gone shows as not running after this long
MAINTENANCE_S = 10

Parked = Callable[[str], bool]
HorseDied = Callable[[str, str], None]

# HerokuWorker warns a running job of the coming end with SIGRTMIN, which macOS does not have: there it is not warned.
_WARNING = {signal.SIGRTMIN} if hasattr(signal, "SIGRTMIN") else set()
_STOP_SIGNALS = frozenset({signal.SIGTERM, signal.SIGINT} | _WARNING)


class CallWorker(HerokuWorker):
    """One RQ worker for the one queue. With more queues RQ falls back to BLPOP and loses the job of a worker that dies.

    `parked(call_key)` says whether the ledger shows a call as needing attention. `horse_died(call_key, how)` tells the ledger that the
    process which ran a call died (`SIGKILL`, `exit code 1`, `overdue`), or was interrupted by a `shutdown`; it may hear about a call
    whose run was settled or which was put again before, and must bear that. Errors of both are logged, and the worker goes on.
    `preload` names modules to import once, before a process is forked for each job; none of them may open a connection, since
    processes must not share a socket. To count the workers of a Redis use `queues.listening`, which makes none.
    """

    # Heroku kills 30 s after SIGTERM (https://devcenter.heroku.com/articles/dyno-shutdown-behavior); the supervisor, after 25 s.
    imminent_shutdown_delay = 18
    # Of the interrupted frame, no local variables: they may hold what a caller said.
    frame_properties = ["f_code", "f_lasti", "f_lineno"]  # noqa: RUF012 - RQ's own class attribute, read only
    # RQ would wait ever longer, up to a minute, while Redis is away; calls are waiting as soon as it is back.
    max_connection_wait_time = 2.0
    log_result_lifespan = False

    def __init__(self, connection: redis.Redis, *, parked: Parked, horse_died: HorseDied, preload: Sequence[str] = ()) -> None:
        super().__init__(
            [queues.calls_queue(connection)],
            connection=connection,
            serializer=JSONSerializer,
            worker_ttl=WORKER_TTL_S,
            job_monitoring_interval=HEARTBEAT_S,
            maintenance_interval=MAINTENANCE_S,
            log_job_description=False,
            default_result_ttl=0,
        )
        self._parked = parked
        self._tell_horse_died = horse_died
        self._preload = tuple(preload)
        self._stopping = False

    def bootstrap(self, *args: Any, **options: Any) -> None:  # noqa: ANN401 - RQ's logging options, passed on unread
        for module in self._preload:
            importlib.import_module(module)
        super().bootstrap(*args, **options)

    def subscribe(self) -> None:
        """No channel for remote commands (`rq worker` could be told to kill a job by it), hence no thread and one connection less."""

    # Leases

    def get_heartbeat_ttl(self, job: Job, working_time: float = 0.0) -> int:
        del job, working_time
        return LEASE_S

    def maintain_heartbeats(self, job: Job, execution: Execution) -> None:
        """Renew the lease, and leave the job's hash alone.

        RQ's own would bring a deleted hash back and then delete it a second time, which by then may hit the hash of a call that was put
        again. A heartbeat that fails is made up for by the next; RQ would end the worker, and with it the guard of a running job.
        """
        try:
            with self.connection.pipeline() as pipe:
                self.heartbeat(WORKER_TTL_S + 60, pipeline=pipe)
                execution.heartbeat(job.started_job_registry, LEASE_S, pipeline=pipe)
                pipe.execute()
        except (redis.ConnectionError, redis.TimeoutError) as error:
            self.log.warning("Worker %s: the lease of %s could not be renewed (%s)", self.name, job.id, type(error).__name__)

    # The end of a job

    def handle_execution_ended(self, job: Job, queue: Queue, heartbeat_ttl: int) -> None:
        """Without RQ's write to the job's hash, which would bring a deleted one back."""
        del queue, heartbeat_ttl
        job.ended_at = now()

    def handle_job_success(self, job: Job, queue: Queue, started_job_registry: StartedJobRegistry, execution: Execution) -> None:
        """RQ would turn an error here into a failure of the job, whose work is done."""
        del queue, started_job_registry
        self._leave(job, execution, self.increment_successful_job_count)

    def handle_exception(self, job: Job, *exc_info: object) -> None:
        if exc_info and exc_info[0] is ShutDownImminentException:  # a deploy is no failure: no alert, and the call goes on elsewhere
            self.log.warning("Worker %s: job %s was interrupted by a shutdown", self.name, job.id)
            self._tell_ledger(job, "shutdown")
        else:
            super().handle_exception(job, *exc_info)

    def handle_job_failure(
        self,
        job: Job,
        queue: Queue,
        started_job_registry: StartedJobRegistry | None = None,
        exc_string: str = "",
        execution: Execution | None = None,
    ) -> None:
        if self._needs_attention(job):
            super().handle_job_failure(job, queue, started_job_registry, exc_string, execution)
        else:
            self._leave(job, execution, self.increment_failed_job_count)

    def handle_work_horse_killed(self, job: Job, retpid: int | None, ret_val: int | None, rusage: object) -> None:
        del retpid, rusage
        how = describe_end(ret_val)
        self.log.warning("Worker %s: the process that ran job %s died (%s)", self.name, job.id, how)
        self._tell_ledger(job, how)

    def _tell_ledger(self, job: Job, how: str) -> None:
        try:
            self._tell_horse_died(job.id, how)
        except Exception:
            self.log.exception("Worker %s: the ledger was not told that %s was cut short; the sweeper will see it", self.name, job.id)

    def _needs_attention(self, job: Job) -> bool:
        """The ledger's word. Where it can't be asked, the failure is shown rather than hidden: the sweeper clears it if it is wrong."""
        try:
            return self._parked(job.id) and not self._was_put_again(job)
        except Exception:
            self.log.exception("Worker %s: the ledger could not be asked about %s", self.name, job.id)
            return True

    def _was_put_again(self, job: Job) -> bool:
        stored = self.connection.hget(job.key, "enqueued_at")
        return stored is not None and as_text(stored) != _enqueued_at(job)

    def _leave(self, job: Job, execution: Execution | None, count: Callable[[Pipeline], None]) -> None:
        """Drop the job, its lease and the rest of this run in one transaction."""
        try:
            with self.connection.pipeline() as pipe:
                queues.drop(pipe, job.id, _enqueued_at(job))
                self.cleanup_execution(job, pipe, execution)
                count(pipe)
                pipe.execute()
        except redis.RedisError as error:
            self.log.warning("Worker %s: job %s ended but is still listed (%s)", self.name, job.id, type(error).__name__)

    # Signals and processes

    def request_stop(self, signum: int, frame: FrameType | None) -> None:
        """Stop once. Two signals at the same instant would both get here, and the second warning interrupts the job without delay."""
        if self._stopping:
            self.request_force_stop(signum, frame)
            return
        self._stopping = True
        super().request_stop(signum, frame)  # type: ignore[no-untyped-call]  # - RQ has not typed it

    def request_force_stop(self, signum: int, frame: FrameType | None) -> None:
        """Change nothing on a second stop signal. RQ would kill the running job.

        Heroku signals every process, and the supervisor passes its own signal on, so a second one is the rule. A worker that does not
        end in time is killed by the supervisor.
        """
        del signum, frame
        self.log.info("Worker %s: already stopping, the running job is being finished", self.name)

    def handle_warm_shutdown_request(self) -> None:
        if _WARNING:
            super().handle_warm_shutdown_request()  # type: ignore[no-untyped-call]  # - RQ has not typed it

    def fork_work_horse(self, job: Job, queue: Queue) -> None:
        """Fork with stop signals held back until the child has its process group and its handlers.

        A signal in that window would end the attempt, and RQ's warning to the child's group would hit the parent's group instead.
        """
        signal.pthread_sigmask(signal.SIG_BLOCK, _STOP_SIGNALS)
        try:
            super().fork_work_horse(job, queue)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.setpgid(self.horse_pid, self.horse_pid)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOP_SIGNALS)
        if self._stop_requested:  # asked to stop after RQ took the job and before there was a child to warn
            self.handle_warm_shutdown_request()

    def setup_work_horse_signals(self) -> None:
        if _WARNING:
            super().setup_work_horse_signals()  # type: ignore[no-untyped-call]  # - RQ has not typed it
        else:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOP_SIGNALS)

    # Maintenance

    def run_maintenance_tasks(self) -> None:
        """Delete what has expired; decide nothing. RQ's own would fail jobs that it takes for abandoned or stuck."""
        self.last_cleaned_at = now()  # type: ignore[assignment]  # - RQ has not typed it
        try:
            self._stay_registered()
            queues.tidy(self.connection)
            clean_worker_registry(self.queues[0])
        except redis.RedisError as error:
            self.log.warning("Worker %s: maintenance has to wait (%s)", self.name, type(error).__name__)

    def _stay_registered(self) -> None:
        """Redis may have lost its memory since this worker began, and RQ registers a worker but once."""
        with self.connection.pipeline() as pipe:
            pipe.hset(self.key, mapping=self.serialize())
            register(self, pipe)
            pipe.execute()


def run_worker(redis_url: str, *, parked: Parked, horse_died: HorseDied, preload: Sequence[str] = ()) -> None:
    """Work in this process until a stop signal comes or RQ gives up, as it does when Redis goes away in the middle of a job.

    In the latter case it returns or raises a redis error, and whoever runs it starts it again; a start waits for Redis first.

    RQ raises the read timeout of a pool that is too impatient for its blocking pop, but a connection that is open by then keeps its own
    (rq/worker/base.py, `_set_connection`). Each wait of an idle worker would break off, again and again, and nobody would hear that it
    still listens. So the connection is made here, and as patient as RQ needs it.
    """
    connection = worker_connection(redis_url)
    connection.connection_pool.connection_kwargs["socket_timeout"] = WORKER_TTL_S  # afterwards, since options in REDIS_URL would win
    await_redis(connection)
    CallWorker(connection, parked=parked, horse_died=horse_died, preload=preload).work()


def describe_end(wait_status: int | None) -> str:
    """How a process ended, for people: `SIGKILL`, `exit code 1`, or `overdue` where RQ itself put an end to it."""
    if wait_status is None:
        return "overdue"
    code = os.waitstatus_to_exitcode(wait_status)
    return f"exit code {code}" if code >= 0 else signal.Signals(-code).name


def _enqueued_at(job: Job) -> str:
    """As RQ writes it to the hash: to the microsecond, in UTC."""
    return utcformat(job.enqueued_at) if job.enqueued_at else ""

"""The one queue, and everything that is done to RQ's keys outside a worker.

RQ delivers; the ledger knows. A job is named by its call key and carries nothing else, so that it can be dropped, put again or run
twice without harm. What is written here is always queued on the caller's transaction: the entry and its job change together or not
at all.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import redis
from redis.client import Pipeline
from rq import Queue
from rq.executions import ExecutionRegistry
from rq.intermediate_queue import IntermediateQueue
from rq.job import Job
from rq.registry import CanceledJobRegistry, FailedJobRegistry, StartedJobRegistry
from rq.results import Result
from rq.serializers import JSONSerializer
from rq.worker_registration import get_keys

QUEUE = "calls"
JOB = "handlers.run_call.run_call"  # wire format: jobs that wait in Redis name their function by this text
JOB_TIMEOUT_S = 120

_OLDEST_SERVER = (6, 2, 0)  # RQ takes jobs with BLMOVE from this version on, and without it a worker's death loses one
_ABANDONED_TTL_S = 86_400
_WORKER_KEY_EXTRA_MS = 60_000  # RQ keeps a worker's key for `worker_ttl` and so much more after each heartbeat
_LEASE_GRACE_S = 60  # a worker that was frozen may still renew its lease when it wakes, as long as the row is there

# Drop a job that has ended, unless it was put again while it ran: then the hash belongs to the next run.
# KEYS: 1 job hash, 2 results, 3 failed registry, 4 job's executions. ARGV: 1 `enqueued_at` of the run that ended, 2 call key.
_DROP_UNLESS_PUT_AGAIN = """
local enqueued_at = redis.call('HGET', KEYS[1], 'enqueued_at')
if enqueued_at and enqueued_at ~= ARGV[1] then
  return 0
end
redis.call('DEL', KEYS[1], KEYS[2], KEYS[4])
redis.call('ZREM', KEYS[3], ARGV[2])
return 1
"""

# Forget leases that ran out a while ago. Whether the call has to run again is the ledger's to say; all that is done here is to let
# the hash of a run that never ended expire. A job that was put again has a fresh hash with the status `queued` and is left alone.
# KEYS: 1 registry of running jobs. ARGV: 1 latest expiry to forget, 2 prefix of job hashes, 3 time to live of an abandoned hash in seconds.
_FORGET_EXPIRED_LEASES = """
local expired = redis.call('ZRANGEBYSCORE', KEYS[1], 0, ARGV[1])
for _, member in ipairs(expired) do
  local job = ARGV[2] .. string.match(member, '^[^:]+')
  if redis.call('HGET', job, 'status') == 'started' then
    redis.call('EXPIRE', job, ARGV[3])
  end
  redis.call('ZREM', KEYS[1], member)
end
return #expired
"""

# Take out of the intermediate list what no worker will ever run: RQ pops a job whose hash is gone, shrugs, and leaves its id there.
# KEYS: 1 intermediate list. ARGV: 1 prefix of job hashes.
_FORGET_GHOSTS = """
local gone = 0
for _, id in ipairs(redis.call('LRANGE', KEYS[1], 0, -1)) do
  if redis.call('EXISTS', ARGV[1] .. id) == 0 then
    gone = gone + redis.call('LREM', KEYS[1], 0, id)
  end
end
return gone
"""


@dataclass(frozen=True, slots=True)
class Presence:
    """Where RQ has jobs, at one instant. A call that is in none of the three sets will not run unless it is put again."""

    queued: frozenset[str]  # waiting for a worker
    taken: frozenset[str]  # popped but not started; one that stays here for seconds belonged to a worker that died
    running: frozenset[str]  # with a lease that has not run out

    def __contains__(self, call_key: object) -> bool:
        return call_key in self.queued or call_key in self.taken or call_key in self.running


def calls_queue(connection: redis.Redis) -> Queue:
    """RQ's queue of calls. Its jobs are JSON: a pickle would let whoever can write to Redis run code in a worker."""
    return Queue(QUEUE, connection=connection, default_timeout=JOB_TIMEOUT_S, serializer=JSONSerializer)


def put(pipe: Pipeline, call_key: str, *, failure_ttl: int, at_front: bool = False) -> None:
    """Queue exactly one clean job for a call, as part of the caller's transaction.

    Whatever RQ still knows of an earlier job for this call goes first. A hash that is written over keeps its time to live and can
    expire while its job waits, a second copy in the list runs twice, and an old row among the failed jobs could be requeued later.
    A run that is under way is not disturbed: it ends by itself and leaves the new job alone.

    `failure_ttl` is in seconds and says how long RQ keeps the job if it fails for good. `at_front` puts it before those that wait: a call
    that was tried before has waited once already. Costs O(length of the queue).
    Raises RuntimeError unless `pipe.multi()` was called before.
    """
    forget(pipe, call_key)
    # The pipeline is the only connection that RQ gets to see, so nothing of this can leave the transaction.
    queue = calls_queue(pipe)
    queue.redis_server_version = _OLDEST_SERVER  # known, so that RQ does not ask for it inside the transaction
    queue.enqueue_call(
        JOB,
        args=(call_key,),
        job_id=call_key,
        description="call",  # RQ's own would spell out the arguments, in logs and in alerts
        timeout=JOB_TIMEOUT_S,
        result_ttl=0,
        failure_ttl=failure_ttl,
        at_front=at_front,
        pipeline=pipe,
    )


def forget(pipe: Pipeline, call_key: str) -> None:
    """Remove every trace of a call's job from RQ, as part of the caller's transaction, except the lease of a run that is under way.

    Raises RuntimeError unless `pipe.multi()` was called before: the commands would run at once, or block a later WATCH.
    """
    if not pipe.explicit_transaction:
        raise RuntimeError("Call pipe.multi() first: a job changes in the same transaction as its entry.")
    queue = calls_queue(pipe)
    taken = queue.intermediate_queue
    pipe.delete(
        Job.key_for(call_key),
        Job.dependents_key_for(call_key),
        _results_key(call_key),
        ExecutionRegistry.key_template.format(call_key),
        taken.get_first_seen_key(call_key),
    )
    pipe.lrem(queue.key, 0, call_key)
    pipe.lrem(taken.key, 0, call_key)
    for registry in (FailedJobRegistry, CanceledJobRegistry):
        pipe.zrem(registry.key_template.format(QUEUE), call_key)


def drop(pipe: Pipeline, call_key: str, enqueued_at: str) -> None:
    """Delete the job of a run that has ended, unless the call was put again since `enqueued_at` (as it stands in RQ's hash)."""
    keys = (
        Job.key_for(call_key),
        _results_key(call_key),
        FailedJobRegistry.key_template.format(QUEUE),
        ExecutionRegistry.key_template.format(call_key),
    )
    pipe.eval(_DROP_UNLESS_PUT_AGAIN, len(keys), *keys, enqueued_at, call_key)


def tidy(connection: redis.Redis) -> None:
    """Throw away what no job needs any more: failed jobs past their time, leases that ran out, ids without a job.

    RQ's own cleaning would also move jobs that it believes abandoned to the failed registry. That registry holds the calls that need
    attention and nothing else, and whether a call was abandoned is the ledger's to say.
    """
    now, jobs = int(time.time()), Job.redis_job_namespace_prefix
    with connection.pipeline() as pipe:
        pipe.zremrangebyscore(FailedJobRegistry.key_template.format(QUEUE), 0, now)
        pipe.eval(_FORGET_EXPIRED_LEASES, 1, _running_key(), now - _LEASE_GRACE_S, jobs, _ABANDONED_TTL_S)
        pipe.eval(_FORGET_GHOSTS, 1, _taken_key(), jobs)
        pipe.execute()


def presence(connection: redis.Redis) -> Presence:
    """Where every job is now: one transaction, so that a job on its way from one place to the next is never missed.

    Costs O(length of the queue), in time and in bytes.
    """
    with connection.pipeline() as pipe:
        pipe.lrange(_queue_key(), 0, -1)
        pipe.lrange(_taken_key(), 0, -1)
        pipe.zrangebyscore(_running_key(), time.time(), "+inf")
        queued, taken, running = pipe.execute()
    return Presence(_ids(queued), _ids(taken), _ids(running))


def depth(connection: redis.Redis) -> int:
    """How many jobs wait for a worker."""
    return int(connection.llen(_queue_key()))


def listening(connection: redis.Redis) -> int:
    """How many workers listen to the queue and have said so within their `worker_ttl`.

    RQ's own `Worker.all` counts a killed worker for a minute longer. It also makes a `Worker` of each, which raises the read timeout of
    the whole connection pool to minutes (rq/worker/base.py, `_set_connection`): a web process that had asked it once would let a caller
    wait for as long as Redis hangs.
    """
    names = get_keys(queue=calls_queue(connection))
    with connection.pipeline(transaction=False) as pipe:
        for name in names:
            pipe.pttl(name)
        return sum(left_ms > _WORKER_KEY_EXTRA_MS for left_ms in pipe.execute())


def _queue_key() -> str:
    return Queue.redis_queue_namespace_prefix + QUEUE


def _taken_key() -> str:
    return IntermediateQueue.get_intermediate_queue_key(_queue_key())


def _running_key() -> str:
    return StartedJobRegistry.key_template.format(QUEUE)


def _results_key(call_key: str) -> str:
    return str(Result.get_key(call_key))  # type: ignore[no-untyped-call]  # - RQ has not typed it


def _ids(members: list[bytes]) -> frozenset[str]:
    """Call keys of list items (`key`) or of running jobs (`key:execution`)."""
    return frozenset(member.decode().partition(":")[0] for member in members)

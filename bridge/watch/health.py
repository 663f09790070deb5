"""Is this process up, and can the deployment do its work? Asked by platforms and by `doctor`."""

from __future__ import annotations

from dataclasses import dataclass

import redis


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was checked. `ok` None is a warning: it works, but not as promised."""

    name: str
    ok: bool | None
    say: str  # what is the case and, unless it is well, what to change


def check_redis(connection: redis.Redis) -> list[Finding]:
    """Whether Redis can be reached and keeps what it is given."""
    try:
        memory = connection.info("memory")
        persistence = connection.info("persistence")
    except redis.RedisError as error:
        return [Finding("redis", False, f"Redis cannot be reached ({type(error).__name__}): check REDIS_URL and that the server is up.")]
    policy = str(memory.get("maxmemory_policy", "unknown"))
    keeps = policy == "noeviction"
    advice = "nothing is evicted" if keeps else f"maxmemory-policy is {policy}: set it to noeviction, or calls will be thrown away unseen."
    has_aof = bool(persistence.get("aof_enabled"))
    durable = "every write is kept on disk" if has_aof else "no append-only file: a restart of Redis loses calls. Turn AOF on."
    return [
        Finding("redis", True, "Redis answers"),
        Finding("eviction", keeps, advice),
        Finding("persistence", True if has_aof else None, durable),
    ]


def check_workers(listening: int) -> Finding:
    """Whether workers listen to the queue of calls."""
    advice = f"{listening} workers listen" if listening else "No worker listens: start the Procfile's `worker` process."
    return Finding("workers", listening > 0, advice)

"""Our own side of a storm: processes are killed, stopped and refused, one every few seconds, and started again as a platform would.

Every act is dealt from a shuffled deck, so each comes before any comes again.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import redis

from bridge.sandbox.deployment import Deployment
from bridge.sandbox.processes import Sighting

REFUSED_S = 1.0
AWAY_S = 2.0
_PLATFORM_S = 0.5  # until a platform has noticed that a process is gone


@dataclass(frozen=True, slots=True)
class Kill:
    """A SIGKILL, or Redis gone. `at` is in seconds since the epoch."""

    at: float
    act: str


class Chaos:
    """Disturbs a deployment until told to stop. `kills` counts SIGKILLs of our own processes, `redis_restarts` each start of Redis."""

    def __init__(self, deployment: Deployment, seed: int, *, every_s: float) -> None:
        self.log: list[Kill] = []
        self.kills = 0
        self.redis_restarts = 0
        self.acts: Counter[str] = Counter()
        self._deployment = deployment
        self._rng = random.Random(f"chaos/{seed}")
        self._every_s = every_s
        self._deck: list[str] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="chaos", daemon=True)
        self._table: Mapping[str, Callable[[], None]] = {
            "web killed": lambda: self._kill_machine("web"),
            "worker machine killed": lambda: self._kill_machine("worker"),
            "supervisor killed": self._kill_supervisor,
            "RQ worker killed": lambda: self._kill_child(of_rq=True),
            "sweeper killed": lambda: self._kill_child(of_rq=False),
            "work horse killed": self._kill_horse,
            "another work horse killed": self._kill_horse,
            "worker restarted": self._restart_worker,
            "Redis killed": lambda: self._lose_redis(AWAY_S / 4, killed=True),
            "Redis stopped for a while": lambda: self._lose_redis(AWAY_S, killed=False),
            "Redis refuses clients": self._refuse_clients,
        }

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Returns when the act under way is over and everything runs again."""
        self._stopping.set()
        self._thread.join()
        self.tend()

    def tend(self) -> None:
        """Start what does not run, as a platform does."""
        for name in self._deployment.names:
            self._deployment.start_part(name)

    def _loop(self) -> None:
        while not self._stopping.wait(self._every_s * self._rng.uniform(0.7, 1.3)):
            self.act(self._draw())
            self._stopping.wait(_PLATFORM_S)
            with contextlib.suppress(RuntimeError):  # Redis did not answer in time: it is started again after the next act
                self.tend()

    def act(self, name: str) -> None:
        """One disturbance, by its name in the table."""
        self.acts[name] += 1
        # What it wanted to hit may have ended a moment ago, and Redis may still be coming back.
        with contextlib.suppress(ProcessLookupError, RuntimeError, redis.RedisError):
            self._table[name]()

    def _draw(self) -> str:
        if not self._deck:
            self._deck = self._rng.sample(list(self._table), len(self._table))
        return self._deck.pop()

    def _one(self, kind: str) -> str:
        return self._rng.choice([name for name in self._deployment.names if name.startswith(kind)])

    def _kill_machine(self, kind: str) -> None:
        self._note(f"{kind} killed")
        self._deployment.kill(self._one(kind))

    def _kill_supervisor(self) -> None:
        self._note("supervisor killed")
        self._deployment.kill(self._one("worker"), alone=True)

    def _kill_child(self, *, of_rq: bool) -> None:
        """An RQ worker, or the sweeper beside it: RQ's own register tells which is which."""
        registered = rq_pids(self._deployment)
        found = [one for name in self._workers() for one in below(self._deployment.family(name), 1) if (one.pid in registered) is of_rq]
        self._kill_one(found, "RQ worker killed" if of_rq else "sweeper killed")

    def _kill_horse(self) -> None:
        self._kill_one([one for name in self._workers() for one in below(self._deployment.family(name), 2)], "work horse killed")

    def _kill_one(self, found: list[Sighting], what: str) -> None:
        if found:
            victim = self._rng.choice(found)
            self._note(what)
            os.kill(victim.pid, signal.SIGKILL)

    def _restart_worker(self) -> None:
        """SIGTERM, and SIGKILL 30 s later to whatever is left, as Heroku does on each release."""
        self._deployment.restart(self._one("worker"))

    def _lose_redis(self, away_s: float, *, killed: bool) -> None:
        self.log.append(Kill(time.time(), "redis"))
        if killed:
            self._deployment.kill("redis")
        else:
            self._deployment.stop_part("redis")
        time.sleep(away_s)
        self._deployment.start_part("redis")
        self.redis_restarts += 1

    def _refuse_clients(self) -> None:
        """As when every connection that the plan allows is in use: those that exist are closed and new ones refused."""
        with self._deployment.connection() as connection:
            allowed = connection.config_get("maxclients")["maxclients"]
            connection.config_set("maxclients", 1)
            try:
                connection.client_kill_filter(_type="normal", skipme=True)
                time.sleep(REFUSED_S)
            finally:
                connection.config_set("maxclients", allowed)

    def _note(self, what: str) -> None:
        self.kills += 1
        self.log.append(Kill(time.time(), what))

    def _workers(self) -> list[str]:
        return [name for name in self._deployment.names if name.startswith("worker")]


def rq_pids(deployment: Deployment) -> set[int]:
    """The processes that RQ's own register names as workers; some may have died. Raises redis.RedisError."""
    with deployment.connection() as connection:
        names = cast("set[bytes]", connection.smembers("rq:workers"))
        told = [cast("bytes | None", connection.hget(name.decode(), "pid")) for name in names]
    return {int(pid) for pid in told if pid}


def below(family: Sequence[Sighting], depth: int) -> list[Sighting]:
    """The processes `depth` generations below the first one of a part."""
    level = {one.pid for one in family[:1]}
    for _ in range(depth):
        level = {one.pid for one in family if one.parent in level}
    return [one for one in family if one.pid in level]

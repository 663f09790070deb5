"""Two drills. Redis loses everything in mid-run, and a backfill from the phone system's list mends it; and how long recovery takes.

The second runs with production's own times, not compressed ones: what it measures is what an owner would see.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bridge.sandbox.deployment import ROOT, Deployment
from bridge.sandbox.phone import TwilioPhone, new_call, send
from bridge.sandbox.proof import storm as storms
from bridge.sandbox.proof import traffic, truth_table
from bridge.sandbox.proof.chaos import below, rq_pids
from bridge.sandbox.proof.storm import Progress, Run, Storm, StormDeployment
from bridge.sandbox.proof.traffic import DIALLED, Sender, Traffic
from bridge.sandbox.proof.truth_table import Judgement

WORKER_GOAL_S = 60.0
REDIS_GOAL_S = 90.0
REDIS_AWAY_S = 2.0
_LATENCY_S = 1.5  # of the CRM, so that a call is under way when it is hit
_CALLER = "+1555013{:04d}"


@dataclass(frozen=True, slots=True)
class Drill:
    """What became of a run in whose middle Redis lost everything."""

    storm: Storm
    judgement: Judgement
    forgotten: int  # calls that the ledger knew when it was lost
    backfill: Mapping[str, Any]  # what the command said
    seconds: float

    @property
    def ok(self) -> bool:
        return self.judgement.counts.ok and bool(self.backfill.get("ok"))

    def as_document(self) -> dict[str, object]:
        counts = truth_table.as_document(self.judgement.counts)
        told = {"ok": self.ok, "calls": self.storm.calls, "forgotten": self.forgotten, **counts}
        return told | {"seconds": round(self.seconds, 1), "seed": self.storm.seed, "backfill": dict(self.backfill)}


def run(storm: Storm, folder: Path, *, progress: Progress = lambda *_: None) -> Drill:
    """Half of the calls, an empty Redis, the other half, a backfill. Raises RuntimeError where a part does not start."""
    begun = time.monotonic()
    planned = traffic.plan(storm.calls, storm.seed, storm.per_s, conflicts=False)
    half = len(planned.calls) // 2
    with StormDeployment(folder) as deployment, Sender(deployment.urls) as sender:
        storms.prepare(deployment, storm, planned)
        under_way = Run(deployment, sender, storm, progress)
        under_way.ring(Traffic(planned.calls[:half], planned.known))
        forgotten = sum(deployment.progress())
        empty_redis(deployment)
        under_way.ring(Traffic(planned.calls[half:], planned.known))
        deployment.await_true(lambda: not sender.waiting, "every delivery was taken", storm.patience_s)
        told = backfill(deployment, call_list(planned, under_way.rang))
        under_way.await_rest()
        judgement = truth_table.judge(storms.evidence(deployment, sender, planned, deployment.rows()))
    return Drill(storm, judgement, forgotten, told, time.monotonic() - begun)


def empty_redis(deployment: Deployment) -> None:
    """Redis is killed, its files are gone, and it starts with nothing."""
    deployment.kill("redis")
    for kept in deployment.redis.folder.iterdir():
        if kept.is_dir():
            shutil.rmtree(kept)
        elif kept.name != "redis.log":
            kept.unlink()
    deployment.start_part("redis")


def call_list(planned: Traffic, rang: Mapping[str, float]) -> str:
    """The phone system's own list of calls, as lines for `backfill`."""
    return "".join(
        json.dumps(
            {
                "provider": "twilio",
                "call_id": call.sid,
                "from": call.caller,
                "to": DIALLED,
                "status": "completed",
                "started_at": f"{rang[call.sid]:.0f}",
                "duration_seconds": 2,
            }
        )
        + "\n"
        for call in planned.calls
    )


def backfill(deployment: Deployment, lines: str) -> dict[str, Any]:
    """The command as an operator starts it. Raises RuntimeError with what it said where it is not to be read."""
    listed = deployment.folder / "calls.jsonl"
    listed.write_text(lines, "utf-8")
    command = [sys.executable, "-m", "flask", "--app", "app", "backfill", "--file", str(listed), "--json"]
    done = subprocess.run(command, cwd=ROOT, env=deployment.environment, capture_output=True, text=True, check=False)  # noqa: S603 - our own
    try:
        told: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        raise RuntimeError(f"backfill ended with {done.returncode}:\n{done.stdout}\n{done.stderr}") from None
    return told


@dataclass(frozen=True, slots=True)
class Recovery:
    """How long after a kill the last of the calls under way had ended."""

    what: str
    slowest_s: float
    goal_s: float

    @property
    def ok(self) -> bool:
        return self.slowest_s <= self.goal_s

    def as_document(self) -> dict[str, object]:
        return asdict(self) | {"slowest_s": round(self.slowest_s, 1), "ok": self.ok}


def recover(folder: Path) -> list[Recovery]:
    """Each kind of kill once, with a call under way in each of two workers. A killed machine stays away until the calls have ended."""
    with Deployment(folder, web=1, workers=2) as deployment:
        deployment.ghl.configure(latency_s=_LATENCY_S)
        kills: Mapping[str, tuple[Callable[[], None], float]] = {
            "work horse killed": (lambda: _kill_below(deployment, 2), WORKER_GOAL_S),
            "RQ worker killed": (lambda: _kill_below(deployment, 1), WORKER_GOAL_S),
            "supervisor killed": (lambda: deployment.kill("worker-1", alone=True), WORKER_GOAL_S),
            "worker machine killed": (lambda: deployment.kill("worker-1"), WORKER_GOAL_S),
            "Redis killed, away for 2 s": (lambda: _lose_redis(deployment), REDIS_GOAL_S),
        }
        found = []
        for number, (what, (kill, goal_s)) in enumerate(kills.items()):
            found.append(Recovery(what, _recovery_s(deployment, number, kill, goal_s), goal_s))
            for name in deployment.names:
                deployment.start_part(name)
            deployment.await_ready()
        return found


def _recovery_s(deployment: Deployment, number: int, kill: Callable[[], None], goal_s: float) -> float:
    deployment.await_true(lambda: _listens(deployment), "worker-1 listens")
    keys = [_ring(deployment, _CALLER.format(10 * number + one)) for one in range(2)]
    deployment.await_true(lambda: _all(deployment, keys, "running"), "both calls run")
    killed_at = time.monotonic()
    kill()
    deployment.await_true(lambda: _all(deployment, keys, "done"), "both calls are done", 4 * goal_s)
    return time.monotonic() - killed_at


def _ring(deployment: Deployment, caller: str) -> str:
    """A call that has ended. Returns its key."""
    rng = random.Random(caller)
    line = TwilioPhone(deployment.url, deployment.settings["TWILIO_AUTH_TOKEN"], rng)
    call = new_call(rng, caller=caller, started=time.time())
    send(line.status(call, "completed", after_s=2)).raise_for_status()
    return f"twilio-{call.sid}"


def _all(deployment: Deployment, keys: list[str], state: str) -> bool:
    found = [deployment.bridge.call(key) for key in keys]
    return all(call is not None and call["state"] == state for call in found)


def _listens(deployment: Deployment) -> bool:
    """Whether worker-1 takes jobs: its RQ worker is in RQ's register."""
    return any(one.pid in rq_pids(deployment) for one in below(deployment.family("worker-1"), 1))


def _kill_below(deployment: Deployment, depth: int) -> None:
    """The work horse of worker-1 (two generations below its supervisor), or the RQ worker that forked it."""
    family = deployment.family("worker-1")
    horse = below(family, 2)[0]
    os.kill(horse.pid if depth == 2 else horse.parent, signal.SIGKILL)


def _lose_redis(deployment: Deployment) -> None:
    deployment.kill("redis")
    time.sleep(REDIS_AWAY_S)
    deployment.start_part("redis")

"""The storm: a deployment of real processes, thousands of calls, and everything that may go wrong at once. At the end, the truth.

Time is compressed by settings alone, all by the same factor: the lag of the CRM's index, the schedule that outlasts it, time-outs, leases,
pauses and the rate window. So ten minutes of a busy line pass in one, and what has to outlast what still does.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import redis
import requests

from bridge.ledger import keys
from bridge.ledger.entry import State
from bridge.sandbox.deployment import Deployment
from bridge.sandbox.phone import TwilioPhone
from bridge.sandbox.processes import Process
from bridge.sandbox.proof import traffic, truth_table
from bridge.sandbox.proof.chaos import Chaos
from bridge.sandbox.proof.traffic import PlannedCall, Sender, Traffic
from bridge.sandbox.proof.truth_table import Evidence, Judgement, Row

COMPRESSION = 10
INDEX_LAG_S = 60.0
LOST_ANSWERS = 0.05
SKEW_S = 300
_LOOK_EVERY_S = 0.25
_QUIET_LOOKS = 4  # in a row, until a storm is over: a redelivery may still be on its way into the ledger

# How often a request to the CRM meets each fault; the first that is due hits.
_FAULTS: tuple[Mapping[str, object], ...] = (
    {"kind": "answer_lost", "method": "POST", "rate": LOST_ANSWERS},
    {"kind": "answer_lost", "method": "PUT", "rate": LOST_ANSWERS},
    {"kind": "refused_but_done", "method": "POST", "path": "/contacts/", "rate": 0.01},
    {"kind": "refused_but_done", "method": "POST", "path": "/contacts/upsert", "rate": 0.01},
    {"kind": "answer_held", "rate": 0.003, "seconds": 3},
    {"kind": "effect_late", "method": "POST", "rate": 0.005, "seconds": 0.5},
    {"kind": "request_lost", "rate": 0.01},
    {"kind": "error_before", "rate": 0.01},
    {"kind": "error_after", "method": "POST", "rate": 0.01},
    {"kind": "burst_429", "rate": 0.005},
    {"kind": "html_page", "rate": 0.005},
    {"kind": "truncated", "rate": 0.005},
    {"kind": "empty_answer", "method": "POST", "rate": 0.005},
)


@dataclass(frozen=True, slots=True)
class Storm:
    """What to put a bridge through."""

    calls: int
    seed: int
    per_s: float = 12.0
    allows_duplicates: bool = True  # of the location: the harder world, in which nothing but the bridge stands against a twin
    disturb_every_s: float = 3.0
    patience_s: float = 300.0  # after the last call has rung, until everything must have ended


@dataclass(frozen=True, slots=True)
class Result:
    storm: Storm
    judgement: Judgement
    deliveries: int
    sent_again: int
    unanswered: int  # deliveries that had no 2xx when patience ended
    came_to_rest: bool  # else the figures are those of a moment in which patience ended
    kills: int
    redis_restarts: int
    acts: Mapping[str, int]
    lost_answers: int
    requests: int
    slowest_recovery_s: float
    seconds: float

    @property
    def ok(self) -> bool:
        return self.judgement.counts.ok

    def as_document(self) -> dict[str, object]:
        """One JSON object; the names are relied on by other programs."""
        return {
            "ok": self.ok,
            "calls": self.storm.calls,
            "deliveries": self.deliveries,
            **truth_table.as_document(self.judgement.counts),
            "kills": self.kills,
            "redis_restarts": self.redis_restarts,
            "lost_answers": self.lost_answers,
            "seconds": round(self.seconds, 1),
            "seed": self.storm.seed,
            "sent_again": self.sent_again,
            "unanswered": self.unanswered,
            "came_to_rest": self.came_to_rest,
            "requests": self.requests,
            "slowest_recovery_s": round(self.slowest_recovery_s, 1),
            "allows_duplicates": self.storm.allows_duplicates,
            "compression": COMPRESSION,
            "acts": dict(self.acts),
        }


class StormDeployment(Deployment):
    """A deployment as a storm needs it: the CRM keeps its state in memory, one worker's clock is wrong, one web's disk is full."""

    def __init__(self, folder: Path, *, web: int = 2, workers: int = 2) -> None:
        self.full = folder.absolute() / "full"
        super().__init__(folder, web=web, workers=workers, environment=compressed() | {"WORKERS": "2"})

    def __enter__(self) -> Self:
        # Nothing can be kept below a file. A full disk answers otherwise, and is treated alike: the event is refused, not lost.
        self.folder.mkdir(parents=True, exist_ok=True)
        self.full.touch()
        super().__enter__()
        return self

    def _make_processes(self, workers: int) -> list[Process]:
        made = super()._make_processes(workers)
        for process in made:
            if process.name == "ghl":
                process.command = process.command[: list(process.command).index("--state")]
            if process.name == "worker-2":
                process.command = [sys.executable, "-m", "bridge.sandbox.proof.skewed", str(SKEW_S), *process.command]
            if process.name == "web-2":
                process.environment = {**process.environment, "SPOOL_PATH": str(self.full / "spool.sqlite3")}
        return made

    def progress(self) -> tuple[int, int]:
        """How many calls have ended, and how many are open. Raises redis.RedisError."""
        with self.connection() as connection:
            counted = {state: connection.zcard(keys.state_index(state)) for state in State}
        ended = counted[State.DONE] + counted[State.NEEDS_ATTENTION]
        return ended, counted[State.ACCEPTED] + counted[State.RUNNING]

    def rows(self) -> list[Row]:
        """Every call as the bridge shows it."""
        return list(self.bridge.calls())


def compressed(factor: float = COMPRESSION) -> dict[str, str]:
    """The defaults of bridge/settings.py, with every time of the business with the CRM divided by `factor`."""
    seconds = {
        "NOTE_WAIT_S": 120.0,
        "RETRY_BASE_S": 2.0,
        "RETRY_CAP_S": 600.0,
        "ATTEMPT_LEASE_S": 30.0,
        "GHL_CONNECT_TIMEOUT_S": 3.05,
        "GHL_READ_TIMEOUT_S": 10.0,
        "GHL_BURST_WINDOW_S": 10.0,
    }
    shorter = {name: f"{value / factor:g}" for name, value in seconds.items()}
    schedule = ",".join(f"{pause / factor:g}" for pause in (2, 5, 15, 60))
    return shorter | {"SETTLE_SCHEDULE_S": schedule, "LOG_LEVEL": "WARNING", "GHL_DAILY": "100000000"}


Progress = Callable[[int, int], None]  # how many calls have ended, of how many


def run(storm: Storm, folder: Path, *, make: type[StormDeployment] = StormDeployment, progress: Progress = lambda *_: None) -> Result:
    """Put a deployment through a storm. Raises RuntimeError with the ends of the logs where a part does not start."""
    begun = time.monotonic()
    planned = traffic.plan(storm.calls, storm.seed, storm.per_s)
    with make(folder) as deployment, Sender(deployment.urls) as sender:
        prepare(deployment, storm, planned)
        chaos = Chaos(deployment, storm.seed, every_s=storm.disturb_every_s)
        chaos.start()
        under_way = Run(deployment, sender, storm, progress)
        under_way.ring(planned)
        chaos.stop()
        came_to_rest = under_way.await_rest()
        rows = deployment.rows()
        truth = deployment.ghl.counts()
        return Result(
            storm=storm,
            judgement=truth_table.judge(evidence(deployment, sender, planned, rows)),
            deliveries=sender.sent,
            sent_again=sender.sent_again,
            unanswered=sender.waiting,
            came_to_rest=came_to_rest,
            kills=chaos.kills,
            redis_restarts=chaos.redis_restarts,
            acts=dict(sorted(chaos.acts.items())),
            lost_answers=truth["lost_answers"],
            requests=truth["requests"],
            slowest_recovery_s=truth_table.slowest_recovery_s(rows, chaos.log),
            seconds=time.monotonic() - begun,
        )


def prepare(deployment: Deployment, storm: Storm, planned: Traffic) -> None:
    """The location as the storm wants it, the callers whom it knows, and its faults."""
    lag = INDEX_LAG_S / COMPRESSION
    deployment.ghl.configure(
        allow_duplicate_contact=storm.allows_duplicates,
        own_check="lagging" if storm.allows_duplicates else "sharp",
        search_lag_s=lag,
        duplicate_lag_s=lag,
        burst_window_s=10 / COMPRESSION,
        daily=10**8,
    )
    with requests.Session() as session:
        session.trust_env = False  # no proxy finds a server on this machine
        for caller in sorted(planned.known):
            known = {"phone": caller, "firstName": "Ada", "source": "walk-in", "tags": ["vip"]}
            session.post(f"{deployment.ghl.url}/_control/contacts", json=known, timeout=15).raise_for_status()
    for number, fault in enumerate(_FAULTS):
        deployment.ghl.add_fault(**{**fault, "seed": storm.seed * 100 + number})  # type: ignore[arg-type]  # - `kind` is a text


def evidence(deployment: Deployment, sender: Sender, planned: Traffic, rows: list[Row]) -> Evidence:
    acknowledged = frozenset(sender.acknowledged)
    return Evidence(planned.calls, acknowledged, truth_table.by_sid(rows), deployment.ghl.contacts(), deployment.ghl.notes())


@dataclass
class Run:
    """One storm under way: the clock that calls ring by, and the wait for its end."""

    deployment: StormDeployment
    sender: Sender
    storm: Storm
    progress: Progress
    rang: dict[str, float] = field(default_factory=dict)  # when each call began, seconds since the epoch

    def ring(self, planned: Traffic) -> None:
        """Let every call ring at its time, the first one now, and return when the last one has."""
        begin = time.monotonic() - min((call.at_s for call in planned.calls), default=0.0)
        for call in planned.calls:
            while (wait := begin + call.at_s - time.monotonic()) > 0:
                time.sleep(min(wait, _LOOK_EVERY_S))
                self._show()
            self._deliver(call)

    def _deliver(self, call: PlannedCall) -> None:
        settings, begin = self.deployment.settings, time.monotonic()
        self.rang[call.sid] = time.time()
        line = TwilioPhone(self.deployment.url, settings["TWILIO_AUTH_TOKEN"], random.Random(f"{self.storm.seed}/{call.number}"))
        for wave in traffic.waves(line, call, self.rang[call.sid]):
            self.sender.schedule(call.sid, wave, begin)

    def await_rest(self) -> bool:
        """Whether everything that was delivered came to an end; False where `patience_s` ended before."""
        deadline, quiet = time.monotonic() + self.storm.patience_s, 0
        while quiet < _QUIET_LOOKS and time.monotonic() < deadline:
            time.sleep(_LOOK_EVERY_S)
            quiet = quiet + 1 if self._show() == 0 and not self.sender.waiting else 0
        return quiet == _QUIET_LOOKS

    def _show(self) -> int | None:
        """How many calls are open; None while nobody can tell."""
        try:
            ended, open_ = self.deployment.progress()
        except (redis.RedisError, requests.RequestException):
            return None
        self.progress(ended, self.storm.calls)
        return open_

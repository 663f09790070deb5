"""The bridge and the CRM in one process, on a real Redis and a virtual clock: hours pass in milliseconds, and every effect is a point.

Only what has no say in the outcome is left out: HTTP framing, RQ's own bookkeeping and the fork. `flask prove` runs those for real.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import cast

import redis
from pydantic import SecretStr

from bridge.call import Call
from bridge.crm.gohighlevel import GoHighLevel
from bridge.crm.http import Http, Timeouts
from bridge.crm.location_cache import LocationCache
from bridge.crm.pacing import Pacing
from bridge.errors import StepFailed
from bridge.intake.accept import Acceptor, Event
from bridge.ledger import keys
from bridge.ledger.claims import Claims
from bridge.ledger.entry import Entry, State
from bridge.ledger.store import Retention, Store
from bridge.sandbox.ghl.asked import Request
from bridge.sandbox.ghl.book import ContactBook
from bridge.sandbox.ghl.engine import Engine
from bridge.sandbox.ghl.world import World
from bridge.sandbox.proof.points import CrashedError, InProcessHttp, Points, WatchedRedis
from bridge.settings import DAY_S, Settings
from bridge.work import attempt, queues, sweep
from bridge.work.attempt import Needs, Planner, Step

START = 1_790_000_000.0
LONGEST_REST = 400  # turns until everything must have come to rest


@dataclass
class VirtualClock:
    """Time that passes only when somebody waits."""

    at: float = START

    def now(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.at += seconds

    def monotonic(self) -> float:
        return self.at


@dataclass(frozen=True)
class Process:
    """What one process holds in memory. A crash throws it away and makes another."""

    connection: redis.Redis
    store: Store
    acceptor: Acceptor
    needs: Needs
    sweeper: sweep.Sweeper


@dataclass
class Rig:
    """One world. `planner` and `steps` are the product's own (handlers/steps.py), handed in since the sandbox stands below them."""

    url: str
    planner: Callable[[Settings], Planner]
    steps: Sequence[Step]
    world: World
    settings: Settings = field(default_factory=lambda: rig_settings())  # noqa: PLW0108 - defined below
    points: Points = field(default_factory=Points)
    clock: VirtualClock = field(default_factory=VirtualClock)
    raised: list[tuple[str, StepFailed]] = field(default_factory=list)  # what reached RQ's failed registry
    late_s: float = 0.0  # a request whose time ran out is applied this long afterwards; 0: never

    def __post_init__(self) -> None:
        self.late: list[tuple[float, Request]] = []
        self.engine = Engine(self.world, book=ContactBook(self.clock.now))
        self.connection = redis.Redis.from_url(self.url)
        self.connection.flushdb()
        self.process = self.boot()

    def boot(self) -> Process:
        """A new process: nothing is remembered but what Redis and the CRM know."""
        connection = WatchedRedis.watching(self.url, self.points)
        retention = Retention(self.settings.done_days * DAY_S, self.settings.attention_days * DAY_S)
        store = Store(connection, self.clock, retention, partial(queues.put, failure_ttl=DAY_S))
        claims = Claims(
            connection,
            self.clock,
            lease_s=self.settings.request_timeout_s + 2,
            wait_s=0.2,
            monotonic=self.clock.monotonic,
            sleep=self.clock.sleep,
        )
        plan = self.planner(self.settings)
        needs = Needs(store, claims, self._crm(connection), self.settings, plan, self.steps, random.Random(1).random)
        return Process(connection, store, Acceptor(store, plan, self.settings), needs, sweep.Sweeper(connection, store))

    def deliver(self, event: Event) -> None:
        """The provider sends an event until it is taken: a crash before the answer makes it send again."""
        while True:
            try:
                self.process.acceptor.accept(event)
            except CrashedError:
                self.restart()
            else:
                return

    def run_jobs(self, *, horse_reported: bool = True) -> int:
        """Run what is queued, as a worker would. A run that crashes leaves its entry running; where its parent survived it says so."""
        ran = 0
        while (popped := self.connection.lpop(_queue())) is not None:
            ran += 1
            call_key = cast("bytes", popped).decode()
            try:
                self.run_job(call_key)
            except CrashedError:
                self.restart()
                if horse_reported:
                    sweep.horse_died(self.process.store, call_key, "SIGKILL")
        return ran

    def run_job(self, call_key: str) -> None:
        try:
            attempt.run(self.process.needs, call_key)
        except StepFailed as error:
            self.raised.append((call_key, error))

    def sweep(self) -> None:
        self.apply_late()
        try:
            if self.process.sweeper.hold():
                self.process.sweeper.sweep()
        except CrashedError:
            self.restart()

    def restart(self) -> None:
        self.points.crashed = False
        self.connection.delete(keys.SWEEPER)  # its lease runs out by Redis's own clock, which no proof can hurry
        self.process.connection.close()
        self.process = self.boot()

    def meanwhile(self, others: Callable[[], None]) -> None:
        """Let other processes work while this one stands still, in the middle of whatever it does."""
        mine, my_points = self.process, self.points
        self.points = Points()
        self.process = self.boot()
        self.connection.delete(keys.SWEEPER)
        try:
            others()
        finally:
            self.process.connection.close()
            self.process, self.points = mine, my_points
            self.connection.delete(keys.SWEEPER)

    def rest(self, *, horse_reported: bool = True) -> None:
        """Let time pass until nothing is left to do. Raises AssertionError where that never comes."""
        for _ in range(LONGEST_REST):
            self.run_jobs(horse_reported=horse_reported)
            self.sweep()
            if self.connection.llen(_queue()):
                continue
            due = cast("list[tuple[bytes, float]]", self.connection.zrange(keys.DUE, 0, 0, withscores=True))
            if not due:
                return
            self.clock.at = max(self.clock.at, due[0][1]) + 0.001
        open_now = [entry.call_key for entry in self.entries() if entry.state in (State.ACCEPTED, State.RUNNING)]
        raise AssertionError(f"no rest after {LONGEST_REST} turns; still open: {open_now}")

    def entries(self) -> list[Entry]:
        names = cast("list[bytes]", self.connection.zrange(keys.ALL, 0, -1))
        return Store(self.connection, self.clock, Retention(1, 1), lambda *_, **__: None).get_many(name.decode() for name in names)

    def close(self) -> None:
        self.process.connection.close()
        self.connection.close()

    def _hold_back(self, request: Request) -> None:
        if self.late_s:
            self.late.append((self.clock.at + self.late_s, request))

    def apply_late(self) -> None:
        """Requests that the network held back reach the CRM now, if their time has come."""
        due = [request for at, request in self.late if at <= self.clock.at]
        self.late = [(at, request) for at, request in self.late if at > self.clock.at]
        for request in due:
            self.engine.answer(request)

    def _crm(self, connection: redis.Redis) -> GoHighLevel:
        timeouts = Timeouts(self.settings.ghl_connect_timeout_s, self.settings.ghl_read_timeout_s)
        pacing = Pacing(connection, burst=10**6, daily=10**9, sleep=self.clock.sleep)
        crm = GoHighLevel(
            base_url="http://127.0.0.1",
            token=self.world.token,
            location_id=self.world.location_id,
            timeouts=timeouts,
            pacing=pacing,
            cache=LocationCache(connection),
        )
        crm._http = cast("Http", InProcessHttp(self.engine, self.points, timeouts, self._hold_back))  # noqa: SLF001 - the transport is the seam
        return crm


def rig_settings(**changes: object) -> Settings:
    values: dict[str, object] = {
        "redis_url": SecretStr("redis://unused"),
        "public_url": "http://127.0.0.1",
        "secret_key": SecretStr("not-a-secret"),
        "ghl_token": SecretStr("pit-sandbox"),
        "ghl_location_id": World().location_id,
    }
    return Settings(**(values | changes))  # type: ignore[arg-type]  # - pydantic checks them


def event(call: Call, what: str, *, delivery_id: str | None = None) -> Event:
    return Event(call, what, f"{what} {call.status} {call.caller}", delivery_id, "webhook", "{}")


def _queue() -> str:
    return f"rq:queue:{queues.QUEUE}"

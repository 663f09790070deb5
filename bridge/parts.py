"""How the parts are built, once per process and only when they are first used: a forked worker opens its own connections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import redis

from bridge import values
from bridge.clock import Clock, RedisClock
from bridge.connections import web_connection, worker_connection
from bridge.crm.gohighlevel import GoHighLevel
from bridge.crm.http import Timeouts
from bridge.crm.location_cache import LocationCache
from bridge.crm.pacing import Pacing
from bridge.intake.accept import Acceptor
from bridge.intake.drainer import Drainer
from bridge.intake.spool import Spool
from bridge.intake.webhook import Receiver
from bridge.ledger.claims import Claims
from bridge.ledger.store import Retention, Store
from bridge.providers import registry
from bridge.providers.base import Provider
from bridge.settings import DAY_S, Settings
from bridge.work import queues
from bridge.work.attempt import Needs, Planner, Step
from bridge.work.sweep import Sweeper

DRAIN_EVERY_S = 5.0
CLAIM_MARGIN_S = 2.0
SECRET_CHARS = 8  # what is shorter could be any word of an event


@dataclass(frozen=True)
class Parts:
    """Everything that a process needs. `patient` processes (workers) try Redis again; the web does not let a caller wait for it."""

    settings: Settings
    plan: Planner
    steps: Sequence[Step]
    patient: bool = False

    @cached_property
    def connection(self) -> redis.Redis:
        url = self.settings.redis_url.get_secret_value()
        return worker_connection(url) if self.patient else web_connection(url)

    @cached_property
    def clock(self) -> Clock:
        return RedisClock(self.connection)

    @cached_property
    def store(self) -> Store:
        settings = self.settings
        retention = Retention(settings.done_days * DAY_S, settings.attention_days * DAY_S)
        put_job = partial(queues.put, failure_ttl=settings.failed_job_days * DAY_S)
        return Store(self.connection, self.clock, retention, put_job)

    @cached_property
    def claims(self) -> Claims:
        """A claim's lease covers one request and what is written around it."""
        return Claims(self.connection, self.clock, lease_s=self.settings.request_timeout_s + CLAIM_MARGIN_S)

    @cached_property
    def pacing(self) -> Pacing:
        settings = self.settings
        return Pacing(self.connection, burst=settings.ghl_burst, window_s=settings.ghl_burst_window_s, daily=settings.ghl_daily)

    @cached_property
    def crm(self) -> GoHighLevel:
        settings = self.settings
        return GoHighLevel(
            base_url=settings.ghl_base_url,
            token=settings.ghl_token.get_secret_value(),
            location_id=settings.ghl_location_id,
            timeouts=Timeouts(settings.ghl_connect_timeout_s, settings.ghl_read_timeout_s),
            pacing=self.pacing,
            cache=LocationCache(self.connection),
        )

    @cached_property
    def attempt(self) -> Needs:
        return Needs(self.store, self.claims, self.crm, self.settings, self.plan, self.steps)

    @cached_property
    def providers(self) -> Mapping[str, Provider]:
        return registry.build(self.settings)

    @property
    def secrets(self) -> list[str]:
        """Each single secret of the phone systems: no event is kept with one of them."""
        held = (self.settings.value(spec.name) for spec in registry.SETTINGS if spec.secret)
        return sorted({word for text in held for word in values.singles(text) if len(word) >= SECRET_CHARS})

    @cached_property
    def receiver(self) -> Receiver:
        acceptor = Acceptor(self.store, self.plan, self.settings)
        return Receiver(self.providers, acceptor, self.store, Spool(self.settings.spool_path), self.secrets)

    @cached_property
    def drainer(self) -> Drainer:
        return Drainer(self.receiver.spool, self.receiver.take_spooled, interval_s=DRAIN_EVERY_S)

    @cached_property
    def sweeper(self) -> Sweeper:
        return Sweeper(self.connection, self.store)


_running: list[Parts] = []


def use(parts: Parts) -> None:
    """Make these the parts of this process: RQ calls a job by its name alone, so the job has to find them somewhere."""
    _running[:] = [parts]


def running() -> Parts:
    """The parts of this process. Raises RuntimeError in a process that was not started by one of the project's commands."""
    if not _running:
        raise RuntimeError("No parts in this process: start workers with `flask --app app worker`, not with `rq worker`.")
    return _running[0]

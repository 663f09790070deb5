"""`flask --app app worker`: WORKERS RQ workers and one sweeper, each in a process of its own, kept alive by a supervisor."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from dataclasses import replace
from functools import partial
from types import FrameType

import click
from flask import current_app

from bridge import parts as process
from bridge.commands.call_lists import configured, start_catch_up
from bridge.connections import await_redis
from bridge.crm.base import Crm
from bridge.errors import StepFailed
from bridge.parts import Parts
from bridge.settings import DAY_S
from bridge.watch import notify, promises
from bridge.watch.standing import Book
from bridge.watch.watcher import Watcher
from bridge.work.supervisor import Child, supervise
from bridge.work.sweep import horse_died, needs_attention
from bridge.work.worker import run_worker

PRELOAD = ("handlers.run_call", "bridge.crm.gohighlevel", "zoneinfo")

log = logging.getLogger(__name__)


@click.command("worker")
def command() -> None:
    """Run calls: the RQ workers and the sweeper. Stops cleanly on SIGTERM."""
    parts: Parts = current_app.extensions["callbridge"]
    configured(parts)  # a wrong setting of a list stops the start, not the sweeper
    children = [Child(f"worker-{number + 1}", partial(_work, parts)) for number in range(parts.settings.workers)]
    sys.exit(supervise([*children, Child("sweeper", partial(_sweep, parts))]))


def _fresh(parts: Parts) -> Parts:
    """Parts of this process alone, patient with Redis: nothing of the parent's is open in them."""
    return replace(parts, patient=True)


def _work(parts: Parts) -> None:
    """One RQ worker. The work horses that it forks build their own connections; `ours` is the parent's, to tell the ledger of deaths."""
    process.use(_fresh(parts))
    ours = _fresh(parts)
    run_worker(
        parts.settings.redis_url.get_secret_value(),
        parked=lambda call_key: needs_attention(ours.store, call_key),
        horse_died=lambda call_key, how: horse_died(ours.store, call_key, how),
        preload=PRELOAD,
    )


def _sweep(parts: Parts) -> None:
    stopping = threading.Event()

    def stop(_signal: int, _frame: FrameType | None) -> None:
        stopping.set()

    ours = _fresh(parts)
    await_redis(ours.connection)  # nothing is under way yet, so a signal may end this process as it stands
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    sweeper = ours.sweeper
    trim = partial(ours.store.trim, ignored_s=ours.settings.ignored_days * DAY_S)
    sweeper.chores = (partial(refresh_location, ours.crm), trim)
    watcher = make_watcher(ours)
    sweeper.watch = watcher.look
    start_catch_up(_fresh(parts), stopping)
    sweeper.run(stopping.wait)
    watcher.stop()


def make_watcher(parts: Parts) -> Watcher:
    """Who looks after the promises, with the ways to their owners that are set up. Connects to nothing."""
    settings = parts.settings
    return Watcher(
        store=parts.store,
        book=Book(parts.connection),
        watched=promises.processes(settings),
        routes=notify.routes(settings),
        public_url=settings.public_url,
        left_today=partial(promises.left_today, parts.pacing, settings.ghl_location_id),
    )


def refresh_location(crm: Crm) -> None:
    """Ask for the location's settings before a call needs them. What fails is asked again with the first call."""
    try:
        crm.location(fresh=True)  # what is remembered ends with this hour
    except StepFailed as error:
        log.warning("the location could not be read: %s", error, extra={"cause": error.cause, "hint": error.hint})

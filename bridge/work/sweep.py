"""The sweeper: starts what is due, and puts back what has lost its job. One of a deployment acts, the others wait for its lease.

It works off one index, `cb:index:due`: call keys by the time at which somebody has to look at them. What follows is a pure decision on
the entry, written by compare-and-set, so two sweepers at once, or a sweep beside an operator, do each thing once.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import redis

from bridge.ledger import by_hand, keys, moves
from bridge.ledger.entry import Entry, State
from bridge.ledger.store import Change, Decide, Moment, Store
from bridge.ledger.trail import line
from bridge.work import queues

log = logging.getLogger(__name__)

PASS_EVERY_S = 0.5  # a due retry starts within 2 s of its time
LEASE_S = 10.0
BATCH = 200
LINE = 10_000  # most rows of calls in the queue that are put off at once
UNREADABLE_AGAIN_S = 3600.0
REPLAYS_QUEUED = 4  # jobs in the queue beyond which no replay is started: a live call waits for four jobs at most, about a second
REPLAY_PAUSE_S = 5.0
SHUTDOWN = "shutdown"  # how a worker names a run that it broke off because it was told to stop
HOUSEKEEPING_EVERY_S = 3000.0  # the location's settings are cached for an hour: no call shall have to wait for them

WATCH_EVERY_S = 5.0

# KEYS[1] the lease   ARGV[1] who   ARGV[2] lease, milliseconds. Returns 1 where the lease is now theirs.
_HOLD = """
local who = redis.call('GET', KEYS[1])
if who and who ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
"""
# KEYS[1] the lease   ARGV[1] who
_LET_GO = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"


@dataclass
class Sweeper:
    """`chores` run hourly and once at the start, `watch` every WATCH_EVERY_S, both by the one sweeper that acts.

    What they raise of redis.RedisError is waited out like any other outage. Neither may take longer than the lease.
    """

    connection: redis.Redis
    store: Store
    chores: tuple[Callable[[], object], ...] = ()
    watch: Callable[[], object] | None = None
    name: str = field(default_factory=lambda: uuid.uuid4().hex)

    def run(self, stop: Callable[[float], bool]) -> None:
        """Sweep until `stop(seconds to wait)` says so. A Redis that is away is waited for."""
        next_chores = next_watch = 0.0
        while True:
            try:
                if self.hold():
                    busy = self.sweep() >= BATCH
                    if self.watch and time.monotonic() >= next_watch:
                        next_watch = time.monotonic() + WATCH_EVERY_S
                        self._watch(self.watch)
                    if time.monotonic() >= next_chores:
                        next_chores = time.monotonic() + HOUSEKEEPING_EVERY_S
                        self.do_chores()
                else:
                    busy = False
            except redis.RedisError as error:
                log.warning("Redis is away; sweeping goes on when it is back", extra={"error": type(error).__name__})
                busy = False
            if stop(0.0 if busy else PASS_EVERY_S):
                break
        self.let_go()

    def hold(self) -> bool:
        """Whether this sweeper is the one that acts."""
        return bool(self.connection.eval(_HOLD, 1, keys.SWEEPER, self.name, str(int(LEASE_S * 1000))))

    def let_go(self) -> None:
        """Another sweeper need not wait for the lease to run out."""
        try:
            self.connection.eval(_LET_GO, 1, keys.SWEEPER, self.name)
        except redis.RedisError:
            log.warning("the sweeper's lease could not be given up; it runs out by itself")

    def do_chores(self) -> None:
        for chore in self.chores:
            chore()

    def _watch(self, watch: Callable[[], object]) -> None:
        """Calls come first: what goes wrong with looking after them must not stop them. Its check-in stays away, which is an alert."""
        try:
            watch()
        except redis.RedisError:
            raise
        except Exception:
            log.exception("the promises could not be looked after; sweeping goes on")

    def sweep(self) -> int:
        """One pass: every entry that is due, at most BATCH. Returns how many were looked at.

        Calls whose job stands in the queue are put off together, unread. One by one, thousands of them would keep the others waiting for
        minutes: those whose worker died, and those whose time to try again has come.
        """
        self.store.watch_birth()
        rows = self.store.due(self.store.clock.now(), LINE)
        if not rows:
            return 0
        presence = queues.presence(self.connection)
        queued = len(presence.queued)
        self.store.put_off_due([row for row in rows if row in presence.queued], moves.CHECK_QUEUED_AFTER_S)
        due = [row for row in rows if row not in presence.queued][:BATCH]
        for call_key in due:
            after = self._look_at(call_key, partial(decide, presence=presence, has_room=queued < REPLAYS_QUEUED))
            if after is not None and after.queued_at is not None:
                queued += 1
        return len(due)

    def _look_at(self, call_key: str, decided: Decide) -> Entry | None:
        """One entry. One that cannot be read is put off: the most overdue of all, it would keep every other from being looked at."""
        try:
            after = self.store.change(call_key, decided)
        except ValueError:
            log.exception("an entry cannot be read; looked at again in an hour", extra={"call_key": call_key})
            self.store.put_off(call_key, UNREADABLE_AGAIN_S)
            return None
        if after is None:
            self.store.drop_due(call_key)
        return after


def decide(entry: Entry | None, moment: Moment, presence: queues.Presence, *, has_room: bool = True) -> Change | None:
    """What becomes of an entry that the sweeper looks at; None leaves it alone. Without room replays wait, and nothing else does."""
    now = moment.now
    if entry is None or entry.look_at is None or entry.look_at > now:
        return None
    if entry.state is State.RUNNING:
        after = moves.put_back(entry, now)
        return Change(after, (line(now, "worker died", attempt=entry.attempt, deaths=after.deaths),), counts=("deaths",))
    if entry.queued_at is None:
        waits = entry.waiting_for == by_hand.REPLAY and not has_room
        return Change(by_hand.postpone(entry, now + REPLAY_PAUSE_S) if waits else moves.queue(entry, now))
    if entry.call_key in presence.queued or entry.call_key in presence.running:
        return Change(moves.check_later(entry, now))
    return Change(moves.queue_again(entry, now), (line(now, "job lost, put again"),), counts=("jobs_lost",))


def horse_died(store: Store, call_key: str, how: str) -> None:
    """A work horse ended without a word: the call is put back at once, not only when its lease has run out.

    One that was broken off by a `shutdown` is handed back at no cost: a release of the program is no fault of the call.
    """

    def change(entry: Entry | None, moment: Moment) -> Change | None:
        if entry is None or entry.state is not State.RUNNING:
            return None
        if how == SHUTDOWN:
            message = "this worker is shutting down"
            back = moves.wait(entry, moment.now, delay=0.0, spend=False, cause="worker.shutdown", message=message, step=None, trace_id=None)
            return Change(back, (line(moment.now, "attempt ended", attempt=entry.attempt, outcome="again", cause="worker.shutdown"),))
        after = moves.put_back(entry, moment.now, delay=2.0**entry.deaths)
        told = line(moment.now, "worker died", attempt=entry.attempt, deaths=after.deaths, how=how)
        return Change(after, (told,), counts=("deaths",))

    store.change(call_key, change)


def needs_attention(store: Store, call_key: str) -> bool:
    """Whether the ledger says that a person has to act: RQ's failed registry holds exactly those calls."""
    entry = store.get(call_key)
    return entry is not None and entry.state is State.NEEDS_ATTENTION

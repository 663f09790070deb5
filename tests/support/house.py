"""A bridge without its web and its workers: events are accepted and jobs run by plain calls, on a real Redis."""

from __future__ import annotations

from functools import partial

import redis

from bridge.call import Call
from bridge.intake.accept import Acceptor, Event
from bridge.ledger import keys
from bridge.ledger.claims import Claims
from bridge.ledger.entry import Entry, Taken
from bridge.ledger.store import Change, Retention, Store
from bridge.settings import DAY_S
from bridge.work import attempt, queues
from bridge.work.sweep import decide
from handlers import steps
from tests.support.builders import KEY, NOW, PHONE, Clock, make_settings
from tests.support.crm import FakeCrm

DONE_S, ATTENTION_S, MONTH_S = 90 * DAY_S, 400 * DAY_S, 30 * DAY_S


def make_store(connection: redis.Redis, clock: Clock | None = None) -> Store:
    return Store(connection, clock or Clock(), Retention(DONE_S, ATTENTION_S), partial(queues.put, failure_ttl=600))


class House:
    def __init__(self, connection: redis.Redis, *, allows_duplicates: bool = False, **environment: str) -> None:
        self.connection = connection
        connection.set(keys.BORN, repr(NOW - MONTH_S), nx=True)  # calls of today are younger than the ledger
        self.clock = Clock()
        self.settings = make_settings(**environment)
        self.store = make_store(connection, self.clock)
        self.monotonic = Clock(0.0)  # of this process: leases are judged by it
        lease_s = self.settings.request_timeout_s + 2
        self.claims = Claims(connection, self.clock, lease_s=lease_s, wait_s=0.0, monotonic=self.monotonic.now)
        self.crm = FakeCrm(allows_duplicates=allows_duplicates)
        self.plan = steps.planner(self.settings)
        self.needs = attempt.Needs(self.store, self.claims, self.crm, self.settings, self.plan, steps.STEPS, draw=lambda: 0.5)
        self.acceptor = Acceptor(self.store, self.plan, self.settings)

    def accept(self, call: Call, content: str = "", *, what: str = "status", source: str = "webhook") -> Taken:
        return self.acceptor.accept(Event(call, what, content or repr(call), None, source, '{"raw": true}'))

    def run(self, call_key: str = KEY) -> None:
        """Run the job, taken from the queue as a worker takes it."""
        self.connection.lrem("rq:queue:calls", 0, call_key)
        attempt.run(self.needs, call_key)

    def entry(self, call_key: str = KEY) -> Entry:
        entry = self.store.get(call_key)
        assert entry is not None
        return entry

    def put(self, entry: Entry) -> Entry:
        """Write an entry as it is."""
        self.store.change(entry.call_key, lambda _old, _moment: Change(entry))
        return entry

    def change(self, move, call_key: str = KEY) -> Entry:
        """Write what `move(entry, now)` makes of an entry."""
        changed = self.store.change(call_key, lambda entry, moment: Change(move(entry, moment.now)))
        assert changed is not None
        return changed

    def requeue(self, call_key: str = KEY) -> None:
        """The time of the next try has come: queue the call, as the sweeper does."""
        entry = self.entry(call_key)
        assert entry.next_try_at is not None
        self.clock.at = max(self.clock.at, entry.next_try_at)
        nowhere = queues.Presence(frozenset(), frozenset(), frozenset())
        self.store.change(call_key, lambda entry, moment: decide(entry, moment, nowhere))
        assert self.entry(call_key).queued_at is not None

    def run_again(self, call_key: str = KEY) -> None:
        self.requeue(call_key)
        self.run(call_key)

    def claim(self, who: str = PHONE) -> str:
        return keys.claim("loc1", who)

    def told(self, call_key: str = KEY) -> list[str]:
        return [line["what"] for line in self.store.trail(call_key)]

    def counted(self, name: str) -> int:
        return int(self.connection.hget(keys.COUNT, name) or 0)

    def jobs(self) -> list[str]:
        return [name.decode() for name in self.connection.lrange("rq:queue:calls", 0, -1)]

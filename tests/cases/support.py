"""The whole road of a case: signed requests to Flask, the ledger in a real Redis, attempts, the client of the CRM, a stand-in behind it.

`Bridge` is one process on a virtual clock: hours of pauses pass at once, and a process may die at any effect. `Crew` is web and workers
as threads over real sockets, for what two of them do to one another and for what happens on the wire. RQ's fork is left out in both;
tests/roads has it.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import redis
from flask import Flask
from werkzeug.test import TestResponse

from app import build_parts
from bridge.call import call_key
from bridge.errors import StepFailed
from bridge.intake import http
from bridge.intake.spool import Spool
from bridge.intake.webhook import Receiver
from bridge.ledger import keys, moves
from bridge.ledger.entry import Entry
from bridge.ledger.store import Change
from bridge.ledger.trail import line
from bridge.parts import Parts
from bridge.providers import registry
from bridge.sandbox.ghl.faults import Fault
from bridge.sandbox.ghl.standin import GhlStandIn
from bridge.sandbox.ghl.truth import Truth
from bridge.sandbox.ghl.world import World
from bridge.sandbox.phone import Delivery, GenericPhone, PhoneCall, TwilioPhone
from bridge.sandbox.proof.rig import START, Rig
from bridge.settings import DAY_S, Settings
from bridge.work import attempt, queues
from bridge.work.sweep import Sweeper, horse_died
from handlers import steps
from tests.support.builders import TWILIO_TOKEN, make_settings

ADA = "+12025550143"
BO = "+12025550134"
DIALLED = "+15550109999"
SECRET = "whsec_Z2VuZXJpYy1tYWRlLXVwLXNpZ25pbmctc2VjcmV0ISE="
PUBLIC_URL = "https://ivr.example.com"
LOCATION, TOKEN = World().location_id, World().token
SEARCH, CREATE, UPSERT = "GET /contacts/search/duplicate", "POST /contacts/", "POST /contacts/upsert"
TAGS, NOTE, NEW_TEXT = "POST /contacts/{contact_id}/tags", "POST /contacts/{contact_id}/notes", "PUT /contacts/{contact_id}/notes/{note_id}"
OLD_TEXT = "GET /contacts/{contact_id}/notes/{note_id}"
AT_CREATE = {"method": "POST", "path": "/contacts/"}
AT_UPSERT = {"method": "POST", "path": "/contacts/upsert"}
AT_SEARCH = {"method": "GET", "path": "/contacts/search/duplicate"}
AT_NOTE = {"method": "POST", "path": "/contacts/{contact_id}/notes"}
UNLIMITED: dict[str, Any] = {"burst": 10**6, "daily": 10**9, "rate_headers": False}  # what the pace costs is a case of its own


def settings(**environment: str) -> Settings:
    here = {"GHL_TOKEN": TOKEN, "GHL_LOCATION_ID": LOCATION, "PUBLIC_URL": PUBLIC_URL, "GENERIC_SECRET": SECRET, "OWN_NUMBERS": DIALLED}
    return make_settings(**here | environment)


@dataclass(frozen=True)
class Phones:
    """Who rings, and what their phone systems send."""

    twilio: TwilioPhone
    generic: GenericPhone
    ids: Iterator[int]
    started: Callable[[], float]

    @classmethod
    def new(cls, public_url: str, started: Callable[[], float]) -> Phones:
        return cls(TwilioPhone(public_url, TWILIO_TOKEN, random.Random(7)), GenericPhone(public_url, SECRET), itertools.count(1), started)

    def call(self, caller: str = ADA, **changes: Any) -> PhoneCall:
        """A call that begins now."""
        return replace(PhoneCall(f"CA{next(self.ids):032x}", caller, DIALLED, self.started()), **changes)

    def ended(self, call: PhoneCall, **extra: str) -> Delivery:
        """One event that tells the whole call: who rang, and that it is over."""
        return self.twilio.status(call, "completed", after_s=40, **extra)


def post(app: Flask, delivery: Delivery, *, base_url: str = "http://10.0.0.5:5000") -> TestResponse:
    """The request as a proxy hands it on: to another host and port, without TLS."""
    parts = urlsplit(delivery.url)
    path = f"{parts.path}?{parts.query}" if parts.query else parts.path
    headers = dict(delivery.headers) | {"X-Forwarded-Proto": "https"}
    return app.test_client().open(path, method=delivery.method, headers=headers, data=delivery.body, base_url=base_url)


class Seen(ABC):
    """What can be seen of calls: in the ledger, and in the CRM."""

    truth: Truth
    connection: redis.Redis

    @abstractmethod
    def entries(self) -> list[Entry]: ...

    def entry(self, call: PhoneCall | str) -> Entry:
        key = call if isinstance(call, str) else twilio_key(call)
        [found] = [entry for entry in self.entries() if entry.call_key == key]
        return found

    def state(self, call: PhoneCall | str) -> str:
        return self.entry(call).state.value

    def contacts(self, phone: str | None = None) -> list[Any]:
        return [contact for contact in self.truth.contacts(phone) if contact.alive]

    def notes(self, call: PhoneCall | str | None = None) -> list[Any]:
        key = call if isinstance(call, str) else twilio_key(call) if call else ""
        return [note for note in self.truth.notes() if key in note.body and not note.deleted]

    def note(self, call: PhoneCall | str) -> str:
        """The text of a call's one note."""
        [note] = self.notes(call)
        return str(note.body)

    def asked(self, endpoint: str | None = None) -> int:
        """How many requests have reached the CRM."""
        return len(self.truth.requests(endpoint=endpoint))

    def changes(self) -> int:
        """How many requests have changed something in the CRM."""
        return sum(one.effect for one in self.truth.requests())

    def counted(self, name: str) -> int:
        return int(self.connection.hget(keys.COUNT, name) or 0)

    def assert_one_lead(self, *calls: PhoneCall, phone: str = ADA) -> str:
        """One living contact for the caller, none without a phone, one note for each call, each on that contact; every call is done."""
        assert [contact.phone for contact in self.contacts()].count(phone) == 1, self.contacts()
        assert all(contact.phone or contact.email for contact in self.contacts())
        [contact] = self.contacts(phone)
        for call in calls:
            assert self.state(call) == "done", self.entry(call)
            assert self.entry(call).contact_id == contact.id
            assert [note.contact_id for note in self.notes(call)] == [contact.id]
        return str(contact.id)


def twilio_key(call: PhoneCall) -> str:
    return call_key("twilio", "", call.sid)


def generic_key(call: PhoneCall) -> str:
    return call_key("generic", "", call.sid)


class Bridge(Seen):
    """One process, a virtual clock. `world` are settings of the stand-in, `environment` those of the bridge."""

    def __init__(self, url: str, folder: Path, *, world: dict[str, Any] | None = None, **environment: str) -> None:
        self.settings = settings(SPOOL_PATH=str(folder / "spool.sqlite3"), **environment)
        self.rig = Rig(url, steps.planner, steps.STEPS, World(**UNLIMITED | (world or {})), settings=self.settings)
        self.connection = self.rig.connection
        self.connection.set(keys.BORN, repr(START - 30 * DAY_S))
        self.truth = self.rig.engine.truth
        self.spool = Spool(self.settings.spool_path)
        self.phones = Phones.new(PUBLIC_URL, self.rig.clock.now)
        self.receiver = Receiver(registry.build(self.settings), self.rig.process.acceptor, self.rig.process.store, self.spool)
        self.app = Flask("callbridge")
        self.app.register_blueprint(http.blueprint(self.receiver, PUBLIC_URL))

    def post(self, *deliveries: Delivery, base_url: str = "http://10.0.0.5:5000") -> list[int]:
        """Statuses of the answers."""
        self.receiver.acceptor, self.receiver.store = self.rig.process.acceptor, self.rig.process.store
        return [post(self.app, delivery, base_url=base_url).status_code for delivery in deliveries]

    def take(self, *deliveries: Delivery) -> None:
        """Each of them is taken by the web, then all that follows happens."""
        statuses = self.post(*deliveries)
        assert set(statuses) <= {200, 204}, statuses
        self.rig.rest()

    def pass_time(self, seconds: float) -> None:
        self.rig.clock.sleep(seconds)
        self.rig.rest()

    def run_until(self, at: float) -> None:
        """Let time pass until `at`, whether everything has come to rest or not."""
        while self.rig.clock.now() < at:
            self.rig.run_jobs()
            self.rig.sweep()
            due = self.connection.zrange(keys.DUE, 0, 0, withscores=True)
            self.rig.clock.at = min(at, max(self.rig.clock.at + 0.001, due[0][1] + 0.001 if due else at))

    def fault(self, kind: str, **details: Any) -> int:
        return self.rig.engine.faults.add(Fault.model_validate({"kind": kind, **details}))

    def mend(self) -> None:
        self.rig.engine.faults.clear()

    def add(self, phone: str | None = None, **fields: Any) -> Any:
        """A contact as staff or an import made it."""
        kept = {name: fields.pop(name) for name in ("tags", "additional_phones") if name in fields}
        return self.rig.engine.book.add({**fields, "phone": phone} if phone else fields, **kept)

    def entries(self) -> list[Entry]:
        return self.rig.entries()

    def failures(self) -> list[str]:
        """The causes of what reached RQ's failed registry, and Sentry with it."""
        return [failure.cause for _, failure in self.rig.raised]

    def replay(self, *calls: PhoneCall) -> None:
        """A person puts calls back."""
        for call in calls:
            self.rig.process.store.change(
                twilio_key(call), lambda entry, moment: Change(moves.replay(entry, moment.now), (line(moment.now, "replayed"),))
            )
        self.rig.rest()

    def restart(self) -> None:
        """Every process is gone; new ones know what Redis and the CRM know."""
        self.rig.restart()

    def close(self) -> None:
        self.rig.close()


class Crew(Seen):
    """Web and workers as threads, GoHighLevel over a socket, real clocks. Usable as a context manager; `start` sets the workers on."""

    def __init__(self, url: str, folder: Path, *, workers: int = 2, world: dict[str, Any] | None = None, **environment: str) -> None:
        self.ghl = GhlStandIn(**UNLIMITED | (world or {}))
        self.truth = self.ghl.truth
        self._url, self._folder, self._workers, self._environment = url, folder, workers, environment
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self.failed: list[StepFailed] = []
        self.broken: list[Exception] = []

    def __enter__(self) -> Self:
        self.ghl.start()
        quick = {"GHL_CONNECT_TIMEOUT_S": "1", "GHL_READ_TIMEOUT_S": "5", "SETTLE_SCHEDULE_S": "0.2,0.3,0.5", "RETRY_BASE_S": "0.2"}
        where = {"REDIS_URL": self._url, "GHL_BASE_URL": self.ghl.url, "SPOOL_PATH": str(self._folder / "spool.sqlite3")}
        self.settings = settings(**quick | where | self._environment)
        self.web = self.parts()
        self.connection = self.web.connection
        self.connection.set(keys.BORN, repr(time.time() - 30 * DAY_S), nx=True)
        self.phones = Phones.new(PUBLIC_URL, time.time)
        self.app = Flask("callbridge")
        self.app.register_blueprint(http.blueprint(self.web.receiver, PUBLIC_URL))
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop()
        self.ghl.stop()
        self.connection.close()
        assert not self.broken, self.broken

    def parts(self, **changes: Any) -> Parts:
        """What another process would build."""
        return build_parts(self.settings.model_copy(update=changes))

    def post(self, *deliveries: Delivery) -> list[int]:
        return [post(self.app, delivery).status_code for delivery in deliveries]

    def start(self) -> None:
        """Set the workers and one sweeper on."""
        self._threads = [threading.Thread(target=self._work) for _ in range(self._workers)] + [threading.Thread(target=self._sweep)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        self._threads = []

    def entries(self) -> list[Entry]:
        store = self.web.store
        return store.page(None, after=None, limit=1000)

    def rest(self, within_s: float = 20) -> None:
        """Set the workers on, unless they are, and wait until every call is done or needs attention."""
        if not self._threads:
            self.start()
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            if all(entry.state.value in {"done", "needs_attention"} for entry in self.entries()):
                return
            time.sleep(0.02)
        raise AssertionError([(entry.call_key, entry.state, entry.waiting_for, entry.attempts[-2:]) for entry in self.entries()])

    def _work(self) -> None:
        parts = self.parts()
        while not self._stop.is_set():
            popped = parts.connection.lpop(f"rq:queue:{queues.QUEUE}")
            if popped is None:
                time.sleep(0.01)
                continue
            self._run(parts, popped.decode())
        parts.crm.close()
        parts.connection.close()

    def _run(self, parts: Parts, key: str) -> None:
        try:
            attempt.run(parts.attempt, key)
        except StepFailed as failure:
            self.failed.append(failure)
        except Exception as error:  # noqa: BLE001 - a thread's error has to reach the test
            self.broken.append(error)
            horse_died(parts.store, key, "exit code 1")

    def _sweep(self) -> None:
        parts = self.parts()
        sweeper = Sweeper(parts.connection, parts.store)
        while not self._stop.wait(0.05):
            with contextlib.suppress(redis.RedisError):
                sweeper.sweep()
        parts.connection.close()


def at_once(acts: Iterable[Callable[[], Any]]) -> list[Any]:
    """Do all of them at the same instant, a thread each; their results in order."""
    todo = list(acts)
    gate, results = threading.Barrier(len(todo)), [None] * len(todo)

    def run(place: int, act: Callable[[], Any]) -> None:
        gate.wait(timeout=10)
        results[place] = act()

    threads = [threading.Thread(target=run, args=pair) for pair in enumerate(todo)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results

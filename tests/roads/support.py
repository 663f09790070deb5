"""A road: a phone company that rings a deployment, and what can be seen of its calls from outside."""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import redis
import requests
from rq.registry import FailedJobRegistry

from bridge.call import call_key
from bridge.sandbox.deployment import Deployment
from bridge.sandbox.phone import Delivery, PhoneCall, TwilioPhone, new_call, send
from bridge.sandbox.remote import RemoteBridge, RemoteGhl
from bridge.sandbox.sentry import SentryServer
from bridge.work import queues

OWNER = "ops-on-call"
CALLER_NAME = "Zebulon Quartermaine"  # occurs nowhere else: an output that shows it is found out
DIALLED = "+15550109999"
AREAS = ("202", "303", "404", "512", "617")  # 555-0100 to 555-0199 in each are for fiction; the bench and the sandbox ring from +1 555 010
SECRET_SETTINGS = ("GHL_TOKEN", "TWILIO_AUTH_TOKEN", "GENERIC_SECRET", "SECRET_KEY", "API_TOKEN")

# Two gunicorn processes behind one port. A call that is left open gets no note while the tests run.
SETTINGS = {"WEB_CONCURRENCY": "2", "BRIDGE_OWNER": OWNER, "NOTE_WAIT_S": "3600"}
# Times that a test can wait for.
QUICK = {
    "GHL_CONNECT_TIMEOUT_S": "0.5",
    "GHL_READ_TIMEOUT_S": "2",
    "ATTEMPT_LEASE_S": "4",
    "SETTLE_SCHEDULE_S": "0.5,1,1",
    "RETRY_BASE_S": "0.5",
    "RETRY_CAP_S": "2",
}
RATE_LIMIT = 100_000  # requests in a window: what the pace costs is tested elsewhere


@dataclass
class Road:
    """One deployment, the alerts that it sends, and everybody who has rung it."""

    deployment: Deployment
    sentry: SentryServer
    workers: int  # RQ workers, over all worker processes
    connection: redis.Redis
    rng: random.Random = field(default_factory=lambda: random.Random(20261129))
    callers: list[str] = field(default_factory=lambda: [DIALLED])
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self.phone = TwilioPhone(self.deployment.url, self.deployment.environment["TWILIO_AUTH_TOKEN"], self.rng)

    @property
    def ghl(self) -> RemoteGhl:
        return self.deployment.ghl

    @property
    def bridge(self) -> RemoteBridge:
        return self.deployment.bridge

    # Ringing

    def new_caller(self) -> str:
        """A number for fiction that nobody has rung from yet."""
        number = next(self.numbers)
        caller = f"+1{AREAS[number // 100]}55501{number % 100:02}"
        self.callers.append(caller)
        return caller

    def call(self, caller: str | None = None) -> PhoneCall:
        """A call that begins now, from a new caller unless told."""
        made = new_call(self.rng, dialled=DIALLED, started=time.time())
        return replace(made, caller=self.new_caller() if caller is None else caller)

    def ended(self, call: PhoneCall, **extra: str) -> Delivery:
        """One event that tells the whole call: who rang, and that it is over."""
        return self.phone.status(call, "completed", after_s=40, CallerName=CALLER_NAME, **extra)

    @staticmethod
    def play(deliveries: Iterable[Delivery]) -> None:
        """Send one after the other; each has to be taken."""
        for delivery in deliveries:
            answer = send(delivery)
            assert answer.status_code in {200, 204}, answer.text

    # Seeing

    @staticmethod
    def key(call: PhoneCall) -> str:
        return call_key("twilio", "", call.sid)

    def page(self, path: str) -> str:
        return requests.get(self.deployment.url + path, timeout=10).text

    def entry(self, call: PhoneCall) -> dict[str, Any]:
        """The call as /api shows it; empty where it knows no such call."""
        return self.bridge.call(self.key(call)) or {}

    def await_state(self, call: PhoneCall, state: str = "done", within_s: float = 15) -> dict[str, Any]:
        last: dict[str, Any] = {}

        def is_reached() -> bool:
            last.clear()
            last.update(self.entry(call))
            return last.get("state") == state

        try:
            self.deployment.await_true(is_reached, f"{self.key(call)} is {state}", within_s)
        except RuntimeError as vain:
            vain.add_note(json.dumps(last, indent=1))
            raise
        return last

    def await_done(self, calls: Iterable[PhoneCall], within_s: float = 30) -> list[dict[str, Any]]:
        deadline = time.monotonic() + within_s
        return [self.await_state(call, within_s=max(deadline - time.monotonic(), 0.1)) for call in calls]

    def await_true(self, condition: Callable[[], Any], what: str, within_s: float = 15) -> Any:
        return self.deployment.await_true(condition, what, within_s)

    def contacts(self, caller: str) -> list[dict[str, Any]]:
        return [contact for contact in self.ghl.contacts(caller) if contact["alive"]]

    def notes(self, call: PhoneCall) -> list[dict[str, Any]]:
        return [note for note in self.ghl.notes(self.key(call)) if not note["deleted"]]

    def assert_one_lead(self, call: PhoneCall) -> None:
        """One living contact for the caller, one note for the call, and it is on that contact."""
        contacts = self.contacts(call.caller)
        assert len(contacts) == 1, contacts
        assert [note["contact_id"] for note in self.notes(call)] == [contacts[0]["id"]]

    def is_idle(self) -> bool:
        """Whether every call is settled, or waits for its time."""
        return all(one["state"] != "running" and (one["state"] != "accepted" or one["next_try_at"]) for one in self.bridge.calls())

    def failed_jobs(self) -> set[str]:
        registry = FailedJobRegistry(queue=queues.calls_queue(self.connection))
        return set(registry.get_job_ids(cleanup=False))

    def alerts(self, call: PhoneCall) -> list[dict[str, Any]]:
        """What Sentry was told of a call."""
        return [event for event in self.sentry.events if event["tags"].get("call_key") == self.key(call)]

    # Mending

    def mend_location(self) -> None:
        """The location as at the start."""
        self.ghl.clear_faults()
        self.ghl.configure(token_state="valid", allow_duplicate_contact=False, create_window_s=0, latency_s=0, burst=RATE_LIMIT)

    def forget_location(self) -> None:
        """What the bridge remembers of the location's settings: the next job reads them again."""
        self.connection.delete(f"cb:location:{self.deployment.environment['GHL_LOCATION_ID']}")

    def mend(self) -> None:
        """Everything up and as at the start, whatever a test has broken. What runs is left alone."""
        for name in self.deployment.names:
            self.deployment.start_part(name)
        self.await_true(self.ghl.counts, "GoHighLevel answers")
        self.mend_location()
        self.await_true(self.is_whole, "all workers listen and the location is known", within_s=40)

    def is_whole(self) -> bool:
        told = requests.get(f"{self.deployment.url}/readyz", timeout=5).json()
        is_warm = bool(self.connection.exists(f"cb:location:{self.deployment.environment['GHL_LOCATION_ID']}"))
        # More than ours may be told of: RQ remembers killed workers for a while.
        return is_warm and told["ok"] and int(told["checks"]["workers"]["say"].split()[0]) >= self.workers

    # Leaks

    def outputs(self) -> dict[str, str]:
        """All that the deployment lets out to people and programs who may not see callers."""
        pages = {path: self.page(path) for path in ("/metrics", "/readyz", "/healthz", "/console")}
        calls = list(self.bridge.calls())
        single = {f"/api/calls/{one['call_key']}": json.dumps(self.bridge.call(one["call_key"])) for one in calls}
        logs = {path.name: path.read_text(errors="replace") for path in (self.deployment.folder / "logs").glob("*.log")}
        return pages | single | logs | {"/api/calls": json.dumps(calls), "Sentry": "\n".join(self.sentry.texts)}

    def leaks(self) -> list[str]:
        """Each place that shows a number, a name or a secret, with what it shows."""
        secrets = [self.deployment.environment[name] for name in SECRET_SETTINGS]
        private = [*(caller[2:] for caller in self.callers), *CALLER_NAME.split(), *secrets]
        found = []
        for place, text in self.outputs().items():
            plain = joined(text)
            found += [f"{place}: {one}" for one in private if one in text or one in plain]
        return found


def joined(text: str) -> str:
    """The text without what people write between the digits of a number, so that all of its forms look alike."""
    return re.sub(r"[\s().+/-]|%2B|%20|\\u002b", "", text)


@contextlib.contextmanager
def road(folder: Path, *, workers: int, before_start: Callable[[Deployment], None] = lambda _: None, **settings: str) -> Iterator[Road]:
    """A road whose deployment is whole: one web, `workers` worker processes. Nothing runs afterwards."""
    with SentryServer() as sentry:
        environment = SETTINGS | {"SENTRY_DSN": sentry.dsn, "GHL_BURST": str(RATE_LIMIT)} | settings
        made = Deployment(folder, workers=workers, environment=environment)
        before_start(made)
        with made as deployment, deployment.connection() as connection:
            ours = Road(deployment, sentry, workers * int(deployment.environment["WORKERS"]), connection)
            ours.mend()
            yield ours

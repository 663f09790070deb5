"""A console with everything behind it: real Redis, a GoHighLevel stand-in, and calls that are run when a test says so."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from dataclasses import replace

from flask import Flask
from flask.testing import FlaskClient
from werkzeug.security import generate_password_hash

from app import build_parts
from bridge.call import Call
from bridge.console import site
from bridge.console.actions import Desk
from bridge.errors import StepFailed
from bridge.intake.accept import Acceptor, Event
from bridge.ledger import keys, moves
from bridge.ledger.entry import Entry, State
from bridge.ledger.store import Change
from bridge.sandbox.ghl import GhlStandIn
from bridge.work import attempt
from bridge.work.worker import CallWorker
from tests.support.builders import ENVIRONMENT, make_call, make_settings, make_trouble

PASSWORD = "correct horse battery"
_HASH = generate_password_hash(PASSWORD, "scrypt:1024:8:1")  # the real one is slow on purpose
USERS = f"vera:viewer:{_HASH}\notto:operator:{_HASH}\nolga:owner:{_HASH}"
NUMBERS = [f"+1202555{number:04}" for number in range(100, 200)]  # for fiction


class Site:
    def __init__(self, redis_url: str, ghl: GhlStandIn, **environment: str) -> None:
        self.ghl = ghl
        told = {
            "REDIS_URL": redis_url,
            "GHL_BASE_URL": ghl.url,
            "GHL_TOKEN": ghl.world.token,
            "GHL_LOCATION_ID": ghl.world.location_id,
            "PUBLIC_URL": "http://127.0.0.1:8000",
            "CONSOLE_USERS": USERS,
            "RETRY_BASE_S": "0.01",
        }
        self.settings = make_settings(**told | environment)
        self.parts = build_parts(self.settings)
        self.store = self.parts.store
        self._at_work = threading.RLock()  # one call at a time: a client of the CRM belongs to one thread
        self.app = Flask("callbridge")
        self.app.secret_key = ENVIRONMENT["SECRET_KEY"]
        site.install(self.app, self.parts)

    @property
    def desk(self) -> Desk:
        return site.desk(self.parts)

    def close(self) -> None:
        self.parts.connection.close()

    # Calls

    def accept(self, number: int = 0, **facts) -> str:
        """A call comes in, from caller `number`. Returns its key."""
        phone = NUMBERS[number % len(NUMBERS)]
        call = make_call(**{"root_id": f"CA{number}", "caller": replace(make_call().caller, raw=phone, e164=phone)} | facts)
        self.take(call)
        return call.key

    def take(self, call: Call) -> None:
        Acceptor(self.store, self.parts.plan, self.settings).accept(
            Event(call, "status", repr(call), None, "webhook", '{"From": "a caller"}')
        )

    def run(self, call_key: str) -> Entry:
        """Run the call as a worker would; what fails for good is seen in the entry."""
        self.parts.connection.lrem("rq:queue:calls", 0, call_key)  # taken from the queue
        with self._at_work, contextlib.suppress(StepFailed):
            attempt.run(self.parts.attempt, call_key)
        return self.entry(call_key)

    def employ(self) -> None:
        """A worker is registered; `work` does what it would."""
        CallWorker(self.parts.connection, parked=lambda _: False, horse_died=lambda *_: None).register_birth()

    def work(self) -> int:
        """One round of a deployment's workers: start what is due, run what is queued. Returns how many calls were run."""
        with self._at_work:
            self.parts.sweeper.sweep()
            queued = [name.decode() for name in self.parts.connection.lrange("rq:queue:calls", 0, -1)]
            for call_key in queued:
                self.run(call_key)
            return len(queued)

    def settle(self, call_key: str, within_s: float = 10.0) -> Entry:
        """Work until the call is done or needs attention."""
        deadline = time.monotonic() + within_s
        while (entry := self.entry(call_key)).state in (State.ACCEPTED, State.RUNNING):
            assert time.monotonic() < deadline, f"it is still {entry.state}"
            self.work()
            time.sleep(0.01)
        return entry

    def fail(self, number: int = 0, **facts) -> str:
        """A call comes in, and needs attention: the token lacks a scope. GoHighLevel is well again afterwards."""
        with self._at_work:
            fault = self.ghl.add_fault("scope_missing", method="POST", path="/contacts/")
            call_key = self.accept(number, **facts)
            self.run(call_key)
            self.ghl.remove_fault(fault)
            self.parts.connection.delete("rq:queue:calls")
        return call_key

    def park(self, number: int = 0, *, at: float | None = None, **facts) -> str:
        """A call that needs attention, without anything having been asked."""
        call_key = self.accept(number, **facts)
        now = self.store.clock.now() if at is None else at

        def parked(entry: Entry | None, _moment: object) -> Change:
            assert entry is not None
            running = moves.begin(entry, now, lease_s=30, worker="w")
            return Change(moves.park(replace(running, accepted_at=now), now, make_trouble(at=now)))

        self.store.change(call_key, parked)
        self.parts.connection.delete("rq:queue:calls")
        return call_key

    def entry(self, call_key: str) -> Entry:
        entry = self.store.get(call_key)
        assert entry is not None
        return entry

    def told(self, call_key: str) -> list[str]:
        return [line["what"] for line in self.store.trail(call_key)]

    def age(self, call_key: str, seconds: float) -> None:
        """As if it had come in that long ago."""
        self.store.change(call_key, lambda entry, _: Change(replace(entry, accepted_at=entry.accepted_at - seconds)))

    # People

    def browser(self, name: str | None = None) -> Browser:
        browser = Browser(self.app.test_client())
        if name is not None:
            assert browser.log_in(name).status_code == 302
        return browser

    def forget_failed_logins(self) -> None:
        for name in self.parts.connection.scan_iter(keys.LOGINS + "*"):
            self.parts.connection.delete(name)


class Browser:
    """Follows links and sends forms as a browser without JavaScript does."""

    def __init__(self, client: FlaskClient) -> None:
        self.client = client

    def get(self, path: str, **more):
        return self.client.get(path, buffered=True, **more)

    def page(self, path: str) -> str:
        answer = self.get(path, follow_redirects=True)
        assert answer.status_code == 200, answer.text
        return answer.text

    def token(self, path: str = "/console/login") -> str:
        found = re.search(r'name="csrf_token" value="([^"]+)"', self.get(path).text)
        return found[1] if found else ""

    def log_in(self, name: str, password: str = PASSWORD, **more):
        token = self.token()
        return self.client.post("/console/login", data={"name": name, "password": password, "csrf_token": token} | more)

    def send(self, path: str, page: str | None = None, **fields: str):
        """Send the form of `page` (else of the first page) with the hidden fields that stand in it for this address."""
        source = self.get(page or "/console").text
        heads = {part.partition(">")[0]: part for part in source.split("<form")[1:] if 'method="post"' in part.partition(">")[0]}
        form = next((part for head, part in heads.items() if f'action="{path}"' in head or "action=" not in head), source)
        hidden = dict(re.findall(r'type="hidden" name="([^"]+)" value="([^"]*)"', form.partition("</form>")[0]))
        return self.client.post(path, data=hidden | fields)


def flashed(browser: Browser) -> str:
    """What the next page says of what was just done."""
    found = re.search(r'class="flash[^>]*>([^<]+)<', browser.get("/console/attention").text)
    return found[1] if found else ""

"""What has to be true of every request, whatever stands in it: the judge of the fuzzing program.

verify refuses or proves, parse and answer never raise, and all of it takes less than 50 ms
what is signed is proven; what is not, a bridge with other secrets refuses as well
where a signature covers the content, no change of it makes another call
what was understood can be merged, stored and shown
the whole app never answers 5xx, and an entry appears only where the signature was proven
"""

from __future__ import annotations

import collections
import io
import re
import time
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta

from flask import Flask
from pydantic import TypeAdapter
from werkzeug.exceptions import RequestEntityTooLarge
from werkzeug.wrappers import Request

from bridge.call import Call, merge
from bridge.errors import Refused
from bridge.intake import http
from bridge.ledger.entry import Entry
from bridge.providers.base import Answer, Heard, Ignored, Provider, Sender, WebhookRequest
from handlers import note_text
from tests.providers.fuzz_inputs import Attempt
from tests.providers.support import PUBLIC_URL
from tests.support.builders import make_entry

MOST_S = 0.05
SAYS_NOTHING_OF_THE_BODY = {"3cx", "aircall", "bandwidth", "ringcentral"}  # a token or a password proves the sender alone
MAY_BE_REFUSED = {"too many parameters"}  # also where the signature is right
_ENTRY = TypeAdapter(Entry)


@dataclass(frozen=True)
class Outcome:
    sender: Sender | None = None
    refused: Refused | None = None
    heard: Heard | Ignored | None = None
    answer: Answer | None = None
    fault: str = ""


@dataclass
class Judge:
    """`strangers` are the same adapters with other secrets. `app` shares its secrets with `adapters`."""

    adapters: dict[str, Provider]
    strangers: dict[str, Provider]
    app: Flask | None = None
    counts: collections.Counter[str] = field(default_factory=collections.Counter)
    slowest: list[tuple[float, str]] = field(default_factory=list)

    def judge(self, attempt: Attempt) -> list[str]:
        """What is wrong; nothing as a rule."""
        if attempt.through_app and self.app is not None:
            return self._judge_app(attempt)
        outcome, faults = self._run(attempt.provider, attempt.request)
        faults += self._judge_proof(attempt, outcome)
        return [f"{attempt.provider}: {fault}" for fault in faults]

    def _run(self, provider: str, request: WebhookRequest) -> tuple[Outcome, list[str]]:
        """The adapter's whole work on one request, timed: the least of up to three, since what else a machine does shows in one."""
        spent = []
        while len(spent) < 3 and min(spent, default=MOST_S) >= MOST_S:
            begun = time.thread_time()
            outcome = _through(self.adapters[provider], request)
            spent.append(time.thread_time() - begun)
        said = "refused" if outcome.refused else type(outcome.heard).__name__.lower() if outcome.heard else "fault"
        self.counts[said] += 1
        self.counts[f"{provider} {said}"] += 1
        self._note_time(min(spent), f"{provider} {said}, {len(request.body)} bytes")
        slow = [f"takes {min(spent) * 1000:.0f} ms of CPU"] if min(spent) >= MOST_S else []
        return outcome, ([outcome.fault] if outcome.fault else []) + slow

    def _note_time(self, spent: float, what: str) -> None:
        if len(self.slowest) < 5 or spent > self.slowest[-1][0]:
            self.slowest = sorted([*self.slowest, (spent, what)], reverse=True)[:5]

    def _judge_proof(self, attempt: Attempt, outcome: Outcome) -> list[str]:
        if outcome.refused is not None:
            is_odd = attempt.is_signed and outcome.refused.reason not in MAY_BE_REFUSED
            return [f"refuses what is signed: {outcome.refused.reason}"] if is_odd else []
        faults = [f"understood, but {fault}" for fault in _unusable(outcome.heard)]
        if attempt.is_signed or outcome.sender is None or _is_handshake(outcome):
            return faults
        with suppress(Refused):
            self.strangers[attempt.provider].verify(attempt.request)
            faults.append("proves what a bridge with other secrets would prove as well")
        return faults + self._judge_cover(attempt, outcome.heard)

    def _judge_cover(self, attempt: Attempt, heard: Heard | Ignored | None) -> list[str]:
        """A genuine request that was changed and is proven all the same says what it said before, or names no call any more."""
        if attempt.original is None or _is_uncovered(attempt.provider, attempt.original) or not isinstance(heard, Heard):
            return []
        before = _through(self.adapters[attempt.provider], attempt.original).heard
        if isinstance(before, Heard) and _identity(before.call) == _identity(heard.call):
            return []
        return ["a change of what was signed makes another call"]

    # ---- The whole app

    def _judge_app(self, attempt: Attempt) -> list[str]:
        environ = environ_of(attempt.request)
        try:
            request = http.read(Request(dict(environ)), PUBLIC_URL)
        except RequestEntityTooLarge:
            request = None
        except Exception as error:  # noqa: BLE001 - whatever it is, it would be a 500
            return [f"app: the request cannot be read ({type(error).__name__})"]
        environ["wsgi.input"] = io.BytesIO(attempt.request.body)
        before = self._entries()
        answered = self.app.test_client().open(environ_overrides=environ, buffered=True)
        fresh = self._entries() - before
        self.counts["through the app"] += 1
        self.counts[f"app {answered.status_code}"] += 1
        faults = [f"app: answers {answered.status_code}"] if answered.status_code >= 500 else []
        outcome = self._outcome_of(request) if request and answered.status_code < 300 else Outcome()
        if fresh and not isinstance(outcome.heard, Heard):
            faults.append("app: an entry without a proof")
        if isinstance(outcome.heard, Heard) and not self._store().get(outcome.heard.call.key):
            faults.append("app: no entry for what was proven and understood")
        return faults

    def _outcome_of(self, request: WebhookRequest) -> Outcome:
        """What the adapter that the path names says of the same request."""
        name = request.path.removeprefix("/webhooks/").partition("/")[0]
        return _through(self.adapters[name], request) if name in self.adapters else Outcome()

    def _store(self):
        return self.app.extensions["callbridge"].store

    def _entries(self) -> int:
        connection = self._store().connection
        if connection.zcard("cb:index:all") > 500:
            connection.flushdb()
        return connection.zcard("cb:index:all")


def _through(provider: Provider, request: WebhookRequest) -> Outcome:
    sender = heard = None
    doing = "verify"
    try:
        sender = provider.verify(request)
        doing = "parse"
        heard = provider.parse(request, sender)
        doing = "answer"
        return Outcome(sender, None, heard, provider.answer(heard.kind, request))
    except Refused as refused:
        return Outcome(refused=refused) if doing == "verify" else Outcome(sender, fault=f"{doing} refuses")
    except Exception as error:  # noqa: BLE001 - that nothing else is raised is what is judged
        return Outcome(sender, None, heard, fault=f"{doing} raises {type(error).__name__}: {error}"[:300])


def _is_uncovered(provider: str, genuine: WebhookRequest) -> bool:
    """Vonage's token covers nothing of a GET (docs/providers/vonage.md says so, and to use POST)."""
    return provider in SAYS_NOTHING_OF_THE_BODY or (provider == "vonage" and genuine.method == "GET")


def _is_handshake(outcome: Outcome) -> bool:
    return isinstance(outcome.heard, Ignored) and not outcome.heard.keep


def _identity(call: Call) -> tuple[object, ...]:
    return call.account, call.root_id, call.caller, call.dialled, call.direction


def _unusable(heard: Heard | Ignored | None) -> list[str]:
    """Why what was understood can't be used."""
    if not isinstance(heard, Heard):
        return [] if heard is None or (heard.reason and len(heard.reason) < 120) else ["its reason is none"]
    call, faults = heard.call, []
    if not re.fullmatch("[A-Za-z0-9_-]{1,300}", call.key):
        faults.append("its key is no job id")
    if merge(call, call) != call:
        faults.append("merged with itself it is another call")
    times = [at for at in (call.started_at, call.answered_at, call.ended_at) if at is not None]
    if any(at.utcoffset() != timedelta(0) for at in times):
        faults.append("its times are not in UTC")
    try:
        entry = make_entry(facts=call)
        if _ENTRY.validate_json(_ENTRY.dump_json(entry)) != entry:
            faults.append("stored and read again it is another call")
        heard.content.encode()
        for zone in ("America/Los_Angeles", "Pacific/Auckland"):
            note_text.render(call, zone=zone, limit=4000).encode()
    except Exception as error:  # noqa: BLE001 - that nothing is raised is what is judged
        faults.append(f"it can't be stored or shown: {type(error).__name__}")
    return faults


def environ_of(request: WebhookRequest) -> dict[str, object]:
    """What a server would hand on; what none lets through (line breaks in a header) is left out."""
    path = request.path if request.path.startswith("/") else f"/{request.path}"
    plain = {name: re.sub(r"[\r\n\x00]", "", text).encode("latin-1", "replace").decode("latin-1") for name, text in request.headers.items()}
    named = {"HTTP_" + name.upper().replace("-", "_"): text for name, text in plain.items()}
    raw = re.sub(r"[\s\x00?#]", "", path).encode("latin-1", "replace").decode("latin-1")
    return {
        **named,
        "CONTENT_TYPE": named.pop("HTTP_CONTENT_TYPE", ""),
        "CONTENT_LENGTH": str(len(request.body)),
        "REQUEST_METHOD": re.sub("[^A-Z]", "", request.method.upper()) or "POST",
        "PATH_INFO": raw,
        "RAW_URI": raw + (f"?{request.query}" if request.query else ""),
        "QUERY_STRING": re.sub(r"[\r\n\x00 ]", "", request.query).encode("latin-1", "replace").decode("latin-1"),
        "SERVER_NAME": "ivr.example.com",
        "SERVER_PORT": "443",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "wsgi.url_scheme": "https",
        "wsgi.input": io.BytesIO(request.body),
    }

"""The demo's story: calls of every kind, played against a running deployment, and what became of them.

Every figure is counted afterwards: from the CRM's truth and from the bridge's own API. What was expected stands in the scenes.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

import requests

from bridge.providers import registry
from bridge.providers.base import Provider
from bridge.sandbox import phone, scenarios
from bridge.sandbox.deployment import Deployment
from bridge.sandbox.phone import TwilioPhone
from bridge.sandbox.scenarios import Phone, Plan, Sent
from bridge.settings import load

DONE, NEEDS_ATTENTION = "done", "needs_attention"
CHORES = {"GET /locations/{location_id}"}  # read once an hour, for no call in particular
NEW_CALLER, KNOWN_CALLER, WITHHELD, FORGER = "new", "known", "withheld", "forger"
MOST_REQUESTS = {NEW_CALLER: 3, KNOWN_CALLER: 2}
SCENE_WITHIN_S = 35.0  # a killed sweeper is missed after 10 s, and a job that went down with its worker is looked for after 10 more


@dataclass(frozen=True, slots=True)
class Scene:
    """One thing that happens, and how it has to end."""

    title: str
    plan: Callable[[Phone, random.Random, str | None], Plan]
    who: str = NEW_CALLER
    ends: str = DONE
    fault: Mapping[str, object] = field(default_factory=dict)  # of the CRM, while this scene plays
    killed: tuple[str, ...] = ()  # parts that are killed before and started again after the deliveries

    @property
    def makes_lead(self) -> bool:
        return self.ends == DONE and self.who in {NEW_CALLER, KNOWN_CALLER}


SCENES = (
    Scene("A new caller", scenarios.new_caller),
    Scene("The same caller rings again", scenarios.new_caller, who=KNOWN_CALLER),
    Scene("Every webhook of a call is delivered three times at once", scenarios.repeat),
    Scene("Two calls of one caller in the same instant", scenarios.twice_at_once),
    Scene("A caller withholds the number", scenarios.withheld, who=WITHHELD),
    Scene("The webhooks of a call come backwards, the recording first", scenarios.out_of_order),
    Scene("A recording comes when the call is long done", scenarios.recording_late),
    Scene(
        "GoHighLevel creates the contact, and its answer is lost",
        scenarios.new_caller,
        fault={"kind": "answer_lost", "method": "POST", "path": "/contacts/", "times": 1},
    ),
    Scene(
        "GoHighLevel refuses: the token lacks a scope",
        scenarios.new_caller,
        ends=NEEDS_ATTENTION,
        fault={"kind": "scope_missing", "method": "POST", "path": "/contacts/", "times": 1},
    ),
    Scene("Every worker is killed, and somebody rings", scenarios.new_caller, killed=("worker-1", "worker-2")),
    Scene("Redis is killed, and somebody rings", scenarios.new_caller, killed=("redis",)),
    Scene("Somebody forges a webhook", scenarios.new_caller, who=FORGER),
)


@dataclass(frozen=True, slots=True)
class Played:
    """A scene, and what came of it."""

    scene: Scene
    caller: str
    sent: tuple[Sent, ...]
    keys: tuple[str, ...]
    calls: tuple[dict[str, Any], ...]  # as the bridge's API shows them
    notes: Mapping[str, int]  # living notes that carry each key
    requests: int  # to GoHighLevel
    seconds: float


@dataclass(frozen=True, slots=True)
class Figures:
    """What a run comes to. `lost` were accepted and have ended neither as done nor as a visible question."""

    calls: int
    deliveries: int
    refused: int
    contacts: int
    duplicates: int
    notes: int
    notes_twice: int
    lost: int
    done: int
    needs_attention: int
    lost_answers: int
    requests_new_caller: int
    requests_known_caller: int


class Story:
    """Plays scenes. `rng` decides who rings; callers that the CRM knows from an earlier run are left alone."""

    def __init__(self, deployment: Deployment, rng: random.Random, *, within_s: float = 50.0) -> None:
        self._deployment = deployment
        self._rng = rng
        self._ends_at = time.monotonic() + within_s
        self._before = deployment.ghl.counts()
        self._line = TwilioPhone(deployment.url, deployment.settings["TWILIO_AUTH_TOKEN"], rng)
        self._regular: str | None = None

    @cached_property
    def _adapter(self) -> Provider:
        return registry.build(load(self._deployment.environment, registry.SETTINGS))["twilio"]

    def play(self, scenes: Sequence[Scene] = SCENES) -> Iterator[Played]:
        """Each scene as soon as it has ended, or has not ended in time."""
        for scene in scenes:
            if scene.fault:
                self._deployment.ghl.add_fault(**dict(scene.fault))  # type: ignore[arg-type]  # its kind stands among the details
            try:
                yield self._play(scene)
            finally:
                if scene.fault:
                    self._deployment.ghl.clear_faults()

    def _play(self, scene: Scene) -> Played:
        begun, first = time.monotonic(), self._deployment.ghl.next_request()
        caller = self._caller(scene)
        line = replace(self._line, token="forged" * 5) if scene.who == FORGER else self._line
        with self._without(scene.killed):
            sent = self._send(scene.plan(line, self._rng, caller))
        keys = self._keys(sent)
        self._await_end(keys)
        calls = tuple(call for key in keys if (call := self._deployment.bridge.call(key)) is not None)
        served = self._deployment.ghl.requests(since=first)
        return Played(
            scene,
            caller,
            tuple(sent),
            keys,
            calls,
            {key: _living(self._deployment.ghl.notes(key)) for key in keys},
            sum(one["endpoint"] not in CHORES for one in served),
            time.monotonic() - begun,
        )

    @contextlib.contextmanager
    def _without(self, names: Sequence[str]) -> Iterator[None]:
        for name in names:
            self._deployment.kill(name)
        yield
        for name in names:
            self._deployment.start_part(name)

    def _send(self, plan: Plan) -> list[Sent]:
        sent: list[Sent] = []
        for batch in plan:
            if batch.when_settled:
                self._await_end(self._keys(sent))
            sent += scenarios.send_batch(batch)
        return sent

    def _caller(self, scene: Scene) -> str:
        if scene.who == WITHHELD:
            return scenarios.WITHHELD
        if scene.who == KNOWN_CALLER and self._regular:
            return self._regular
        caller = phone.new_call(self._rng).caller
        while self._deployment.ghl.contacts(caller):
            caller = phone.new_call(self._rng).caller
        self._regular = self._regular or caller
        return caller

    def _keys(self, sent: Sequence[Sent]) -> tuple[str, ...]:
        """The calls that were accepted, each once."""
        public_url = self._deployment.url
        found = [scenarios.call_key_of(one.delivery, self._adapter, public_url) for one in sent if one.is_accepted]
        return tuple(dict.fromkeys(key for key in found if key))

    def _await_end(self, keys: Sequence[str]) -> None:
        """Return when every call has ended, or when it is too late: what has not ended is then seen in the figures."""
        deadline = min(time.monotonic() + SCENE_WITHIN_S, self._ends_at)
        while time.monotonic() < deadline:
            with contextlib.suppress(requests.RequestException):  # Redis is coming back
                if all(has_ended(self._deployment.bridge.call(key)) for key in keys):
                    return
            time.sleep(0.05)

    def figures(self, played: Sequence[Played]) -> Figures:
        """Counted anew, at the end: what the bridge says and what is in the CRM."""
        keys = [key for one in played for key in one.keys]
        calls = [self._deployment.bridge.call(key) for key in keys]
        notes = [_living(self._deployment.ghl.notes(key)) for key in keys]
        truth, before = self._deployment.ghl.counts(), self._before
        return Figures(
            calls=len(keys),
            deliveries=sum(len(one.sent) for one in played),
            refused=sum(not sent.is_accepted for one in played for sent in one.sent),
            contacts=truth["contacts"] - before["contacts"],
            duplicates=len(truth["duplicates"]),
            notes=truth["notes"] - before["notes"],
            notes_twice=sum(count > 1 for count in notes),
            lost=sum(not has_ended(call) for call in calls),
            done=sum(call is not None and call["state"] == DONE for call in calls),
            needs_attention=sum(call is not None and call["state"] == NEEDS_ATTENTION for call in calls),
            lost_answers=truth["lost_answers"] - before["lost_answers"],
            requests_new_caller=_requests(played, NEW_CALLER),
            requests_known_caller=_requests(played, KNOWN_CALLER),
        )


def has_ended(call: Mapping[str, Any] | None) -> bool:
    return call is not None and call["state"] in {DONE, NEEDS_ATTENTION}


def judge(played: Sequence[Played], figures: Figures) -> tuple[str, ...]:
    """What was not as it has to be, in plain words; empty when all is well."""
    return (*(fault for one in played for fault in _faults_of(one)), *_faults_in(played, figures))


def as_json(figures: Figures) -> dict[str, int]:
    return asdict(figures) | {"leads": figures.contacts}


def _faults_of(played: Played) -> Iterator[str]:
    """What is wrong with one scene."""
    title = f"“{played.scene.title}”"
    if played.scene.who == FORGER:
        if any(sent.status != 403 for sent in played.sent):
            yield f"{title}: answered {_statuses(played)}, not 403"
        return
    if not all(sent.is_accepted for sent in played.sent):
        yield f"{title}: a delivery was answered {_statuses(played)}"
    states = sorted({call["state"] for call in played.calls}) or ["no call at all"]
    if states != [played.scene.ends]:
        yield f"{title}: ended as {', '.join(states)}, not as {played.scene.ends}"
    wanted = 1 if played.scene.makes_lead else 0
    if any(count != wanted for count in played.notes.values()):
        yield f"{title}: {list(played.notes.values())} notes for its calls, {wanted} wanted for each"
    contacts = {call["contact_id"] for call in played.calls if call["contact_id"]}
    if len(contacts) != wanted:
        yield f"{title}: {len(contacts)} contacts, {wanted} wanted"


def _faults_in(played: Sequence[Played], figures: Figures) -> Iterator[str]:
    """What is wrong with the run as a whole."""
    leads = {one.caller for one in played if one.scene.makes_lead}
    wanted = {
        "contacts": (figures.contacts, len(leads)),
        "notes": (figures.notes, sum(len(one.keys) for one in played if one.scene.makes_lead)),
        "callers with two contacts": (figures.duplicates, 0),
        "calls with two notes": (figures.notes_twice, 0),
        "calls lost": (figures.lost, 0),
        "lost answers": (figures.lost_answers, sum(one.scene.fault.get("kind") == "answer_lost" for one in played)),
    }
    for what, (counted, expected) in wanted.items():
        if counted != expected:
            yield f"{counted} {what}, not {expected}"
    for who, counted in ((NEW_CALLER, figures.requests_new_caller), (KNOWN_CALLER, figures.requests_known_caller)):
        if not 0 < counted <= MOST_REQUESTS[who]:
            yield f"{counted} requests to GoHighLevel for a {who} caller, {MOST_REQUESTS[who]} at most"


def _requests(played: Sequence[Played], who: str) -> int:
    """What the first call of this kind cost."""
    return next((one.requests for one in played if one.scene.who == who and not one.scene.fault), 0)


def _statuses(played: Played) -> str:
    return ", ".join(sorted({str(sent.status) for sent in played.sent}))


def _living(notes: Sequence[Mapping[str, Any]]) -> int:
    return sum(not note["deleted"] for note in notes)

"""One request from arrival to answer: the fault that it meets, the gate, the endpoint, the log. Knows nothing of sockets."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from bridge.sandbox.ghl import api, replies
from bridge.sandbox.ghl.asked import Asked, Request
from bridge.sandbox.ghl.book import ContactBook, StoredContact
from bridge.sandbox.ghl.faults import Effect, Fault, FaultPlan, Spoil, Then
from bridge.sandbox.ghl.limits import RateLimiter
from bridge.sandbox.ghl.replies import Refusal, Reply
from bridge.sandbox.ghl.spoiling import spoiled, without_field
from bridge.sandbox.ghl.truth import Truth
from bridge.sandbox.ghl.world import TokenState, World

_ON_THE_WIRE = frozenset({Spoil.RESET, Spoil.HOLD, Spoil.DRIP, Spoil.TRUNCATE})
_NEVER_ANSWERED = frozenset({Spoil.RESET, Spoil.HOLD})


@dataclass(frozen=True, slots=True)
class Delivery:
    """An answer and how it goes out: whole (`NOTHING`), or as one of the spoils that happen on the wire."""

    reply: Reply
    how: Spoil = Spoil.NOTHING
    seconds: float = 0


@dataclass
class Engine:
    """The state of the stand-in. `world` is replaced as a whole; whoever read it before goes on with what it read.

    `over` is set at the next `begin`, `reset` or `end`: whatever waits belongs to one run, wakes up then, and has no effect any more.
    """

    world: World
    book: ContactBook = field(default_factory=ContactBook)
    faults: FaultPlan = field(default_factory=FaultPlan)
    limits: RateLimiter = field(default_factory=RateLimiter)

    def __post_init__(self) -> None:
        self.truth = Truth(self.book)
        self.over = threading.Event()
        self._first_world = self.world
        self._late: set[threading.Timer] = set()
        self._lock = threading.Lock()

    def configure(self, changes: Mapping[str, Any]) -> World:
        """Change settings of the location. Raises pydantic.ValidationError, and then changes nothing."""
        with self._lock:
            self.world = self.world.changed(**changes)
            return self.world

    def reset(self, changes: Mapping[str, Any]) -> None:
        """Everything as at the start: no contacts, no log, no faults, no late effects, the first settings with `changes`."""
        world = self._first_world.changed(**changes)
        self.begin()
        self.faults.clear()
        self.book.clear()
        self.truth.clear()
        self.limits.reset()
        self.world = world

    def begin(self) -> None:
        """Start a new run: nothing of the one before has an effect from here on."""
        self.end()
        self.over = threading.Event()

    def end(self) -> None:
        """Wake whatever waits, and forget the effects that are still to come."""
        self.over.set()
        with self._lock:
            timers, self._late = list(self._late), set()
        for timer in timers:
            timer.cancel()

    def wait(self, seconds: float) -> bool:
        """Sleep. True where the run ended meanwhile."""
        return self.over.wait(seconds) if seconds > 0 else False

    def answer(self, request: Request) -> Delivery:
        """What a request gets. Whatever it changes has been changed, and logged, when this returns; late effects excepted."""
        found = api.find_route(request.method, request.path)
        endpoint, template = (found[0].label, found[0].template) if found else ("unknown", "unknown")
        fault = self.faults.draw(request.method, request.path, template)
        number = self.truth.arrived(request, endpoint, fault)
        self.wait(self.world.latency_s)
        if fault is None:
            reply = self._perform(request)
            self.truth.settled(number, status=reply.status, effect=reply.effect, contact_id=reply.contact_id)
            return Delivery(reply)
        return self._answer_with(fault, request, number)

    def _answer_with(self, fault: Fault, request: Request, number: int) -> Delivery:
        shape = fault.shape
        asked = without_field(request, fault.drop_field) if fault.drop_field else request
        if shape.effect is Effect.LATE and shape.spoil in _NEVER_ANSWERED:
            self._later(shape.seconds, lambda: self._settle(fault, asked, number))
            return Delivery(Reply(200), shape.spoil, shape.seconds)
        if shape.effect is Effect.LATE and self.wait(shape.seconds):
            return Delivery(Reply(503), Spoil.RESET)
        reply = self._settle(fault, asked, number)
        return Delivery(reply, shape.spoil if shape.spoil in _ON_THE_WIRE else Spoil.NOTHING, shape.seconds)

    def _settle(self, fault: Fault, request: Request, number: int) -> Reply:
        """Let the effect happen, if it does; spoil the answer; let happen what somebody else does; log."""
        world = self.world
        if fault.shape.effect is Effect.NONE:
            raw = Reply(fault.shape.status).with_headers(self.limits.headers(world) if world.rate_headers else {})
        else:
            raw = self._perform(request)
        reply = spoiled(raw, fault, request, world, self.book)
        self._then(fault, reply)
        status = None if fault.shape.spoil in _NEVER_ANSWERED else reply.status
        self.truth.settled(number, status=status, effect=reply.effect, contact_id=reply.contact_id)
        return reply

    def _later(self, seconds: float, act: Callable[[], object]) -> None:
        def run() -> None:
            with self._lock:
                self._late.discard(timer)
            act()

        timer = threading.Timer(seconds, run)
        timer.daemon = True
        with self._lock:
            self._late.add(timer)
        timer.start()

    def _perform(self, request: Request) -> Reply:
        """The API's own answer to a request."""
        world = self.world
        try:
            reply = self._pass_gate(request, world)
        except Refusal as refused:
            reply = refused.reply
        if reply.status == 429 and world.retry_after_s is not None:
            reply = reply.with_headers({"Retry-After": f"{world.retry_after_s:g}"})
        return reply.with_headers(self.limits.headers(world)) if world.rate_headers else reply

    def _pass_gate(self, request: Request, world: World) -> Reply:
        api.check_access(request, world)
        if not self.limits.take(world):
            raise Refusal(replies.too_many_requests())
        found = api.find_route(request.method, request.path)
        if found is None:
            raise Refusal(replies.unknown_route(request.method, request.path))
        route, params = found
        asked = Asked(
            params=params,
            query=request.query,
            body=api.read_body(request),
            v3=request.headers.get("version") == "v3",
            book=self.book,
            world=world,
            wait=self.wait,
        )
        reply = route.handler(asked)
        return reply if reply.contact_id else replace(reply, contact_id=params.get("contact_id"))

    def _then(self, fault: Fault, reply: Reply) -> None:
        """What a member of staff does at the worst moment."""
        contact_id = fault.contact_id or reply.contact_id
        if fault.then is Then.REVOKE_TOKEN:
            self.configure({"token_state": TokenState.REVOKED})
        elif fault.then in (Then.ALLOW_DUPLICATES, Then.REFUSE_DUPLICATES):
            self.configure({"allow_duplicate_contact": fault.then is Then.ALLOW_DUPLICATES})
        elif fault.then is not None and contact_id and self.book.get(contact_id):
            if fault.then is Then.DELETE_CONTACT:
                self.book.retire(contact_id)
            else:
                self.merge(contact_id, fault.into if fault.into != contact_id and self.book.get(fault.into or "") else None)

    def merge(self, contact_id: str, into: str | None = None) -> StoredContact:
        """Merge a contact into another one, or into a new one that takes its place. Returns the one that remains. Raises KeyError."""
        with self.book.lock:
            gone = self.book.get(contact_id)
            if gone is None or into == contact_id:
                raise KeyError(contact_id)
            master_id = into or self.book.add({"phone": gone.phone} if gone.phone else {}).id
            return self.book.merge(gone.id, master_id)

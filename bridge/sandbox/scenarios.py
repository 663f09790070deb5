"""What phone systems do to a bridge, as plans that can be sent: who rings, what is delivered, in which order, how often.

For the demo and `simulate`. Making a plan touches nothing.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from bridge.errors import Refused
from bridge.providers.base import Heard, Provider, WebhookRequest
from bridge.sandbox import phone
from bridge.sandbox.phone import Delivery, GenericPhone, PhoneCall, TwilioPhone

Phone: TypeAlias = TwilioPhone | GenericPhone

WITHHELD = "anonymous"
TALK_S = 40
_CROWD = 16  # threads that send at the same instant


@dataclass(frozen=True, slots=True)
class Visit:
    """The deliveries about one call, in the order in which they are made."""

    ringing: Delivery
    answered: Delivery
    entered: Delivery
    ended: Delivery
    recorded: Delivery

    @property
    def whole(self) -> tuple[Delivery, ...]:
        """All but the recording, which comes later."""
        return (self.ringing, self.answered, self.entered, self.ended)


@dataclass(frozen=True, slots=True)
class Batch:
    """Deliveries that are sent one after the other, or all at the same instant."""

    deliveries: tuple[Delivery, ...]
    together: bool = False
    when_settled: bool = False  # not before the bridge has nothing left to do about what was sent earlier


Plan: TypeAlias = tuple[Batch, ...]


def visit(line: Phone, call: PhoneCall) -> Visit:
    """A call in which the caller presses 1 and talks for 40 s."""
    if isinstance(line, TwilioPhone):
        return Visit(
            line.voice(call),
            line.status(call, "in-progress", after_s=2),
            line.gather(call, digits="1"),
            line.status(call, "completed", after_s=TALK_S),
            line.recording(call),
        )
    recording: dict[str, Any] = {"id": f"REC{call.sid[2:]}", "url": f"https://pbx.example.com/{call.sid}.wav", "duration_seconds": 30}
    return Visit(
        line.event("call.started", call),
        line.event("call.status", call, status="answered"),
        line.event("call.input", call, digits="1"),
        line.event("call.ended", call, duration_seconds=TALK_S),
        line.event("call.recording_ready", call, recording=recording),
    )


def new_visit(line: Phone, rng: random.Random, caller: str | None = None) -> Visit:
    """A visit that begins now, by a made-up caller of the range for fiction unless `caller` is told."""
    return visit(line, phone.new_call(rng, caller=caller, started=time.time()))


def new_caller(line: Phone, rng: random.Random, caller: str | None = None) -> Plan:
    return (Batch(new_visit(line, rng, caller).whole),)


def repeat(line: Phone, rng: random.Random, caller: str | None = None) -> Plan:
    """Every delivery three times at the same instant, as after answers that came too late."""
    return tuple(Batch((one,) * 3, together=True) for one in new_visit(line, rng, caller).whole)


def withheld(line: Phone, rng: random.Random, caller: str | None = None) -> Plan:
    return (Batch(new_visit(line, rng, caller or WITHHELD).whole),)


def out_of_order(line: Phone, rng: random.Random, caller: str | None = None) -> Plan:
    """Backwards: the recording first, the ringing last."""
    one = new_visit(line, rng, caller)
    return (Batch(tuple(reversed((*one.whole, one.recorded)))),)


def recording_late(line: Phone, rng: random.Random, caller: str | None = None) -> Plan:
    one = new_visit(line, rng, caller)
    return (Batch(one.whole), Batch((one.recorded,), when_settled=True))


def twice_at_once(line: Phone, rng: random.Random, caller: str | None = None) -> Plan:
    """Two calls of one caller ring at the same instant and end at the same instant."""
    caller = caller or phone.new_call(rng).caller
    one, other = new_visit(line, rng, caller), new_visit(line, rng, caller)
    return (Batch((one.ringing, other.ringing), together=True), Batch((one.ended, other.ended), together=True))


def storm(line: Phone, rng: random.Random, calls: int) -> Plan:
    """`calls` different callers at the same instant."""
    visits = [new_visit(line, rng) for _ in range(calls)]
    return (Batch(tuple(one.ringing for one in visits), together=True), Batch(tuple(one.ended for one in visits), together=True))


SCENARIOS: Mapping[str, Callable[[Phone, random.Random, str | None], Plan]] = {
    "new-caller": new_caller,
    "repeat": repeat,
    "withheld": withheld,
    "out-of-order": out_of_order,
    "recording-late": recording_late,
    "twice-at-once": twice_at_once,
}


def as_request(delivery: Delivery, public_url: str) -> WebhookRequest:
    """A delivery as the webhook room hands it to an adapter."""
    parts = urlsplit(delivery.url)
    headers = {name.lower(): value for name, value in delivery.headers.items()}
    path = parts.path.removeprefix(urlsplit(public_url).path)
    return WebhookRequest(delivery.method, path, parts.query, headers, delivery.body, public_url, time.time())


def call_key_of(delivery: Delivery, adapter: Provider, public_url: str) -> str | None:
    """The key of the call that a delivery is about; None where the adapter refuses it or makes no call of it."""
    request = as_request(delivery, public_url)
    try:
        heard = adapter.parse(request, adapter.verify(request))
    except Refused:
        return None
    return heard.call.key if isinstance(heard, Heard) else None


@dataclass(frozen=True, slots=True)
class Sent:
    """What a delivery was answered with: an HTTP status."""

    delivery: Delivery
    status: int

    @property
    def is_accepted(self) -> bool:
        return 200 <= self.status < 300


def send_batch(batch: Batch) -> list[Sent]:
    """Send it now. Raises requests.RequestException where the bridge cannot be reached."""
    if not batch.together:
        return [Sent(one, phone.send(one).status_code) for one in batch.deliveries]
    sent: list[Sent] = []
    for begin in range(0, len(batch.deliveries), _CROWD):
        crowd: Sequence[Delivery] = batch.deliveries[begin : begin + _CROWD]
        sent += [Sent(one, answer.status_code) for one, answer in zip(crowd, phone.send_together(crowd), strict=True)]
    return sent

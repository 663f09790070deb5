"""The phone side of a storm: which calls ring when, what is delivered about each, in which order and how often.

The plan depends on its seed alone. Deliveries are made when they are sent, since their times are part of what the bridge reads. What gets
no 2xx is sent again, as a provider with retries or a backfill would.
"""

from __future__ import annotations

import http.client
import itertools
import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from enum import StrEnum
from heapq import heappop, heappush
from typing import Self
from urllib.parse import urlsplit

from bridge.sandbox.phone import Delivery, PhoneCall, TwilioPhone

WITHHELD = "anonymous"
DIALLED = "+15550199999"
KNOWN_AFTER_S = 10.0
LATE_S = 4.0  # a recording that comes when everything else is done
BURST_CALLS, BURST_S = 500, 5.0
_PATIENCE_S = 15.0  # as long as Twilio waits (https://www.twilio.com/docs/api/errors/11200)
_NUMBERS = 10_000  # of the range for fiction; further calls come from callers who rang before


class Order(StrEnum):
    AS_IT_HAPPENED = "as it happened"
    BACKWARDS = "backwards"
    FINAL_FIRST = "final status first"


class Recorded(StrEnum):
    NOT = "not"
    AT_ONCE = "at once"
    LATE = "late"


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """One call and what goes wrong with its deliveries. `at_s` is when it rings, in seconds after the beginning."""

    number: int
    sid: str
    caller: str  # E.164, or WITHHELD
    at_s: float
    order: Order
    recorded: Recorded
    copies: int  # how often one of its deliveries is sent at the same instant
    copied: int  # which one
    has_leg: bool
    rival: str | None  # a second delivery under the same id names this caller: a conflict that we provoke

    @property
    def makes_lead(self) -> bool:
        return self.caller != WITHHELD and self.rival is None


@dataclass(frozen=True, slots=True)
class Traffic:
    """All calls of a storm, and the callers whom the CRM knew before."""

    calls: tuple[PlannedCall, ...]
    known: frozenset[str]


@dataclass(frozen=True, slots=True)
class Wave:
    """Deliveries of one instant, `after_s` seconds after the call began to ring."""

    after_s: float
    deliveries: tuple[Delivery, ...]


def plan(count: int, seed: int, per_s: float, *, conflicts: bool = True) -> Traffic:
    """`count` calls at `per_s` a second, a quarter of them, at most BURST_CALLS, within BURST_S seconds in the middle."""
    rng = random.Random(f"traffic/{seed}")
    numbers = rng.sample(range(_NUMBERS), _NUMBERS)
    fresh = (f"+1555010{number:04d}" for number in itertools.cycle(numbers))
    callers: list[str] = []
    calls = []
    for number, at_s in enumerate(_times(rng, count, per_s)):
        caller = _caller(rng, callers, fresh)
        rival = f"+1555011{number % _NUMBERS:04d}" if conflicts and rng.random() < 0.01 else None
        if rival is not None:
            caller = f"+1555012{number % _NUMBERS:04d}"  # of its own, so that the calls of others do not depend on who came first
        calls.append(_call(rng, number, caller, at_s, rival))
    return Traffic(tuple(calls), _known(rng, calls))


def _known(rng: random.Random, calls: Sequence[PlannedCall]) -> frozenset[str]:
    """A tenth of the callers, none of whom rings while the CRM's index does not show them yet: that is the gap of staff, not ours."""
    early = {call.caller for call in calls if call.at_s < KNOWN_AFTER_S}
    others = sorted({call.caller for call in calls if call.makes_lead} - early)
    return frozenset(rng.sample(others, len(others) // 10))


def _times(rng: random.Random, count: int, per_s: float) -> list[float]:
    burst = min(BURST_CALLS, count // 4)
    steady = count - burst
    lasting = steady / per_s
    middle = lasting / 2
    return sorted(
        [rng.uniform(0, lasting) for _ in range(steady)]
        + [rng.uniform(middle, middle + BURST_S * burst / BURST_CALLS) for _ in range(burst)]
    )


def _caller(rng: random.Random, earlier: list[str], fresh: Iterator[str]) -> str:
    """Nobody, somebody who rang a moment ago, or somebody new."""
    drawn = rng.random()
    if drawn < 0.02:
        return WITHHELD
    if drawn < 0.17 and earlier:
        return rng.choice(earlier[-20:])
    earlier.append(next(fresh))
    return earlier[-1]


def _call(rng: random.Random, number: int, caller: str, at_s: float, rival: str | None) -> PlannedCall:
    return PlannedCall(
        number=number,
        sid=f"CA{rng.getrandbits(128):032x}",
        caller=caller,
        at_s=at_s,
        order=rng.choices(list(Order), (80, 10, 10))[0],
        recorded=rng.choices(list(Recorded), (40, 40, 20))[0],
        copies=_copies(rng),
        copied=rng.randrange(100),
        has_leg=rng.random() < 0.1,
        rival=rival,
    )


def _copies(rng: random.Random) -> int:
    drawn = rng.random()
    if drawn < 0.7:
        return 1
    return rng.randint(2, 5) if drawn < 0.95 else rng.randint(6, 20)


def waves(line: TwilioPhone, planned: PlannedCall, now: float) -> list[Wave]:
    """Everything that is delivered about a call that rings at `now` (seconds since the epoch)."""
    call = PhoneCall(planned.sid, planned.caller, DIALLED, now)
    told = _in_order(planned.order, [line.voice(call), line.status(call, "in-progress"), line.gather(call, digits="1"), _ended(line, call)])
    if planned.has_leg:
        told.append(line.child_leg(call, "+15550198888"))
    if planned.rival is not None:
        told.insert(planned.copied % 4, line.voice(replace(call, caller=planned.rival)))
    if planned.recorded is Recorded.AT_ONCE:
        told.append(line.recording(call))
    copied = planned.copied % len(told)
    # A second or so for the whole visit: it is what the bridge does with the order that matters, not how long people talk.
    found = [Wave(number * 0.4, (one,) * (planned.copies if number == copied else 1)) for number, one in enumerate(told)]
    if planned.recorded is Recorded.LATE:
        found.append(Wave(found[-1].after_s + LATE_S, (line.recording(call),)))
    return found


def _ended(line: TwilioPhone, call: PhoneCall) -> Delivery:
    return line.status(call, "completed", after_s=2)


def _in_order(order: Order, told: list[Delivery]) -> list[Delivery]:
    match order:
        case Order.BACKWARDS:
            return told[::-1]
        case Order.FINAL_FIRST:
            return [told[-1], *told[:-1]]
    return told


@dataclass(order=True, slots=True)
class _Due:
    at: float
    number: int
    sid: str = field(compare=False)
    delivery: Delivery = field(compare=False)
    tries: int = field(compare=False, default=0)


class Sender:
    """Sends each delivery at its time and again until it gets a 2xx. To be used as a context; leaving it drops what was not sent.

    `acknowledged` holds the ids of the calls about which at least one delivery was answered 2xx: those may not be lost.
    """

    def __init__(self, urls: Sequence[str], *, threads: int = 24, pause_s: float = 0.5) -> None:
        self.acknowledged: set[str] = set()
        self.sent = 0  # requests, those that were sent again included
        self.sent_again = 0
        self._addresses = [urlsplit(url).netloc for url in urls]
        self._pause_s = pause_s
        self._due: list[_Due] = []
        self._numbers = itertools.count()
        self._busy = 0
        self._ended = False
        self._turn = threading.Condition()
        self._threads = [threading.Thread(target=self._work, name=f"phone-{number}", daemon=True) for number in range(threads)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._turn:
            self._ended = True
            self._turn.notify_all()
        for thread in self._threads:
            thread.join(_PATIENCE_S + 1)

    @property
    def waiting(self) -> int:
        """Deliveries without a 2xx so far."""
        with self._turn:
            return len(self._due) + self._busy

    def schedule(self, sid: str, wave: Wave, begin: float) -> None:
        """`begin` is on the monotonic clock."""
        with self._turn:
            for delivery in wave.deliveries:
                heappush(self._due, _Due(begin + wave.after_s, next(self._numbers), sid, delivery))
            self._turn.notify(len(wave.deliveries))

    def _work(self) -> None:
        while (due := self._next()) is not None:
            # A provider behind a load balancer reaches any of the webs, and another one when it tries again.
            address = self._addresses[(due.number + due.tries) % len(self._addresses)]
            self._settle(due, is_taken=200 <= _post(address, due.delivery) < 300)

    def _next(self) -> _Due | None:
        with self._turn:
            while not self._ended:
                wait = self._due[0].at - time.monotonic() if self._due else 1.0
                if wait <= 0:
                    self._busy += 1
                    self.sent += 1
                    return heappop(self._due)
                self._turn.wait(min(wait, 1.0))
        return None

    def _settle(self, due: _Due, *, is_taken: bool) -> None:
        with self._turn:
            self._busy -= 1
            if is_taken:
                self.acknowledged.add(due.sid)
                return
            self.sent_again += 1
            again = replace(due, at=time.monotonic() + self._pause_s * min(4, 1 + due.tries), tries=due.tries + 1)
            heappush(self._due, again)
            self._turn.notify()


def _post(address: str, delivery: Delivery) -> int:
    """The status; 0 where no answer came."""
    try:
        with closing(http.client.HTTPConnection(address, timeout=_PATIENCE_S)) as connection:
            connection.request(delivery.method, urlsplit(delivery.url).path, delivery.body, dict(delivery.headers))
            answer = connection.getresponse()
            answer.read()
            return answer.status
    except (OSError, http.client.HTTPException):
        return 0

"""The faults: what may go wrong with one request. Which requests are hit is decided by a filter, an ordinal, a rate and a seed.

A fault is two independent things: what becomes of the *effect* (none, done, late) and what becomes of the *answer*. `KINDS` names the usual
pairs; every part may be overridden, so that any pair can be made.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase

from pydantic import BaseModel, ConfigDict, Field, field_validator


class Effect(StrEnum):
    NONE = "none"  # the request never reached the CRM
    DONE = "done"
    LATE = "late"  # `seconds` after the request came


class Spoil(StrEnum):
    """What becomes of the answer."""

    NOTHING = "nothing"  # it arrives as the API gave it
    RESET = "reset"  # the connection is reset instead
    HOLD = "hold"  # nothing for `seconds`, then the connection is closed
    DRIP = "drip"  # the body comes one byte every `seconds`
    TRUNCATE = "truncate"  # half of the body comes, then the connection is closed
    ERROR = "error"  # an error body with `status`
    HTML = "html"  # a proxy's error page with `status`
    EMPTY = "empty"  # the API's status and no body
    TEXT = "text"  # `status` and the plain `text`
    BURST = "burst"  # 429, the ten seconds are used up
    DAILY = "daily"  # 429, the day is used up
    INVALID_TOKEN = "invalid_token"  # 401  # noqa: S105 - a word, not a token
    SCOPE_MISSING = "scope_missing"  # 401
    WRONG_LOCATION = "wrong_location"  # 403
    FINDS_NOTHING = "finds_nothing"  # a search does not show what is there
    FINDS_ANOTHER = "finds_another"  # a search shows a contact with another phone


class Then(StrEnum):
    """What somebody else does right after the request, before its answer arrives."""

    DELETE_CONTACT = "delete_contact"
    MERGE_CONTACT = "merge_contact"
    ALLOW_DUPLICATES = "allow_duplicates"
    REFUSE_DUPLICATES = "refuse_duplicates"
    REVOKE_TOKEN = "revoke_token"  # noqa: S105 - a word, not a token


@dataclass(frozen=True, slots=True)
class Shape:
    """The defaults of one kind of fault."""

    effect: Effect
    spoil: Spoil
    status: int = 200
    seconds: float = 0


KINDS: Mapping[str, Shape] = {
    "as_usual": Shape(Effect.DONE, Spoil.NOTHING),  # for `then` and `drop_field` alone
    "answer_lost": Shape(Effect.DONE, Spoil.RESET),
    "answer_held": Shape(Effect.DONE, Spoil.HOLD, seconds=60),
    "request_lost": Shape(Effect.NONE, Spoil.RESET),
    "request_held": Shape(Effect.NONE, Spoil.HOLD, seconds=60),
    "effect_late": Shape(Effect.LATE, Spoil.NOTHING, seconds=15),
    "effect_after_reset": Shape(Effect.LATE, Spoil.RESET, seconds=15),
    "error_before": Shape(Effect.NONE, Spoil.ERROR, status=500),
    "error_after": Shape(Effect.DONE, Spoil.ERROR, status=500),
    "refused_but_done": Shape(Effect.DONE, Spoil.ERROR, status=422),
    "burst_429": Shape(Effect.NONE, Spoil.BURST, status=429),
    "daily_429": Shape(Effect.NONE, Spoil.DAILY, status=429),
    "invalid_token": Shape(Effect.NONE, Spoil.INVALID_TOKEN, status=401),
    "scope_missing": Shape(Effect.NONE, Spoil.SCOPE_MISSING, status=401),
    "wrong_location": Shape(Effect.NONE, Spoil.WRONG_LOCATION, status=403),
    "html_page": Shape(Effect.NONE, Spoil.HTML, status=502),
    "empty_answer": Shape(Effect.DONE, Spoil.EMPTY),
    "slow_drip": Shape(Effect.DONE, Spoil.DRIP, seconds=1),
    "truncated": Shape(Effect.DONE, Spoil.TRUNCATE),
    "plain_text": Shape(Effect.NONE, Spoil.TEXT, status=200),
    "finds_nothing": Shape(Effect.DONE, Spoil.FINDS_NOTHING),
    "finds_another": Shape(Effect.DONE, Spoil.FINDS_ANOTHER),
}


class Fault(BaseModel):
    """One fault and the requests that it hits. A pydantic model, since it is what the control endpoint reads.

    `method` is a method or `*`; `path` is a shell pattern, held against the path as sent and against the endpoint's template
    (`/contacts/{contact_id}/notes`). Of the requests that match, the first `nth - 1` pass; each later one is hit with probability `rate`,
    drawn from `seed` and its ordinal alone, until `times` were hit.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: str
    method: str = "*"
    path: str = "*"
    nth: int = Field(default=1, ge=1)
    times: int | None = Field(default=None, ge=1)
    rate: float = Field(default=1, ge=0, le=1)
    seed: int = 0

    effect: Effect | None = None
    status: int | None = Field(default=None, ge=200, le=599)
    seconds: float | None = Field(default=None, ge=0, le=3600)
    text: str = "duplicate contact found"
    rate_headers: bool = True
    retry_after_s: float | None = None
    drop_field: str | None = None  # this field of the body is silently lost, and the answer is a success
    then: Then | None = None
    contact_id: str | None = None  # for `then` and `finds_another`; else the contact that the request was about
    into: str | None = None  # for `merge_contact`; else a new contact with the same phone

    @field_validator("kind")
    @classmethod
    def _is_known(cls, kind: str) -> str:
        if kind not in KINDS:
            raise ValueError(f"unknown kind of fault {kind!r}; there are: {', '.join(KINDS)}")
        return kind

    @property
    def shape(self) -> Shape:
        """The kind's defaults with what this fault overrides."""
        usual = KINDS[self.kind]
        return Shape(
            effect=usual.effect if self.effect is None else self.effect,
            spoil=usual.spoil,
            status=usual.status if self.status is None else self.status,
            seconds=usual.seconds if self.seconds is None else self.seconds,
        )

    @property
    def spoils(self) -> bool:
        """Whether the caller does not get the API's own answer, whole and in time."""
        return self.shape.spoil is not Spoil.NOTHING or self.shape.effect is Effect.LATE

    def matches(self, method: str, path: str, template: str) -> bool:
        return self.method in ("*", method) and any(fnmatchcase(one, self.path) for one in (path, template))

    def is_due(self, ordinal: int) -> bool:
        """Whether the matching request number `ordinal` (from 1) is hit, `times` left aside. The same seed decides the same way."""
        return ordinal >= self.nth and (self.rate >= 1 or random.Random(f"{self.seed}/{ordinal}").random() < self.rate)


@dataclass(slots=True)
class _Active:
    number: int
    fault: Fault
    seen: int = 0
    hits: int = 0


@dataclass(frozen=True, slots=True)
class ActiveFault:
    """A fault that is switched on: its number, how many requests matched it and how many it hit."""

    number: int
    fault: Fault
    seen: int
    hits: int


class FaultPlan:
    """The faults that are switched on. A request is hit by the first one that is due; all that match count it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = 0
        self._active: list[_Active] = []

    def add(self, fault: Fault) -> int:
        """Switch on; the number is for `remove`."""
        with self._lock:
            self._numbers += 1
            self._active.append(_Active(self._numbers, fault))
            return self._numbers

    def remove(self, number: int) -> bool:
        """Switch off. False where no such fault is on."""
        with self._lock:
            kept = [one for one in self._active if one.number != number]
            removed = len(kept) < len(self._active)
            self._active = kept
            return removed

    def clear(self) -> None:
        with self._lock:
            self._active.clear()

    def all(self) -> list[ActiveFault]:
        with self._lock:
            return [ActiveFault(one.number, one.fault, one.seen, one.hits) for one in self._active]

    def draw(self, method: str, path: str, template: str) -> Fault | None:
        """The fault that this request meets."""
        with self._lock:
            drawn: _Active | None = None
            for one in self._active:
                if one.fault.matches(method, path, template):
                    one.seen += 1
                    left = one.fault.times is None or one.hits < one.fault.times
                    drawn = one if drawn is None and left and one.fault.is_due(one.seen) else drawn
            if drawn is None:
                return None
            drawn.hits += 1
            return drawn.fault

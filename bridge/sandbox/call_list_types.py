"""What the stand-ins of the lists of calls share (bridge/sandbox/call_lists.py)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class SandboxCall:
    """A call that a phone system knows of. `started` is seconds since the epoch."""

    id: str
    caller: str
    dialled: str
    started: float
    duration_s: int = 30
    status: str = "completed"  # completed, no-answer, busy, canceled, failed, in-progress
    direction: str = "inbound"
    parent: str | None = None  # the call of which this is a leg

    @property
    def ended(self) -> float:
        return self.started + self.duration_s


@dataclass(frozen=True, slots=True)
class Asked:
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]  # names in lower case
    form: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    document: Any
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class World:
    url: str
    page_size: int
    time_zone: str


Calls = Sequence[SandboxCall]
Answering = Callable[[Asked, Calls, World], Answer]


@dataclass(frozen=True, slots=True)
class Shape:
    provider: str
    path: str  # a regular expression
    scheme: str  # how the header Authorization has to begin
    answer: Answering


def day(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d}"


def iso(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%S.%f}Z"


def iso_at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def rfc2822(at: float) -> str:
    return format_datetime(datetime.fromtimestamp(at, UTC))

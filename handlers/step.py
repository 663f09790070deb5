"""What a step is: a name, what it needs, what it does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bridge.ledger.entry import Entry
from bridge.settings import Settings
from bridge.work.attempt import Work


@dataclass(frozen=True, slots=True)
class Need:
    """Whether a step has something to do. Nothing set: it is done, or it has to wait for another step."""

    ready: bool = False
    wait_until: float | None = None  # seconds since the epoch by Redis's clock
    waiting_for: str | None = None  # shown to people: "accepted, next try at T, because …"
    skipped: str | None = None  # there is no lead to make: why


NOTHING = Need()
READY = Need(ready=True)


@dataclass(frozen=True, slots=True)
class Step:
    """One idempotent business action: run twice, it changes nothing the second time."""

    name: str
    need: Callable[[Entry, float, Settings], Need]
    run: Callable[[Work], None]

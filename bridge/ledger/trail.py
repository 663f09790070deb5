"""The story of a call, one line for each thing that happened. Facts only; bridge/console/present.py turns them into sentences."""

from __future__ import annotations

import json
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that happened. `what` is a stable word; `facts` hold no personal data beyond ids."""

    at: float  # seconds since the epoch by Redis's clock
    what: str
    facts: dict[str, str | int | float | bool | None] = field(default_factory=dict)

    def to_json(self) -> str:
        return json.dumps({"at": round(self.at, 3), "what": self.what} | self.facts, ensure_ascii=False, separators=(",", ":"))


def line(at: float, what: str, **facts: str | float | bool | None) -> Line:
    return Line(at, what, {name: fact for name, fact in facts.items() if fact is not None})

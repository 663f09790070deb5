"""Reading nested JSON without ever raising on a genuine event: what is not there, or is something else, is empty."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from bridge.providers import reading

MOST = 200  # parties, recordings or inputs that one event is read for


def part(parent: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    """The object under these names, one inside the other."""
    found: object = parent
    for name in names:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def members(parent: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """The objects in a list."""
    found = parent.get(name)
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []


def few(parent: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """The objects in a list that grows with a call, without end only where somebody made it up."""
    return members(parent, name)[:MOST]


def is_told(parent: Mapping[str, Any], name: str) -> bool:
    """Whether a field was sent with a value. `false`, `0` and `""` are values, `null` is none."""
    return parent.get(name) is not None


def web_address(value: object) -> str | None:
    """An http(s) URL; None for anything else."""
    text = reading.told(value) or ""
    return text if text.startswith(("https://", "http://")) else None


def instant_of_ms(value: object) -> datetime | None:
    """An instant in UTC from milliseconds since the epoch."""
    match = re.fullmatch(r"([0-9]{9,11})[0-9]{3}(?:\.[0-9]*)?", reading.told(value) or "")
    return reading.instant(match[1]) if match else None


def seconds_of_ms(value: object) -> int | None:
    """A duration in whole seconds from milliseconds, which may have a fraction."""
    match = re.fullmatch(r"([0-9]{1,12})(?:\.[0-9]*)?", reading.told(value) or "")
    return int(match[1]) // 1000 if match else None

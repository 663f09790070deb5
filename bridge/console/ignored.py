"""The page of what made no call: which events to show, by query arguments, and how often each reason came."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from bridge.console import filters
from bridge.ledger import ignored, keys
from bridge.ledger.ignored import Shelf
from bridge.ledger.store import Store

_COUNTED = b"events.ignored:"
_REASON_CHARS = 120


@dataclass(frozen=True, slots=True)
class IgnoredPage:
    """What the template shows."""

    shelf: Shelf
    held: Mapping[Shelf, int]  # how many each shelf holds now
    events: tuple[dict[str, Any], ...]  # newest first, each with its `reason`
    more: str | None  # the cursor of the next page
    reason: str | None  # only events with this one are shown
    reasons: tuple[tuple[str, int], ...]  # since the ledger was born, the most frequent first
    dropped: int  # of what could not be understood, how many went before their time


def read(store: Store, arguments: Mapping[str, str], *, limit: int) -> IgnoredPage:
    """Raises filters.WrongFilter for a shelf or a cursor that does not exist."""
    try:
        shelf = Shelf(arguments.get("kind") or Shelf.UNREAD)
    except ValueError:
        raise filters.WrongFilter(f"kind is one of {', '.join(Shelf)}") from None
    reason = arguments.get("reason", "").strip()[:_REASON_CHARS] or None
    shown = store.ignored.page(shelf, limit=limit, after=filters.read_cursor(arguments.get("cursor", "")), reason=reason)
    counted = cast("dict[bytes, bytes]", store.connection.hgetall(keys.COUNT))
    times = {name.removeprefix(_COUNTED).decode(): int(value) for name, value in counted.items() if name.startswith(_COUNTED)}
    return IgnoredPage(
        shelf=shelf,
        held=store.ignored.counts(),
        events=shown.events,
        more=filters.cursor(shown.after),
        reason=reason,
        reasons=tuple(sorted(times.items(), key=lambda pair: (-pair[1], pair[0]))),
        dropped=int(counted.get(ignored.DROPPED.encode(), 0)),
    )

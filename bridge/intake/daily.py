"""The daily sum: calls at the provider = leads + done without lead + needs attention + under way. What is left over is named, call by call.

A day is a day in UTC. Calls so young that their webhook may be on its way are counted on neither side.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, date, datetime, time
from typing import Any, cast

import redis

from bridge.call import Direction
from bridge.intake.accept import LONGEST_CALL_S
from bridge.intake.backfill import Listed
from bridge.ledger.entry import Entry, State
from bridge.ledger.find import Wanted
from bridge.ledger.store import Store
from bridge.providers.lists.base import Window
from bridge.settings import DAY_S

SUMS = "cb:sums"  # hash: "<day> <provider>" → the sum as JSON; of the last DAYS_KEPT days
DAYS_KEPT = 40
NAMED = 200  # calls that a difference names at most
EDGE_S = 300.0  # around midnight the two sides may count a call to different days
_PAGE = 500

LEAD, WITHOUT, ATTENTION, OPEN = "lead", "without lead", "needs attention", "under way"


@dataclass(frozen=True, slots=True)
class Sum:
    """One provider's day. `missing`: listed and not in the ledger; `unlisted`: in the ledger and not listed. Call keys."""

    day: str
    provider: str
    listed: int
    leads: int = 0
    without_lead: Mapping[str, int] = field(default_factory=dict)  # reason → how many
    attention: Mapping[str, int] = field(default_factory=dict)  # cause → how many
    under_way: int = 0
    missing: tuple[str, ...] = ()
    unlisted: tuple[str, ...] = ()
    fault: str | None = None  # the list could not be read to its end
    at: float = 0.0  # when it was made

    @property
    def ok(self) -> bool:
        return not (self.missing or self.unlisted or self.fault)


def window(day: date, now: float) -> Window:
    """The day in UTC, as far as it has gone."""
    begin = datetime.combine(day, time.min, UTC).timestamp()
    return Window(begin, min(begin + DAY_S, now))


def read(store: Store, day: date, provider: str, lists: Sequence[Listed]) -> Sum:
    """Compare what a provider's lists hold for a day with the ledger. Raises redis.RedisError."""
    now = store.clock.now()
    within = window(day, now)
    rows = {key: row for listed in lists for key, row in listed.rows.items() if row.call.caller is not None}
    young_s = max((listed.lister.webhook_within_s for listed in lists), default=0.0)
    young = {key for listed in lists for key, row in listed.rows.items() if row.is_young(listed.lister, now)}
    old = [key for key in rows if key not in young]
    faults = [f"{listed.fault} {listed.fault.hint}".strip() for listed in lists if listed.fault]
    edges = Window(within.since + EDGE_S, min(within.until - EDGE_S, now - young_s))
    strange = (entry for entry in _of_day(store, provider, edges) if entry.call_key not in rows and _should_be_listed(entry, now - young_s))
    unlisted = () if faults else (entry.call_key for entry in strange)
    return add_up(day, provider, old, _entries(store, old), unlisted, fault="; ".join(faults) or None, at=now)


def add_up(
    day: date, provider: str, listed: Sequence[str], entries: Iterable[Entry], unlisted: Iterable[str], *, fault: str | None, at: float
) -> Sum:
    """Pure: `entries` are those of the `listed` keys that the ledger has."""
    sorts: Counter[tuple[str, str]] = Counter()
    known: set[str] = set()
    for entry in entries:
        known.add(entry.call_key)
        sorts[sort(entry)] += 1

    def words(kind: str) -> dict[str, int]:
        return {word: times for (found, word), times in sorted(sorts.items()) if found == kind}

    return Sum(
        day=day.isoformat(),
        provider=provider,
        listed=len(listed),
        leads=sum(words(LEAD).values()),
        without_lead=words(WITHOUT),
        attention=words(ATTENTION),
        under_way=sum(words(OPEN).values()),
        missing=tuple(key for key in listed if key not in known)[:NAMED],
        unlisted=tuple(unlisted)[:NAMED],
        fault=fault,
        at=at,
    )


def sort(entry: Entry) -> tuple[str, str]:
    """What became of a call, and the word that says why."""
    if entry.state is State.NEEDS_ATTENTION:
        return ATTENTION, entry.trouble.cause.value if entry.trouble else "unknown"
    if entry.state is not State.DONE:
        return OPEN, entry.state.value
    if entry.contact_id is not None:
        return LEAD, ""
    return WITHOUT, "closed by hand" if entry.closed_by else entry.reason or "no reason told"


def _entries(store: Store, keys: Sequence[str]) -> Iterator[Entry]:
    for start in range(0, len(keys), _PAGE):
        yield from store.get_many(keys[start : start + _PAGE])


def _of_day(store: Store, provider: str, within: Window) -> Iterator[Entry]:
    """Calls that came in that day, by their own time and by ours: one that was backfilled a day later belongs to its own day."""
    wanted, after = Wanted(provider=provider, since=within.since, until=within.until), None
    while True:
        page = store.find.page(wanted, after=after, limit=_PAGE)
        yield from (entry for entry in page.entries if entry.facts.direction is Direction.INBOUND and _began_in(entry, within))
        if page.after is None:
            return
        after = page.after


def _should_be_listed(entry: Entry, before: float) -> bool:
    """Half of the phone systems list a call when it is over, and not at once: one that goes on, or has just ended, accuses nobody."""
    facts = entry.facts
    if facts.is_over:
        return (facts.ended_at.timestamp() if facts.ended_at else entry.last_event_at) < before
    return entry.last_event_at < before - LONGEST_CALL_S


def _began_in(entry: Entry, within: Window) -> bool:
    at = entry.facts.started_at
    return at is None or within.since <= at.timestamp() < within.until


# ---- Kept, for whoever looks later


def keep(connection: redis.Redis, sums: Sequence[Sum]) -> None:
    """Raises redis.RedisError."""
    if not sums:
        return
    with connection.pipeline() as pipe:
        for one in sums:
            pipe.hset(SUMS, f"{one.day} {one.provider}", json.dumps(asdict(one)))
        pipe.execute()
    days = sorted({name.decode().partition(" ")[0] for name in cast("list[bytes]", connection.hkeys(SUMS))})
    for day in days[:-DAYS_KEPT]:
        gone = [name for name in cast("list[bytes]", connection.hkeys(SUMS)) if name.decode().startswith(day)]
        connection.hdel(SUMS, *(name.decode() for name in gone))


def kept(connection: redis.Redis, day: date) -> list[Sum]:
    """The newest sums of a day, one for each provider. Raises redis.RedisError."""
    found = cast("dict[bytes, bytes]", connection.hgetall(SUMS))
    documents = [json.loads(text) for name, text in sorted(found.items()) if name.decode().startswith(f"{day.isoformat()} ")]
    return [_restored(document) for document in documents]


def _restored(document: dict[str, Any]) -> Sum:
    return Sum(**document | {name: tuple(document[name]) for name in ("missing", "unlisted")})

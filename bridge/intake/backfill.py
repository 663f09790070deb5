"""Calls that never reached us: what a phone system lists and the ledger lacks goes in through the same `accept`, under the same key.

A listed call is a stranger's word about a call that a webhook may have told better, so a call that the ledger knows is left alone. Two
kinds of it are not: one that nobody has named a caller for, and one that came from a list while it was going on and has ended since.
What goes in waits for its turn like a replay: live calls come first.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bridge import numbers
from bridge.call import Call, merge
from bridge.errors import StepFailed, Transient
from bridge.intake.accept import Acceptor, Event
from bridge.ledger import turns
from bridge.ledger.by_hand import REPLAY
from bridge.ledger.entry import Entry, Plan, Taken
from bridge.ledger.store import Store
from bridge.providers.base import Heard, Ignored
from bridge.providers.lists.base import Lister, Window
from bridge.providers.lists.http import Fetcher
from bridge.settings import Settings
from bridge.watch.logs import fact
from bridge.work.attempt import Planner

log = logging.getLogger(__name__)

SOURCE = "backfill"
MAX_PAGES = 1000  # some 20,000 calls at the smallest page; a list that never ends is a fault
RAW_LIMIT = 16 * 1024
REQUESTS_A_CALL = 4  # search, list notes, create, write the note
_BATCH = 200

MakeFetcher = Callable[[Lister], Fetcher]
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Row:
    """A call as it was listed. `began` is None where the list does not tell."""

    call: Call
    content: str
    raw: str

    @property
    def began(self) -> float | None:
        at = self.call.started_at or self.call.answered_at or self.call.ended_at
        return at.timestamp() if at else None

    def is_young(self, lister: Lister, now: float) -> bool:
        """Whether a webhook may still be on its way. Some phone systems send none, or are told to send none, before a call is over."""
        ended = self.call.ended_at.timestamp() if self.call.ended_at else None
        latest = ended if ended is not None else self.began
        return latest is not None and now - latest < lister.webhook_within_s


@dataclass
class Listed:
    """What one list holds for a window, root calls that came in alone, by call key."""

    lister: Lister
    window: Window
    rows: dict[str, Row] = field(default_factory=dict)
    ignored: Counter[str] = field(default_factory=Counter)
    fault: StepFailed | None = None  # the list was not read to its end


@dataclass
class Found:
    """What became of one list. `missed` are the keys of calls that no webhook has announced and that have gone in now."""

    listed: Listed
    inserted: int = 0
    updated: int = 0  # known calls to which a caller or an end was added
    known: int = 0
    too_young: int = 0  # unknown, and so young that their webhook may be on its way
    young_since: float | None = None  # when the first of those began
    missed: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return self.listed.fault is None

    def as_document(self) -> dict[str, Any]:
        fault = self.listed.fault
        return {
            "provider": self.listed.lister.name,
            "account": self.listed.lister.account,
            "found": len(self.listed.rows),
            "inserted": self.inserted,
            "updated": self.updated,
            "known": self.known,
            "too_young": self.too_young,
            "ignored": dict(self.listed.ignored),
            "fault": f"{fault} {fault.hint}".strip() if fault else None,
        }


class Backfill:
    """`every_s` is the pause between the starts of two calls that came by backfill."""

    def __init__(self, store: Store, plan: Planner, settings: Settings, *, every_s: float, make_fetcher: MakeFetcher | None = None) -> None:
        self._store = store
        self._acceptor = Acceptor(store, Waiting(store, plan, every_s), settings)
        region = settings.default_region
        self._numbers = frozenset(number for text in settings.backfill_numbers if (number := numbers.dialled(text, region)))
        self._make_fetcher = make_fetcher or (lambda lister: Fetcher(lister.base_url, lister.credentials))

    def read(self, lister: Lister, window: Window, progress: Progress = lambda *_: None) -> Listed:
        """The list for `window`. Touches no ledger and never raises StepFailed: a fault is part of what comes back."""
        listed, fetcher = Listed(lister, window), self._make_fetcher(lister)
        try:
            for page in _pages(lister, window, fetcher):
                for row in page:
                    _take(listed, row, self._numbers)
                progress("listed", len(listed.rows), 0)
        except StepFailed as fault:
            listed.fault = fault
        except Exception as error:  # one list that has changed its shape shall not keep the others from being read
            log.exception("a list of calls could not be read", extra={"provider": lister.name})
            listed.fault = Transient(f"the list could not be read: {type(error).__name__}", cause="list.unreadable")
        finally:
            fetcher.close()
        return listed

    def bring(self, listed: Listed, progress: Progress = lambda *_: None, *, dry_run: bool = False) -> Found:
        """Bring what the ledger lacks. With `dry_run` only say what would be brought. Raises redis.RedisError; what went in stays."""
        found = Found(listed)
        keys, now = list(listed.rows), self._store.clock.now()
        for start in range(0, len(keys), _BATCH):
            batch = keys[start : start + _BATCH]
            known = {entry.call_key: entry for entry in self._store.get_many(batch)}
            for number, key in enumerate(batch, start + 1):
                self._bring_one(found, listed.rows[key], known.get(key), now, dry_run=dry_run)
                progress("brought", number, len(keys))
        return found

    def _bring_one(self, found: Found, row: Row, entry: Entry | None, now: float, *, dry_run: bool) -> None:
        lister = found.listed.lister
        if entry is None and row.call.caller is None:
            found.listed.ignored["its end is listed, but not who called"] += 1
        elif entry is None and row.is_young(lister, now):
            found.too_young += 1
            found.young_since = min(found.young_since or now, row.began or now)
        elif not is_lacking(entry, row.call):
            found.known += 1
        elif dry_run:
            _count(found, Taken.NEW if entry is None else Taken.NEWS, row.call.key)
        else:
            self._accept(found, row, now)

    def _accept(self, found: Found, row: Row, now: float) -> None:
        """Judged anew by what the ledger knows now: the webhook may have come while the calls before this one went in."""
        entry = self._store.get(row.call.key)
        if not is_lacking(entry, row.call):
            found.known += 1
            return
        taken = self._acceptor.accept(Event(news_for(entry, row.call), SOURCE, row.content, None, SOURCE, _raw(row, now)))
        fact(log, "listed call brought in", taken=taken.value, provider=found.listed.lister.name, call_key=row.call.key)
        _count(found, taken, row.call.key)


class Waiting:
    """The plan for a call that comes by backfill: what would be ready now waits for its turn, and the sweeper starts it like a replay."""

    def __init__(self, store: Store, plan: Planner, every_s: float) -> None:
        self._store = store
        self._plan = plan
        self._every_s = every_s

    def __call__(self, entry: Entry, now: float) -> Plan:
        plan = self._plan(entry, now)
        turn = turns.take(self._store.connection, now, every_s=self._every_s)
        return Plan(wait_until=max(turn, plan.wait_until or 0.0), waiting_for=REPLAY)


def is_lacking(entry: Entry | None, call: Call) -> bool:
    """Whether the list tells something that the ledger needs."""
    if entry is None:
        return True
    if entry.facts.caller is None and call.caller is not None:
        return True
    return entry.source == SOURCE and not entry.facts.is_over and call.is_over


def news_for(entry: Entry | None, call: Call) -> Call:
    """What is told of a call. To a known one not who rang whom, unless that is what it lacks.

    Lists spell numbers in their own way, and another spelling would be taken for a contradiction.
    """
    if entry is None or entry.facts.caller is None:
        return call
    return replace(call, caller=None, dialled=None)


def _count(found: Found, taken: Taken, key: str) -> None:
    if taken is Taken.NEW:
        found.inserted += 1
        found.missed.append(key)
    elif taken is Taken.NEWS:
        found.updated += 1
    else:
        found.known += 1  # a webhook was quicker


def _pages(lister: Lister, window: Window, fetcher: Fetcher) -> Iterator[Sequence[Mapping[str, Any]]]:
    headers = lister.authorize(fetcher.post)
    ask = lister.first(window)
    for _ in range(MAX_PAGES):
        page = fetcher.get(ask, headers)
        rows = lister.rows(page)
        yield rows
        following = lister.following(ask, page, len(rows))
        if following is None:
            return
        if following == ask:
            raise Transient("the list names the same page again and again", cause="list.endless")
        ask = following
    raise Transient(f"the list did not end after {MAX_PAGES} pages", cause="list.endless", hint="Ask for a shorter time: --since.")


def _take(listed: Listed, row: Mapping[str, Any], wanted: frozenset[str]) -> None:
    """One row: a call of the window, told by one row or by several, or a reason why it is none.

    An account may have numbers that other programs answer: of those `wanted` are, where some are named.
    """
    heard = _read(listed.lister, row)
    if isinstance(heard, Ignored):
        listed.ignored[heard.reason] += 1
        return
    if wanted and heard.call.dialled is not None and heard.call.dialled not in wanted:
        listed.ignored["dialled a number that is not in BACKFILL_NUMBERS"] += 1
        return
    fresh = Row(heard.call, heard.content, json.dumps(row, default=str)[:RAW_LIMIT])
    if fresh.began is not None and not listed.window.since <= fresh.began < listed.window.until:
        return  # asked for only because the filter is coarser than the window
    known = listed.rows.get(heard.call.key)
    listed.rows[heard.call.key] = replace(fresh, call=merge(known.call, fresh.call)) if known else fresh


def _read(lister: Lister, row: Mapping[str, Any]) -> Heard | Ignored:
    try:
        return lister.read(row)
    except Exception as error:
        log.exception("a listed call could not be read", extra={"provider": lister.name})
        return Ignored(f"could not be read: {type(error).__name__}")


def _raw(row: Row, now: float) -> str:
    return json.dumps({"at": now, "source": SOURCE, "body": row.raw})

"""Take an event into the ledger: entry, trail, raw event, index rows and RQ job in one EXEC.

A repeat changes nothing. Later news is merged, and queues the job only if there is something new to bring to the CRM. A conflict keeps
both versions and asks a person.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime

from bridge.call import Call, Status
from bridge.ledger import moves
from bridge.ledger.entry import Entry, Seen, State, Taken
from bridge.ledger.store import Change, Moment, Store
from bridge.ledger.trail import line
from bridge.settings import DAY_S, Settings
from bridge.work.attempt import Planner

LONGEST_CALL_S = 4 * 3600.0


@dataclass(frozen=True, slots=True)
class Event:
    """One delivery about a call, understood."""

    call: Call
    what: str  # the last part of the webhook's URL: voice, status, …
    content: str  # canonical, without what changes between retries
    delivery_id: str | None
    source: str  # webhook, spool or backfill
    raw: str  # as it came, JSON, for those who may see it

    @property
    def fingerprint(self) -> str:
        """Tells a repeat from later news: the same words.

        What a caller presses may be the same twice, so there the delivery id tells as well. Elsewhere it does not: it is a header that no
        signature covers, and whoever replays a request could make it look new each time.
        """
        delivery = (self.delivery_id or "") if self.call.inputs else ""
        said = (self.call.provider, self.what, self.content, delivery)
        text = "\0".join(said)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


class Acceptor:
    """Accepts events. `plan` says what is left to do for an entry (handlers/steps.py)."""

    def __init__(self, store: Store, plan: Planner, settings: Settings) -> None:
        self._store = store
        self._plan = plan
        self._settings = settings

    def accept(self, event: Event) -> Taken:
        """Returns what the event was to the ledger. When it returns, the call is stored. Raises redis.RedisError."""
        taken: list[tuple[Taken, bool]] = []

        def decide(old: Entry | None, moment: Moment) -> Change | None:
            what, entry = self._take(old, event, moment)
            taken[:] = [(what, entry is not old)]
            return None if entry is old else self._change(what, old, entry, event, moment.now)

        self._store.change(event.call.key, decide)
        what, is_written = taken[0]
        if not is_written:
            self._store.count_repeat(event.call.key, event.fingerprint)
        return what

    def _take(self, old: Entry | None, event: Event, moment: Moment) -> tuple[Taken, Entry]:
        seen = Seen(event.fingerprint, event.what, moment.now, event.source)
        if old is not None:
            return moves.take(old, event.call, seen)
        remembers_since = max(moment.born, moment.now - self._settings.done_days * DAY_S)
        entry = Entry(
            call_key=event.call.key,
            facts=event.call,
            location_id=self._settings.ghl_location_id,
            owner=self._settings.bridge_owner,
            accepted_at=moment.now,
            last_event_at=moment.now,
            source=event.source,
            suspect_since=remembers_since if began_at(event, moment.now) < remembers_since else None,
            events=(seen,),
        )
        return Taken.NEW, entry

    def _change(self, what: Taken, old: Entry | None, entry: Entry, event: Event, now: float) -> Change:
        after = moves.arrange(entry, self._plan(entry, now), now)
        told = [line(now, f"event {what}", event=event.what or "call", source=event.source, status=event.call.raw_status)]
        if what is Taken.CONFLICT and after.trouble:
            told.append(line(now, "needs attention", cause=after.trouble.word, message=after.trouble.message, hint=after.trouble.hint))
        if old is not None and old.state in (State.DONE, State.NEEDS_ATTENTION) and after.state is State.ACCEPTED:
            told.append(line(now, "reopened", version=after.version))
        counts = (f"events.{what}", *(("parked",) if what is Taken.CONFLICT else ()))
        return Change(after, tuple(told), raw=event.raw, counts=counts)


def began_at(event: Event, now: float) -> float:
    """When the call began, at the latest; seconds since the epoch.

    Where nothing tells, a call that is ringing has just begun, and one that is past that may have been going on for hours. Calls that
    come by backfill are older than whatever asked for them.
    """
    call = event.call
    known = [_epoch(call.started_at), _epoch(call.answered_at)]
    ended = _epoch(call.ended_at)
    if ended is not None:
        known.append(ended - (call.duration_s or 0))
    times = [at for at in known if at is not None]
    if times:
        return min(times)
    is_beginning = call.status in (Status.RINGING, Status.UNKNOWN) and not call.recordings and event.source != "backfill"
    return now if is_beginning else now - LONGEST_CALL_S


def _epoch(instant: datetime | None) -> float | None:
    return instant.timestamp() if instant else None

"""Take an event into the ledger: entry, trail, raw event, index rows and RQ job in one EXEC.

A repeat changes nothing. Later news is merged, and queues the job only if there is something new to bring to the CRM. A conflict keeps
both versions and asks a person. An event that tells no direction is ignored where another one has told that its call did not come in.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from redis.client import Pipeline

from bridge.call import Call, Direction, Status
from bridge.ledger import ignored, keys, moves
from bridge.ledger.entry import Entry, Seen, State, Taken
from bridge.ledger.ignored import Shelf
from bridge.ledger.store import Change, Moment, Store
from bridge.ledger.trail import line
from bridge.settings import DAY_S, Settings
from bridge.work.attempt import Planner

LONGEST_CALL_S = 4 * 3600.0
BELONGS = {Direction.OUTBOUND: "belongs to an outbound call", Direction.INTERNAL: "belongs to an internal call"}


@dataclass(frozen=True, slots=True)
class Event:
    """One delivery about a call, understood."""

    call: Call
    what: str  # the last part of the webhook's URL: voice, status, …
    content: str  # canonical, without what changes between retries
    delivery_id: str | None
    source: str  # webhook, spool or backfill
    raw: str  # as it came, JSON, for those who may see it
    is_guess: bool = False  # that the call came in is not told, only assumed

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
        not_ours: list[Direction] = []

        def decide(old: Entry | None, moment: Moment) -> Change | None:
            not_ours.clear()
            if moment.no_lead is not None and _tells_nothing_else(old, event):
                not_ours.append(moment.no_lead)
                return None
            what, entry = self._take(old, event, moment)
            taken[:] = [(what, entry is not old)]
            return None if entry is old else self._change(what, old, entry, event, moment.now)

        self._store.change(event.call.key, decide)
        if not_ours:
            self._store.keep_ignored(event.raw, BELONGS[not_ours[0]], is_understood=True)
            return Taken.IGNORED
        what, is_written = taken[0]
        if not is_written:
            self._store.count_repeat(event.call.key, event.fingerprint)
        return what

    def ignore(self, call: Call, what: str, raw: str, reason: str, *, source: str) -> None:
        """Take in that `call` did not come in: later events of it that tell no direction are ignored for a day.

        One that came before this, and still waits to hear who called, has its answer. All in one EXEC. Raises redis.RedisError.
        """

        def decide(old: Entry | None, moment: Moment) -> Change | None:
            entry = moves.tell_direction(old, call.direction, moment.now) if old else None
            if entry is None or entry is old:
                return None
            told = line(moment.now, "event news", event=what or "call", source=source, status=call.direction.value)
            return Change(moves.arrange(entry, self._plan(entry, moment.now), moment.now), (told,), raw=raw)

        self._store.change(call.key, decide, also=partial(_remember, call=call, raw=raw, reason=reason))

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
        return Change(after, tuple(told), raw=event.raw, counts=(f"events.{what}",))


def _remember(pipe: Pipeline, *, call: Call, raw: str, reason: str) -> None:
    pipe.set(keys.no_lead(call.key), call.direction.value, ex=keys.NO_LEAD_LIFE_S)
    ignored.keep(pipe, Shelf.OTHER, raw, reason)


def _tells_nothing_else(old: Entry | None, event: Event) -> bool:
    """Whether an event says nothing of its call's direction, and no earlier one either. One that names the caller does, unless it guesses:
    the call that came in and the legs dialled for it may share a key.
    """
    is_known = old is not None and old.facts.caller is not None
    return not is_known and (event.call.caller is None or event.is_guess)


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

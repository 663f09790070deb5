"""One action on many calls: a piece of work that outlives the request that began it.

Its page takes down what it has shown; a press acts on those calls alone, and on each only as long as nobody has changed it since. A request
works for SLICE_S and says how far it has come; the next one goes on from there, and what is left unfinished stands on *Needs attention*.
Each call's trail names the work, so that what a request did before it died is counted, and never done again.

Redis keys, all with a life of their own:

    cb:bulk:shown:<digest>  STRING  what one person's page has shown, packed, until it is pressed; an hour
    cb:bulk:<id>            STRING  a work, JSON; a week
    cb:bulk:<id>:rows       STRING  its calls, packed; a week
    cb:bulk:<id>:at work    STRING  there while a request works at it; LOCK_S, renewed with each batch
    cb:bulk:open            SET     ids of works that are not over
"""

from __future__ import annotations

import json
import re
import secrets
import time
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from pydantic import TypeAdapter

from bridge.console.actions import Declined, Desk, MovedOn, Survey, cleaned, mark, named
from bridge.intake.replay import InCrm, Preview
from bridge.ledger import keys
from bridge.ledger.entry import Entry

SLICE_S = 8.0  # Heroku's router waits 30 s for an answer (https://devcenter.heroku.com/articles/request-timeout)
BATCH = 100
LOCK_S = 60
SHOWN_LIFE_S = 3600
LIFE_S = 7 * 86_400
OPEN = "cb:bulk:open"
ACTIONS = ("replay", "adopt", "close", "assign")

# Why a call was left as it is.
MOVED, DOUBTFUL, SAME, REFUSED = "moved on", "doubtful", "same", "refused"

# KEYS[1] what a page has shown   ARGV[1] which page. Taken once: a second press finds nothing.
_TAKE = """
local shown = redis.call('GET', KEYS[1])
if not shown or string.sub(shown, 1, #ARGV[1]) ~= ARGV[1] then return false end
redis.call('DEL', KEYS[1])
return string.sub(shown, #ARGV[1] + 1)
"""

# KEYS[1] at work   KEYS[2] the work   KEYS[3] open works   ARGV[1] by whom   ARGV[2] JSON   ARGV[3] its life   ARGV[4] the lock's
# ARGV[5] id, where it is over
_KEEP = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[2], ARGV[2], 'EX', ARGV[3])
redis.call('EXPIRE', KEYS[1], ARGV[4])
if ARGV[5] ~= '' then redis.call('SREM', KEYS[3], ARGV[5]) end
return 1
"""

# KEYS[1] at work   ARGV[1] by whom
_RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end"

Row = tuple[str, str]  # a call key, and the mark that the page has seen


@dataclass(frozen=True, slots=True)
class Order:
    """What a person wants done. `to` is the new owner."""

    by: str
    reason: str = ""
    to: str = ""
    contact_id: str = ""


@dataclass(frozen=True, slots=True)
class Shown:
    """What the page of an action has shown. `query` is its filter, `next` the cursor of the calls that did not fit."""

    action: str
    query: Mapping[str, str]
    step: str | None
    next: str | None
    clean: int
    is_of_one_caller: bool
    failure: str | None
    rows: tuple[Row, ...]
    looked: Mapping[str, InCrm] = field(default_factory=dict)  # call key → what GoHighLevel has shown of it


@dataclass(frozen=True, slots=True)
class Work:
    """A bulk action, and how far it has come: `at` calls of `total` were looked at, `done` of them acted on."""

    id: str
    action: str
    query: Mapping[str, str]
    step: str | None
    next: str | None
    failure: str | None
    order: Order
    began_at: float
    total: int
    at: int = 0
    done: int = 0
    left: Mapping[str, int] = field(default_factory=dict)  # why → how many
    stopped_by: str | None = None
    looked: Mapping[str, InCrm] = field(default_factory=dict)

    @property
    def is_over(self) -> bool:
        return self.at >= self.total or self.stopped_by is not None


_WORK: TypeAdapter[Work] = TypeAdapter(Work)
_SHOWN: TypeAdapter[Shown] = TypeAdapter(Shown)


@dataclass(frozen=True)
class Bulk:
    """Bulk actions of everybody. Methods raise redis.RedisError; a work stays as it was then."""

    desk: Desk

    # ---- Begun

    def show(self, survey: Survey, *, by: str, action: str, query: Mapping[str, str], step: str | None, at: str, after: str | None) -> str:
        """Take down what a page is about to show, in place of what it showed before. Returns what its form has to send.

        `at` and `after` are the cursors of this page and of the next.
        """
        rows = tuple((preview.entry.call_key, preview.seen) for preview in survey.previews)
        shown = Shown(action, query, step, after, len(survey.clean), survey.is_of_one_caller, survey.failure, rows, survey.looked)
        name = keys.digest(json.dumps([by, action, sorted(query.items()), step, at]))
        nonce = secrets.token_hex(8)
        self.desk.store.connection.set(keys.bulk_shown(name), nonce.encode() + zlib.compress(_SHOWN.dump_json(shown)), ex=SHOWN_LIFE_S)
        return name + nonce

    def begin(self, action: str, token: str, order: Order) -> Work:
        """Take up what a page has shown; nothing is done yet. Raises Declined, also for a page that was pressed before."""
        shown = self._take(token)
        if shown is None or shown.action != action:
            raise Declined("This page was pressed already, or is too old: nothing was done by this press. Look again.")
        order = self._checked(shown, order)
        work = Work(
            secrets.token_hex(8),
            action,
            shown.query,
            shown.step,
            shown.next,
            shown.failure,
            order,
            self.desk.clock.now(),
            len(shown.rows),
            looked=shown.looked,
        )
        with self.desk.store.connection.pipeline() as pipe:
            pipe.set(keys.bulk_rows(work.id), _packed(shown.rows), ex=LIFE_S)
            pipe.set(keys.bulk(work.id), _WORK.dump_json(work), ex=LIFE_S)
            pipe.sadd(OPEN, work.id)
            pipe.execute()
        return work

    def _take(self, token: str) -> Shown | None:
        if not re.fullmatch(r"[0-9a-f]{48}", token):
            return None
        packed = cast("bytes | None", self.desk.store.connection.eval(_TAKE, 1, keys.bulk_shown(token[:32]), token[32:]))
        return _SHOWN.validate_json(zlib.decompress(packed)) if packed else None

    def _checked(self, shown: Shown, order: Order) -> Order:
        """The order in the words in which it is kept. Raises Declined."""
        why = cleaned(order.reason, needed=shown.action == "close" or (shown.action == "replay" and not shown.clean))
        if shown.action == "assign":
            return replace(order, reason=why, to=named(order.to))
        if shown.action == "adopt":
            if not shown.is_of_one_caller:
                raise Declined(
                    "These are calls of several callers, or of nobody known: one contact cannot be theirs. Filter for one caller."
                )
            return replace(order, reason=why, contact_id=self.desk.known_contact(order.contact_id))
        return replace(order, reason=why)

    # ---- Carried on

    def get(self, work_id: str) -> Work | None:
        document = self.desk.store.connection.get(keys.bulk(work_id)) if re.fullmatch(r"[0-9a-f]{16}", work_id) else None
        return _WORK.validate_json(cast("bytes", document)) if document else None

    def open(self) -> list[Work]:
        """Works that are not over, the oldest first."""
        ids = [one.decode() for one in cast("set[bytes]", self.desk.store.connection.smembers(OPEN))]
        works = [work for work in map(self.get, ids) if work and not work.is_over]
        if forgotten := set(ids) - {work.id for work in works}:
            self.desk.store.connection.srem(OPEN, *forgotten)
        return sorted(works, key=lambda work: work.began_at)

    def is_busy(self, work_id: str) -> bool:
        """Whether a request works at it now."""
        return bool(self.desk.store.connection.exists(keys.bulk_lock(work_id)))

    def go_on(self, work_id: str) -> Work | None:
        """Work at it for SLICE_S, and tell how far it has come. While another request does, or once it is over, nothing happens."""
        me = secrets.token_hex(8)
        if not self.desk.store.connection.set(keys.bulk_lock(work_id), me, nx=True, ex=LOCK_S):
            return self.get(work_id)
        try:
            work, until = self.get(work_id), time.monotonic() + SLICE_S
            rows = self._rows_of(work) if work else ()
            while work and not work.is_over:
                work = self._batch(work, rows)
                if not self._keep(work, me) or time.monotonic() >= until:
                    break
            return work
        finally:
            self.desk.store.connection.eval(_RELEASE, 1, keys.bulk_lock(work_id), me)

    def stop(self, work_id: str, *, by: str) -> Work | None:
        """Leave the rest as it is. Raises Declined while a request works at it."""
        me = secrets.token_hex(8)
        if not self.desk.store.connection.set(keys.bulk_lock(work_id), me, nx=True, ex=LOCK_S):
            raise Declined("It is being worked at just now. Wait a minute, then look again.")
        try:
            work = self.get(work_id)
            if work and not work.is_over:
                begun = [call_key for call_key, _ in self._rows_of(work)[work.at : work.at + BATCH]]
                work = replace(work, done=work.done + len(self._ours(work, begun)), stopped_by=by)
                self._keep(work, me)
            return work
        finally:
            self.desk.store.connection.eval(_RELEASE, 1, keys.bulk_lock(work_id), me)

    def _keep(self, work: Work, me: str) -> bool:
        """Whether it could be written: not, once somebody else has taken over."""
        arguments = me, _WORK.dump_json(work), str(LIFE_S), str(LOCK_S), work.id if work.is_over else ""
        names = keys.bulk_lock(work.id), keys.bulk(work.id), OPEN
        return bool(self.desk.store.connection.eval(_KEEP, 3, *names, *arguments))

    def _rows_of(self, work: Work) -> Sequence[Row]:
        packed = cast("bytes | None", self.desk.store.connection.get(keys.bulk_rows(work.id)))
        return _unpacked(packed) if packed else ()

    def _batch(self, work: Work, rows: Sequence[Row]) -> Work:
        batch = rows[work.at : work.at + BATCH]
        told = list(self._each(work, batch))
        left = Counter(work.left) + Counter(why for why in told if why is not None)
        return replace(work, at=min(work.at + BATCH, work.total), done=work.done + told.count(None), left=left)

    def _each(self, work: Work, batch: Sequence[Row]) -> Iterator[str | None]:
        """For each call of a batch: None if it is done, or why it was left."""
        entries = {entry.call_key: entry for entry in self.desk.store.get_many(call_key for call_key, _ in batch)}
        same = [entries[call_key] for call_key, seen in batch if call_key in entries and mark(entries[call_key]) == seen]
        unasked = InCrm(failure=work.failure) if work.failure else None
        judged = self.desk.judge(same, unasked, work.step, work.looked) if work.action == "replay" else ()
        previews = {preview.entry.call_key: preview for preview in judged}
        outcomes = {entry.call_key: self._one(work, entry, previews.get(entry.call_key)) for entry in same}
        moved = [call_key for call_key, _ in batch if outcomes.get(call_key, MOVED) == MOVED]
        ours = self._ours(work, moved)
        yield from (None if call_key in ours else outcomes.get(call_key, MOVED) for call_key, _ in batch)

    def _one(self, work: Work, entry: Entry, preview: Preview | None) -> str | None:
        order, seen = work.order, mark(entry)
        if preview and preview.needs_reason and not order.reason:
            return DOUBTFUL
        try:
            if preview:
                self.desk.replay_as(preview, by=order.by, reason=order.reason, bulk=work.id)
            elif work.action == "adopt":
                self.desk.adopt_known(entry, order.contact_id, by=order.by, reason=order.reason, bulk=work.id)
            elif work.action == "close":
                self.desk.close(entry.call_key, by=order.by, reason=order.reason, seen=seen, bulk=work.id)
            elif entry.owner == order.to:
                return SAME
            else:
                self.desk.assign(entry.call_key, order.to, by=order.by, reason=order.reason, seen=seen, bulk=work.id)
        except MovedOn:
            return MOVED
        except Declined:
            return REFUSED
        return None

    def _ours(self, work: Work, call_keys: Sequence[str]) -> set[str]:
        """Those that this work has dealt with already: its request died before it could say so."""
        if not call_keys:
            return set()
        with self.desk.store.connection.pipeline(transaction=False) as pipe:
            for call_key in call_keys:
                pipe.lrange(keys.trail(call_key), 0, -1)
            trails = cast("list[Iterable[bytes]]", pipe.execute())
        told = zip(call_keys, trails, strict=True)
        return {call_key for call_key, lines in told if any(json.loads(line).get("bulk") == work.id for line in lines)}


def _packed(rows: Sequence[Row]) -> bytes:
    return zlib.compress(json.dumps(rows).encode())


def _unpacked(packed: bytes) -> tuple[Row, ...]:
    return tuple((call_key, seen) for call_key, seen in json.loads(zlib.decompress(packed)))

"""What people may do to calls: look before, then act. Each action is written to the trail with who, when and why, or not done at all.

Every change is a compare-and-set on what the person has seen: a page that is out of date changes nothing, and never sends anything for a
call that has been finished meanwhile. Replays start one by one at the pace that the CRM's budget allows beside live calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from bridge.clock import Clock
from bridge.crm.base import Crm
from bridge.errors import BridgeError, Gone, NotYet, StepFailed, WrongMove
from bridge.intake import replay
from bridge.intake.replay import InCrm, Preview
from bridge.ledger import by_hand, keys, turns
from bridge.ledger.claims import Claims
from bridge.ledger.entry import Entry, State
from bridge.ledger.find import Wanted
from bridge.ledger.store import Change, Moment, Store
from bridge.ledger.trail import Line, line
from bridge.watch.masking import mask
from bridge.work.attempt import Planner

BULK = 1000  # calls in one action; what is left is told, and the action can be repeated
REASON_CHARS = 500
REQUESTS_A_CALL = 3  # to the CRM, for a new caller (docs/guarantees.md)

Move = Callable[[Entry, float], tuple[Entry, Line]]


class Declined(BridgeError):
    """An action was not carried out. The message says why, and what to do instead."""


@dataclass(frozen=True, slots=True)
class Survey:
    """A replay of many calls, before it is one."""

    previews: tuple[Preview, ...]
    is_cut: bool  # there are more than BULK
    failure: str | None  # why the CRM could not be asked
    left_today: int  # requests to the CRM
    start_every_s: float

    @property
    def clean(self) -> tuple[Preview, ...]:
        return tuple(preview for preview in self.previews if preview.is_possible and not preview.needs_reason)

    @property
    def doubtful(self) -> tuple[Preview, ...]:
        return tuple(preview for preview in self.previews if preview.is_possible and preview.needs_reason)


@dataclass(frozen=True)
class Desk:
    """Everything that people may do. `make_crm()` gives a client for one look; `steps` names all steps in order."""

    store: Store
    claims: Claims
    make_crm: Callable[[], Crm]
    plan: Planner
    steps: Sequence[str]
    location_id: str
    replay_every_s: float
    left_today: Callable[[], int]
    fresh_s: float = replay.FRESH_S  # a call older than this is replayed with a typed reason only

    @property
    def clock(self) -> Clock:
        return self.store.clock

    # ---- Looking

    def preview(self, call_key: str, from_step: str | None = None) -> Preview | None:
        """What a replay would do, or None where there is no such call. Raises Declined for a step that does not exist."""
        self._know(from_step)
        entry = self.store.get(call_key)
        if entry is None:
            return None
        asked = entry.state in (State.NEEDS_ATTENTION, State.DONE)
        crm = replay.look(self.make_crm(), entry) if asked else None
        return self._judge(entry, self._later([entry]).get(call_key), crm, from_step)

    def survey(self, wanted: Wanted, from_step: str | None = None) -> Survey:
        """What a replay of all these calls would do. The CRM is asked about the first alone: whether it answers is the same for all.

        Raises Declined for a step that does not exist.
        """
        self._know(from_step)
        page = self.store.find.page(wanted, after=None, limit=BULK)
        later = self._later(page.entries)
        first = replay.look(self.make_crm(), page.entries[0]) if page.entries else InCrm()
        crm = first if first.failure else None
        previews = tuple(self._judge(entry, later.get(entry.call_key), crm, from_step) for entry in page.entries)
        return Survey(previews, page.after is not None, first.failure, self.left_today(), self.replay_every_s)

    def _know(self, step: str | None) -> None:
        if step is not None and step not in self.steps:
            raise Declined(f"There is no step {step!r}; there are {', '.join(self.steps)}.")

    def _judge(self, entry: Entry, later: Entry | None, crm: InCrm | None, from_step: str | None) -> Preview:
        now = self.clock.now()
        is_idle = entry.state in (State.NEEDS_ATTENTION, State.DONE)
        fresh = by_hand.replay(entry, now, start_at=now, from_step=from_step, order=self.steps) if is_idle else entry
        plan = self.plan(fresh, now)
        return replay.judge(entry, fresh, plan, now, crm=crm, later=later, from_step=from_step, order=self.steps, fresh_s=self.fresh_s)

    def _later(self, entries: Iterable[Entry]) -> dict[str, Entry]:
        """Call key → the newest call of the same caller, where it came later and has its lead."""
        callers = {entry.call_key: entry.facts.caller.e164 for entry in entries if entry.facts.caller and entry.facts.caller.e164}
        with self.store.connection.pipeline(transaction=False) as pipe:
            for phone in callers.values():
                pipe.zrange(keys.index("caller", keys.digest(phone)), 0, 0, desc=True)
            newest = {call_key: rows[0].decode() for call_key, rows in zip(callers, pipe.execute(), strict=True) if rows}
        known = {entry.call_key: entry for entry in self.store.get_many(set(newest.values()) - set(callers))}
        known |= {entry.call_key: entry for entry in entries if entry.call_key in newest.values()}
        return {
            call_key: known[other]
            for call_key, other in newest.items()
            if other != call_key and other in known and known[other].state is State.DONE and known[other].contact_id
        }

    # ---- Acting on one call

    def replay(self, call_key: str, *, by: str, reason: str, seen: str | None, from_step: str | None = None) -> Entry:
        """Put a call back. `seen` is the mark of the page that asked; None: whatever it is now. Raises Declined."""
        preview = self.preview(call_key, from_step)
        if preview is None:
            raise Declined("There is no such call.")
        if seen is not None and preview.seen != seen:
            raise Declined(_MOVED_ON)
        return self._replay(preview, by=by, reason=reason)

    def _replay(self, preview: Preview, *, by: str, reason: str) -> Entry:
        if not preview.is_possible:
            raise Declined(next(check.say for check in preview.checks if check.level is replay.Level.STOP))
        why = _cleaned(reason, needed=preview.needs_reason)
        start_at, step = self._turn(), preview.from_step

        def move(entry: Entry, now: float) -> tuple[Entry, Line]:
            back = by_hand.replay(entry, now, start_at=max(start_at, now), from_step=step, order=self.steps)
            return back, line(now, "replayed", by=by, reason=why or None, step=step)

        return self._change(preview.entry.call_key, preview.seen, move)

    def adopt(self, call_key: str, contact_id: str, *, by: str, reason: str, seen: str) -> Entry:
        """This contact is the call's; the steps behind that are done on it. Raises Declined where the CRM does not know the contact."""
        entry, contact_id = self._get(call_key, seen), contact_id.strip()
        if entry.state not in (State.NEEDS_ATTENTION, State.DONE):
            raise Declined("It is under way: wait for its end, then say which contact is right.")
        self._check(contact_id)
        return self._adopt(entry, contact_id, by=by, reason=reason)

    def _check(self, contact_id: str) -> None:
        """Raises Declined where the CRM does not know the contact, or does not answer."""
        try:
            self.make_crm().list_notes(contact_id)
        except Gone:
            raise Declined("GoHighLevel knows no contact with this id in this location: copy it from the contact's address.") from None
        except StepFailed as error:
            raise Declined(f"GoHighLevel could not be asked: {mask(str(error))} {error.hint}".strip()) from None

    def _adopt(self, entry: Entry, contact_id: str, *, by: str, reason: str) -> Entry:
        try:
            self._claim(entry, contact_id)
        except NotYet as busy:
            raise Declined(f"Not now: {busy}. Try again in a minute.") from None
        start_at = self._turn()

        def move(entry: Entry, now: float) -> tuple[Entry, Line]:
            adopted = by_hand.adopt(entry, now, contact_id, start_at=max(start_at, now))
            return adopted, line(now, "adopted", by=by, reason=_cleaned(reason, needed=False) or None, contact_id=contact_id)

        return self._change(entry.call_key, by_hand.mark(entry), move)

    def close(self, call_key: str, *, by: str, reason: str, seen: str | None) -> Entry:
        """Done, by hand, for a reason. Raises Declined."""
        why = _cleaned(reason, needed=True)

        def move(entry: Entry, now: float) -> tuple[Entry, Line]:
            return by_hand.close(entry, reason=why, by=by), line(now, "closed", by=by, reason=why)

        return self._change(call_key, seen, move)

    def assign(self, call_key: str, owner: str, *, by: str, reason: str = "") -> Entry:
        """Somebody else answers for it. Raises Declined."""
        name = owner.strip()[:80]
        if not name:
            raise Declined("Name the person who answers for it from now on.")

        def move(entry: Entry, now: float) -> tuple[Entry, Line]:
            return by_hand.assign(entry, now, name), line(now, "assigned", by=by, to=name, reason=_cleaned(reason, needed=False) or None)

        return self._change(call_key, None, move)

    def reveal(self, call_key: str, *, by: str) -> Entry:
        """Somebody is about to see the caller's number and the raw events: written down before they do. Raises Declined."""
        return self._change(call_key, None, lambda entry, now: (entry, line(now, "revealed", by=by)))

    # ---- Acting on many

    def replay_all(self, survey: Survey, *, by: str, reason: str) -> tuple[int, int]:
        """Put back all that is clean and, where a reason is given, what is doubtful too. Returns how many were, and how many were not."""
        chosen = survey.clean + (survey.doubtful if reason.strip() else ())
        return self._each(chosen, lambda preview: self._replay(preview, by=by, reason=reason), of=len(survey.previews))

    def adopt_all(self, entries: Sequence[Entry], contact_id: str, *, by: str, reason: str) -> tuple[int, int]:
        """One contact for the calls of one caller. Raises Declined for calls of several: they would end as one person."""
        callers = {entry.facts.caller.e164 if entry.facts.caller else None for entry in entries}
        if len(callers) != 1 or (None in callers and len(entries) > 1):
            raise Declined("These are calls of several callers, or of nobody known: one contact cannot be theirs. Filter for one caller.")
        self._check(contact_id.strip())
        return self._each(entries, lambda entry: self._adopt(entry, contact_id.strip(), by=by, reason=reason), of=len(entries))

    def close_all(self, entries: Sequence[Entry], *, by: str, reason: str) -> tuple[int, int]:
        def close(entry: Entry) -> Entry:
            return self.close(entry.call_key, by=by, reason=reason, seen=by_hand.mark(entry))

        return self._each(entries, close, of=len(entries))

    def assign_all(self, entries: Sequence[Entry], owner: str, *, by: str) -> tuple[int, int]:
        return self._each(entries, lambda entry: self.assign(entry.call_key, owner, by=by), of=len(entries))

    @staticmethod
    def _each(chosen: Iterable[object], act: Callable[..., Entry], *, of: int) -> tuple[int, int]:
        done = 0
        for one in chosen:
            try:
                act(one)
            except Declined:
                continue  # it has moved on by itself meanwhile
            done += 1
        return done, of - done

    # ---- How it is written

    def _get(self, call_key: str, seen: str) -> Entry:
        entry = self.store.get(call_key)
        if entry is None:
            raise Declined("There is no such call.")
        if by_hand.mark(entry) != seen:
            raise Declined(_MOVED_ON)
        return entry

    def _change(self, call_key: str, seen: str | None, move: Move) -> Entry:
        def decide(entry: Entry | None, moment: Moment) -> Change:
            if entry is None:
                raise Declined("There is no such call.")
            if seen is not None and by_hand.mark(entry) != seen:
                raise Declined(_MOVED_ON)
            try:
                after, told = move(entry, moment.now)
            except WrongMove as wrong:
                raise Declined(str(wrong)) from None
            return Change(after, (told,), counts=(f"console.{told.what}",))

        after = self.store.change(call_key, decide)
        if after is None:
            raise Declined("There is no such call.")
        return after

    def _turn(self) -> float:
        return turns.take(self.store.connection, self.clock.now(), every_s=self.replay_every_s)

    def _claim(self, entry: Entry, contact_id: str) -> None:
        """The caller's next call finds this contact, too. Raises NotYet while another call is creating one."""
        who = entry.facts.caller.e164 if entry.facts.caller and entry.facts.caller.e164 else entry.call_key
        owner = f"console/{entry.call_key}"
        claim = self.claims.acquire(self.location_id, who, owner=owner)
        if claim.contact_id not in (None, contact_id):
            self.claims.forget(self.location_id, who, claim.contact_id or "")
            claim = self.claims.acquire(self.location_id, who, owner=owner)
        if claim.contact_id is None:
            self.claims.resolve(claim, contact_id)
            self.claims.release(claim)


_MOVED_ON = "The call has moved on since this page was made, so nothing was done. Look at it again."


def _cleaned(reason: str, *, needed: bool) -> str:
    """Kept for as long as the call, and shown to viewers: without numbers and addresses. Raises Declined where one is needed."""
    text = mask(" ".join(reason.split()))[:REASON_CHARS]
    if needed and not text:
        raise Declined("Type a reason: it is kept with the call.")
    return text

"""What people may do to calls: look before, then act. Each action is written to the trail with who, when and why, or not done at all.

Every change is a compare-and-set on what the person has seen: a page that is out of date changes nothing, and never sends anything for a
call that has been finished meanwhile. Replays start one by one at the pace that the CRM's budget allows beside live calls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from bridge.clock import Clock
from bridge.console import typed
from bridge.console.typed import legible
from bridge.errors import BridgeError, Fenced, Gone, NotYet, StepFailed, WrongMove
from bridge.intake import later, replay
from bridge.intake.replay import InCrm, Preview, Reads
from bridge.ledger import by_hand, keys, moves, turns
from bridge.ledger.claims import Claims
from bridge.ledger.entry import Entry, State
from bridge.ledger.find import Place, Wanted
from bridge.ledger.store import Change, Moment, Store
from bridge.ledger.trail import Line, line
from bridge.watch.masking import mask as masked
from bridge.watch.masking import mask_value
from bridge.work.attempt import Planner

BULK = 5000  # calls that one page looks at; the next page goes on behind them
LOOKS = 10  # contacts that one page asks GoHighLevel about; each call is asked about again before it is sent (bridge/work/last_look.py)
LOOKS_S = 5.0  # and after how long it begins with no further one; the look as a whole ends by itself (bridge/console/glance.py)
REASON_CHARS = 500
OWNER_CHARS = 80
REQUESTS_A_CALL = 4  # to the CRM, for a new caller (docs/guarantees.md): three, and the look before them

Move = Callable[[Entry, float], tuple[Entry, Line]]


class Declined(BridgeError):
    """An action was not carried out. The message says why, and what to do instead."""


class MovedOn(Declined):
    """Somebody, or the bridge itself, has changed the call since the page was made."""

    def __init__(self) -> None:
        super().__init__("The call has moved on since this page was made, so nothing was done. Look at it again.")


def mark(entry: Entry) -> str:
    """What a page has seen of a call: where it stands, what is known of it, and whose it is. On another mark an action is declined."""
    return f"{by_hand.mark(entry)}.{keys.digest(entry.owner)[:8]}"


@dataclass(frozen=True, slots=True)
class Survey:
    """An action on many calls, before it is one."""

    previews: tuple[Preview, ...]
    after: Place | None  # where the calls begin that this page does not take in; None: it takes in all
    unasked: InCrm | None  # why the CRM could not be asked
    left_today: int  # requests to the CRM
    start_every_s: float
    looked: Mapping[str, InCrm] = field(default_factory=dict)  # call key → what the CRM shows, of those that it was asked about

    @property
    def failure(self) -> str | None:
        return self.unasked.failure if self.unasked else None

    @property
    def unlooked(self) -> int:
        """How many calls the CRM was not asked about: more of them may need a reason."""
        return len(self.previews) - len(self.looked)

    @property
    def is_cut(self) -> bool:
        return self.after is not None

    @property
    def is_of_one_caller(self) -> bool:
        """One contact can be theirs. Somebody who sent no number is nobody else."""
        callers = {one.entry.facts.caller.e164 if one.entry.facts.caller else None for one in self.previews}
        return len(callers) == 1 and (None not in callers or len(self.previews) == 1)

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
    make_crm: Callable[[], Reads]
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
        return self._judge(entry, later.brought(self.store, [entry]).get(call_key), crm, from_step)

    def survey(
        self,
        wanted: Wanted,
        from_step: str | None = None,
        *,
        after: Place | None = None,
        ask: bool = True,
        size: int = BULK,
        looks: int = LOOKS,
    ) -> Survey:
        """What a replay of these calls would do, `size` of them at most, from the place `after` on.

        The CRM is asked about the first `looks` contacts, and with `ask` False about none. Raises Declined for a step that does not exist.
        """
        self._know(from_step)
        page = self.store.find.page(wanted, after=after, limit=size)
        seen = replay.look_at_many(self.make_crm(), page.entries, limit=looks, within_s=LOOKS_S) if page.entries and ask else {}
        unasked = next((one for one in seen.values() if one.failure), None)
        looked = {} if unasked else seen
        more = page.after and self.store.find.page(wanted, after=page.after, limit=1)  # a page that is full need not be followed by one
        behind = page.after if more and (more.entries or more.after) else None
        previews = self.judge(page.entries, unasked, from_step, looked)
        return Survey(previews, behind, unasked, self.left_today(), self.replay_every_s, looked)

    def judge(
        self, entries: Sequence[Entry], unasked: InCrm | None, from_step: str | None = None, looked: Mapping[str, InCrm] | None = None
    ) -> tuple[Preview, ...]:
        """A replay of each. `unasked`: why the CRM could not be asked. `looked`: what it shows of some of them."""
        brought, seen = later.brought(self.store, entries), looked or {}
        return tuple(self._judge(entry, brought.get(entry.call_key), seen.get(entry.call_key, unasked), from_step) for entry in entries)

    def _know(self, step: str | None) -> None:
        if step is not None and step not in self.steps:
            raise Declined(f"There is no step {step!r}; there are {', '.join(self.steps)}.")

    def _judge(self, entry: Entry, brought: Entry | None, crm: InCrm | None, from_step: str | None) -> Preview:
        now = self.clock.now()
        is_idle = entry.state in (State.NEEDS_ATTENTION, State.DONE)
        fresh = by_hand.replay(entry, now, start_at=now, from_step=from_step, order=self.steps) if is_idle else entry
        plan = self.plan(fresh, now)
        if crm and crm.is_gone and plan.ready:  # as the first step will find out
            fresh = moves.lose_contact(fresh)
            plan = self.plan(fresh, now)
        told = replay.judge(entry, fresh, plan, now, crm=crm, later=brought, from_step=from_step, order=self.steps, fresh_s=self.fresh_s)
        return replace(told, seen=mark(entry))

    # ---- Acting. `seen` is the mark of the page that asked, None: whatever it is now; `bulk` names the work of which this is one call

    def replay(self, call_key: str, *, by: str, reason: str, seen: str | None, from_step: str | None = None) -> Entry:
        """Put a call back. Raises Declined."""
        preview = self.preview(call_key, from_step)
        if preview is None:
            raise Declined("There is no such call.")
        if seen is not None and preview.seen != seen:
            raise MovedOn
        return self.replay_as(preview, by=by, reason=reason)

    def replay_as(self, preview: Preview, *, by: str, reason: str, bulk: str | None = None) -> Entry:
        """Put a call back that was judged just now. Raises Declined."""
        if not preview.is_possible:
            raise Declined(next(check.say for check in preview.checks if check.level is replay.Level.STOP))
        why = cleaned(reason, needed=preview.needs_reason)
        start_at, step = self._turn(), preview.from_step
        vouched = preview.doubts if why else ()

        def move(entry: Entry, now: float) -> tuple[Entry, Line]:
            back = by_hand.replay(entry, now, start_at=max(start_at, now), from_step=step, order=self.steps, vouched=vouched)
            return back, line(now, "replayed", by=by, reason=why or None, step=step, bulk=bulk)

        return self._change(preview.entry.call_key, preview.seen, move)

    def replay_all(self, survey: Survey, *, by: str, reason: str) -> tuple[int, int]:
        """Put back all that is clean and, where a reason is given, what is doubtful too. Returns how many were, and how many were not."""
        done = 0
        for preview in survey.clean + (survey.doubtful if reason.strip() else ()):
            try:
                self.replay_as(preview, by=by, reason=reason)
            except Declined:
                continue  # it has moved on by itself meanwhile
            done += 1
        return done, len(survey.previews) - done

    def adopt(self, call_key: str, contact_id: str, *, by: str, reason: str, seen: str) -> Entry:
        """This contact is the call's; the steps behind that are done on it. Raises Declined where the CRM does not know the contact."""
        entry = self._get(call_key, seen)
        if entry.state not in (State.NEEDS_ATTENTION, State.DONE):
            raise Declined("It is under way: wait for its end, then say which contact is right.")
        return self.adopt_known(entry, self.known_contact(contact_id), by=by, reason=reason)

    def known_contact(self, contact_id: str) -> str:
        """The id, of which its page's address may be given. Raises Declined where the CRM does not know the contact, or does not answer."""
        try:
            known = typed.contact_id(contact_id, self.location_id)
            self.make_crm().list_notes(known)
        except ValueError as wrong:
            raise Declined(str(wrong)) from None
        except Gone:
            raise Declined("GoHighLevel knows no contact with this id in this location: copy it from the contact's address.") from None
        except StepFailed as error:
            raise Declined(f"Nothing was done, since GoHighLevel did not confirm the contact. {replay.failed(error).failure}") from None
        return known

    def adopt_known(self, entry: Entry, contact_id: str, *, by: str, reason: str, bulk: str | None = None) -> Entry:
        """As `adopt`, for a contact that the CRM is known to have. Raises Declined."""
        self._get(entry.call_key, mark(entry))  # asking the CRM takes seconds: what a colleague has done since shall keep its claim
        try:
            self._claim(entry, contact_id)
        except (NotYet, Fenced) as busy:
            raise Declined(f"Not now: {busy}. Try again in a minute.") from None
        start_at, why = self._turn(), cleaned(reason) or None
        vouched = ("changed", "opted out") if why else ("changed",)  # whose number it is, the person has just said

        def move(entry: Entry, now: float) -> tuple[Entry, Line]:
            adopted = by_hand.adopt(entry, now, contact_id, start_at=max(start_at, now), vouched=vouched)
            return adopted, line(now, "adopted", by=by, reason=why, contact_id=contact_id, bulk=bulk)

        return self._change(entry.call_key, mark(entry), move)

    def close(self, call_key: str, *, by: str, reason: str, seen: str | None, bulk: str | None = None) -> Entry:
        """Done, by hand, for a reason. Raises Declined."""
        why = cleaned(reason, needed=True)

        def move(entry: Entry, now: float) -> tuple[Entry, Line]:
            return by_hand.close(entry, reason=why, by=by), line(now, "closed", by=by, reason=why, bulk=bulk)

        return self._change(call_key, seen, move)

    def assign(self, call_key: str, owner: str, *, by: str, seen: str | None, reason: str = "", bulk: str | None = None) -> Entry:
        """Somebody else answers for it. Raises Declined."""
        name, why = named(owner), cleaned(reason) or None

        def move(entry: Entry, now: float) -> tuple[Entry, Line]:
            return by_hand.assign(entry, now, name), line(now, "assigned", by=by, to=name, reason=why, bulk=bulk)

        return self._change(call_key, seen, move)

    def reveal(self, call_key: str, *, by: str) -> Entry:
        """Somebody is about to see the caller's number and the raw events: written down before they do. Raises Declined."""
        return self._change(call_key, None, lambda entry, now: (entry, line(now, "revealed", by=by)))

    # ---- How it is written

    def _get(self, call_key: str, seen: str) -> Entry:
        entry = self.store.get(call_key)
        if entry is None:
            raise Declined("There is no such call.")
        if mark(entry) != seen:
            raise MovedOn
        return entry

    def _change(self, call_key: str, seen: str | None, move: Move) -> Entry:
        def decide(entry: Entry | None, moment: Moment) -> Change:
            if entry is None:
                raise Declined("There is no such call.")
            if seen is not None and mark(entry) != seen:
                raise MovedOn
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


def cleaned(reason: str, *, needed: bool = False) -> str:
    """Kept for as long as the call, and shown to viewers: without numbers and addresses. Raises Declined where one is needed."""
    text = masked(legible(reason))[:REASON_CHARS]
    if needed and not text:
        raise Declined("Type a reason: it is kept with the call.")
    return text


def named(owner: str) -> str:
    """Who answers for a call from now on: shown to viewers, so an address may stand in it, and no number. Raises Declined for nobody."""
    name = str(mask_value(legible(owner)[:OWNER_CHARS], "owner"))
    if not name:
        raise Declined("Name the person who answers for it from now on.")
    return name

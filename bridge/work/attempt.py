"""One run of the job for an entry: recorded before its first effect, settled after its last.

The one place of the project that catches everything. What can be mended by trying again is written down and returns normally, so that
RQ knows nothing of it; what cannot is written down and raised again, so that it lands in RQ's failed registry and in Sentry, once.
"""

from __future__ import annotations

import logging
import random
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

import redis
from rq.exceptions import ShutDownImminentException
from rq.timeouts import JobTimeoutException

from bridge.crm.base import Crm
from bridge.errors import Fenced, Gone, NotYet, Permanent, StepFailed, Transient, Uncertain
from bridge.ledger import moves
from bridge.ledger.claims import Claim, Claims
from bridge.ledger.entry import Entry, Plan, State, Trouble
from bridge.ledger.store import Change, Moment, Store
from bridge.ledger.trail import Line, line
from bridge.settings import Settings
from bridge.watch import alerts
from bridge.watch.logs import bound
from bridge.watch.masking import mask
from bridge.work import last_look
from bridge.work.retry import Again, Budget, verdict

log = logging.getLogger(__name__)

ROUNDS = 20  # how often one run looks for news that came meanwhile before it lets the next run go on
Result = TypeVar("Result")


class Step(Protocol):
    """One idempotent business action (handlers/)."""

    @property
    def name(self) -> str: ...

    @property
    def run(self) -> Callable[[Work], None]:
        """Bring the CRM in line with `work.entry.facts`, and say so with `work.record`."""


class Planner(Protocol):
    """What is left to do for an entry (handlers/steps.py)."""

    def __call__(self, entry: Entry, now: float) -> Plan: ...


@dataclass(frozen=True)
class Needs:
    """What an attempt works with; bridge/parts.py builds it."""

    store: Store
    claims: Claims
    crm: Crm
    settings: Settings
    plan: Planner
    steps: Sequence[Step]
    draw: Callable[[], float] = field(default=random.random)  # jitter, not security


class Work:
    """What a step may do. Every write to the ledger fails with Fenced once somebody else has taken the call over."""

    def __init__(self, needs: Needs, entry: Entry, deadline: float) -> None:
        self.entry = entry
        self.crm = needs.crm
        self.claims = needs.claims
        self.settings = needs.settings
        self._store = needs.store
        self._attempt = entry.attempt
        self._deadline = deadline  # of our lease, by our monotonic clock
        self._claim: Claim | None = None
        self.step: str | None = None
        self.has_lost_contact = False

    @property
    def now(self) -> float:
        return self._store.clock.now()

    @property
    def owner(self) -> str:
        """Who we are to other workers: this attempt, not this call, since an earlier attempt's request may still be under way."""
        return f"{self.entry.call_key}/{self._attempt}"

    def update(self, change: Callable[[Entry, float], Entry], *told: Line) -> None:
        """Write a change of the entry, if the call is still ours. Raises Fenced."""

        def decide(entry: Entry | None, moment: Moment) -> Change:
            return Change(change(moves.held(entry, self._attempt), moment.now), told)

        self.entry = self._store.change(self.entry.call_key, decide) or self.entry

    def record(self, step: str, told: Line | None = None, **result: str) -> None:
        """`step` is done for the facts as this attempt has read them."""
        version = self.entry.version
        lines = (told,) if told else ()
        self.update(lambda entry, now: moves.record(entry, step, now, version=version, result=result), *lines)

    def send(self, step: str, request: Callable[[], Result], *, words: str | None = None) -> Result:
        """A write whose repetition would double something: announced first, withdrawn when it is known to have changed nothing.

        `words` is a digest of what is sent, by which it is known again. Where its outcome stays open (Uncertain, or this process dies) the
        announcement stays, and the next attempt looks first.
        """
        self.update(lambda entry, now: moves.intend(entry, step, now, words=words))
        try:
            return request()
        except Uncertain:
            raise
        except StepFailed:
            self.update(lambda entry, _: moves.withdraw(entry, step))
            raise

    def hold(self, claim: Claim | None) -> None:
        """Until told otherwise no request may leave unless this claim's lease outlives it."""
        self._claim = claim

    def before_request(self, timeout_s: float) -> None:
        """Called by the CRM's client when a request is about to leave: our leases outlive it, or it does not leave. Raises Fenced."""
        if self._deadline - self.claims.now() <= timeout_s:
            lease_s = self.settings.attempt_lease_s
            asked = self.claims.now()
            self.update(lambda entry, now: moves.renew(entry, now, lease_s=lease_s))
            self._deadline = asked + lease_s
        if self._claim is not None and not self._claim.outlives(timeout_s, self.claims.now()):
            self._claim = self.claims.renew(self._claim)


def run(needs: Needs, call_key: str) -> None:
    """The job: bring the CRM in line with what the ledger knows of `call_key`.

    Raises what failed for good (StepFailed), after the entry says so; and redis.RedisError where it could not even begin.
    """
    deadline = needs.claims.now() + needs.settings.attempt_lease_s
    with bound(call_key=call_key):
        _run(needs, call_key, deadline)


def _run(needs: Needs, call_key: str, deadline: float) -> None:
    entry = _begin(needs, call_key)
    if entry is None:
        return
    work = Work(needs, entry, deadline)
    needs.crm.before_request = work.before_request
    needs.crm.background = entry.source == "backfill" or entry.is_replay  # nobody waits for it; whoever rings now does
    alerts.bind(call_key=call_key, owner=entry.owner)
    try:
        _work_off(needs, work)
    except Fenced as fenced:
        log.warning("attempt stopped: %s", fenced, extra={"attempt": entry.attempt})
    except (Exception, ShutDownImminentException) as error:  # noqa: BLE001 - the one place that catches everything; what is terminal is raised again
        _settle(needs, work, error)


def _begin(needs: Needs, call_key: str) -> Entry | None:
    """The entry, if it is now ours to run. Raises the failure of an entry that somebody else has parked and nobody has reported."""
    worker = uuid.uuid4().hex[:12]
    lease_s = needs.settings.attempt_lease_s
    doubt_s = sum(needs.settings.settle_schedule_s) + needs.settings.request_timeout_s
    unreported: list[Trouble] = []

    def decide(entry: Entry | None, moment: Moment) -> Change | None:
        unreported.clear()  # decided anew: another run may have reported it meanwhile, and one failure is one alert
        if entry is None or _is_ours(entry, worker):
            return None
        if entry.state is State.NEEDS_ATTENTION and entry.trouble and (entry.unreported or entry.reported_by == worker):
            unreported.append(entry.trouble)
            return Change(moves.reported(entry, by=worker))
        if not moves.may_begin(entry, moment.now):
            return None
        begun = moves.begin(entry, moment.now, lease_s=lease_s, worker=worker)
        if moment.replaced and begun.accepted_at < moment.born + doubt_s:
            # What the lost ledger did last may not show in the CRM's search yet, not even for a call that has just begun.
            begun = moves.suspect(begun, moment.born)
        return Change(begun, (line(moment.now, "attempt began", attempt=begun.attempt),), counts=("attempts",))

    entry = needs.store.change(call_key, decide)
    if unreported:
        alerts.bind(call_key=call_key, owner=entry.owner if entry else None, state=State.NEEDS_ATTENTION)
        raise Permanent(unreported[0].message, cause=unreported[0].word, hint=unreported[0].hint)
    if entry is None or not _is_ours(entry, worker):
        log.info("nothing to run", extra={"state": entry.state.value if entry else "unknown call"})
        return None
    return entry


def _is_ours(entry: Entry, worker: str) -> bool:
    return entry.state is State.RUNNING and bool(entry.attempts) and entry.attempts[-1].worker == worker


def _work_off(needs: Needs, work: Work) -> None:
    """Steps, until nothing is left for the newest version of the facts. The last act is a compare-and-set on that version."""
    steps = {step.name: step for step in needs.steps}
    plan = needs.plan(work.entry, work.now)
    if work.entry.is_replay and plan.ready:
        last_look.take(work.crm, work.entry, work.now, new_for_s=sum(needs.settings.settle_schedule_s))
    for _ in range(ROUNDS):
        plan = needs.plan(work.entry, work.now)
        if plan.ready:
            work.step = plan.ready[0]
            _run_step(work, steps[work.step])
            work.step = None
        elif _finish(needs, work):
            return
    raise NotYet("news kept coming while the call was run", cause="call.news", retry_in=1.0)


def _run_step(work: Work, step: Step) -> None:
    """One step. A contact that is gone from the CRM is resolved anew, once in an attempt: a second time a person should know."""
    try:
        step.run(work)
    except Gone as gone:
        if work.entry.contact_id is None or work.has_lost_contact:
            raise
        work.has_lost_contact = True
        told = line(work.now, "contact gone", contact_id=work.entry.contact_id, trace_id=gone.trace_id)
        work.update(lambda entry, _: moves.lose_contact(entry), told)


def _finish(needs: Needs, work: Work) -> bool:
    """Whether the attempt is over: False where the facts have changed and there is more to do."""

    def change(entry: Entry, now: float) -> Entry:
        plan = needs.plan(entry, now)
        return entry if plan.ready else moves.finish(entry, plan, now)

    def decide(entry: Entry | None, moment: Moment) -> Change | None:
        now = moment.now
        ours = moves.held(entry, work.entry.attempt)
        after = change(ours, now)
        if after is ours:
            work.entry = ours
            return None
        told = line(now, "attempt ended", attempt=ours.attempt, outcome="done", next_try_at=after.next_try_at, why=after.waiting_for)
        return Change(after, (told,))

    after = needs.store.change(work.entry.call_key, decide)
    return after is not None and after.state is not State.RUNNING


def _settle(needs: Needs, work: Work, error: BaseException) -> None:
    """Write down what follows from `error`; raise it again where a person has to act."""
    failure = _as_failure(error)
    settings = needs.settings
    budget = Budget(settings.max_attempts, settings.retry_base_s, settings.retry_cap_s)
    parked: list[Trouble] = []

    def decide(entry: Entry | None, moment: Moment) -> Change | None:
        if parked and entry is not None and entry.trouble == parked[0]:
            return None  # written already, and the answer was lost: as if fenced, nobody would hear of the failure
        ours, now = moves.held(entry, work.entry.attempt), moment.now
        decision = verdict(failure, spent=ours.spent, budget=budget, now=now, draw=needs.draw)
        message = mask(f"{failure}: {failure.said}" if failure.said else str(failure))
        facts: dict[str, str | float | bool | None] = {
            "attempt": ours.attempt,
            "step": work.step,
            "cause": failure.cause,
            "message": message,
            "trace_id": failure.trace_id,
        }
        if isinstance(decision, Again):
            after = moves.wait(
                ours,
                now,
                delay=decision.delay,
                spend=decision.spend,
                cause=failure.cause,
                message=message,
                step=work.step,
                trace_id=failure.trace_id,
            )
            told = line(now, "attempt ended", outcome="again", next_try_at=after.next_try_at, **facts)
            return Change(after, (told,), counts=("again",))
        trouble = replace(decision, message=message)
        parked[:] = [trouble]
        after = moves.park(ours, now, trouble, step=work.step, trace_id=failure.trace_id)
        return Change(after, (line(now, "needs attention", hint=trouble.hint, **facts),))

    try:
        needs.store.change(work.entry.call_key, decide)
    except Fenced as fenced:
        log.warning("attempt stopped: %s", fenced)
        return
    except redis.RedisError:
        log.warning("Redis is away: the lease runs out and the sweeper puts the call back", exc_info=True)
        return
    if parked:
        alerts.bind(step=work.step, state=State.NEEDS_ATTENTION)
        raise failure from (None if failure is error else error)
    log.info("attempt will be made again", extra={"cause": failure.cause, "step": work.step})


def _as_failure(error: BaseException) -> StepFailed:
    """Every error as one of ours. One that we did not foresee is a bug of ours, which no retry can mend."""
    if isinstance(error, StepFailed):
        return error
    if isinstance(error, ShutDownImminentException):
        return NotYet("this worker is shutting down", cause="worker.shutdown", retry_in=0.0)
    if isinstance(error, redis.RedisError):
        return Transient("Redis could not be reached", cause="redis")
    if isinstance(error, JobTimeoutException):
        return Transient("the job ran into its time limit", cause="worker.timeout")
    return Permanent(
        f"{type(error).__name__} in our own code",
        cause=f"bug.{type(error).__name__}",
        hint="This is a fault of Callbridge: the worker's log holds the traceback. Mend it, then replay the call.",
    )

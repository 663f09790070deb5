"""The verdict on an error: again, later, or a person. Pure.

Order of authority on when to come back: the server's word, then the schedule of whoever raised the error, then our own backoff.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bridge.errors import Ask, NotYet, Permanent, StepFailed, Transient, Uncertain
from bridge.ledger.entry import DUE_IN_S, Cause, Trouble

STALE = "call.stale"
REPLAY = "replay."  # how the words begin for what stops a replay (bridge/intake/replay.py)
EXHAUSTED_HINT = "See the attempts for what failed each time; when that is mended, replay the call: it starts at the first step not done."


@dataclass(frozen=True, slots=True)
class Budget:
    """How often and how patiently a call is tried."""

    attempts: int
    base_s: float
    cap_s: float


@dataclass(frozen=True, slots=True)
class Again:
    """Try again in `delay` seconds; `spend` says whether this try counts against the budget."""

    delay: float
    spend: bool


def verdict(error: StepFailed, *, spent: int, budget: Budget, now: float, draw: Callable[[], float]) -> Again | Trouble:
    """What follows from `error` for a call that has spent `spent` tries. `draw` returns a number in [0, 1) for the jitter."""
    if isinstance(error, NotYet):
        return Again(error.retry_in or 0.0, spend=False)
    if isinstance(error, Permanent):
        return _trouble(_cause(error), error, now)
    if spent + 1 >= budget.attempts:
        cause = Cause.UNCERTAIN if isinstance(error, Uncertain) else Cause.EXHAUSTED
        return _trouble(cause, error, now, hint=EXHAUSTED_HINT)
    return Again(backoff(error, spent=spent, budget=budget, draw=draw), spend=True)


def backoff(error: Transient | Uncertain | StepFailed, *, spent: int, budget: Budget, draw: Callable[[], float]) -> float:
    """Seconds to wait before the next try: the server's word with a little jitter on top, else full jitter up to base · 2ⁿ.

    Full jitter, so that calls which failed together do not come back together
    (https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/). Never below a tenth of the base: a hot loop helps nobody.
    """
    if error.retry_in is not None:
        return error.retry_in * (1 + 0.1 * draw())
    ceiling = min(budget.cap_s, budget.base_s * 2.0 ** min(spent, 30))
    return max(budget.base_s / 10, ceiling * draw())


def _cause(error: Permanent) -> Cause:
    if isinstance(error, Ask):
        return Cause.UNCERTAIN
    return Cause.STALE if error.cause == STALE or error.cause.startswith(REPLAY) else Cause.PERMANENT


def _trouble(cause: Cause, error: StepFailed, now: float, hint: str = "") -> Trouble:
    return Trouble(cause, error.cause, str(error), error.hint or hint, now, now + DUE_IN_S)

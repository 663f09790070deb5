"""Settling: what is done about a write whose outcome is not known. Look first, with pauses that outlast the CRM's index lag."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from bridge.errors import NotYet

_EARLY_S = 0.001  # a look that comes this early is the look: floats would else ask for one more after no time at all


def next_look(age_s: float, schedule_s: Sequence[float]) -> float | None:
    """Seconds until the next look, `age_s` after the write was last possibly under way; None once the last look has been made.

    The schedule is a list of pauses: (2, 5, 15, 60) looks after 2, 7, 22 and 82 seconds.
    """
    for moment in accumulate(schedule_s):
        if age_s < moment - _EARLY_S:
            return moment - age_s
    return None


def look_again_later(what: str, age_s: float, schedule_s: Sequence[float]) -> None:
    """Raises NotYet while the schedule goes on, so that nothing is sent twice. Returns when everything was looked for in vain."""
    pause = next_look(age_s, schedule_s)
    if pause is not None:
        raise NotYet(f"the answer to an earlier {what} was lost; looking whether it took effect", cause=f"settle.{what}", retry_in=pause)

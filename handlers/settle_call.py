"""Settling: what is done about a write whose outcome is not known. Look first, with pauses that outlast the CRM's index lag."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate

from bridge.errors import Gone, NotYet
from bridge.work.attempt import Work

FIND = "find_or_create_lead"
SECOND = "second"  # in that step's result: another contact with the caller's number
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


@contextmanager
def patience_with_a_new_contact(work: Work) -> Iterator[None]:
    """A contact that this call has just created may not show everywhere in the CRM yet: "not found" is believed after the schedule.

    Given up at once, it would be looked for in an index that lags just as much, and perhaps be created a second time. A call that has
    lost a contact before is not patient: that one was waited for, and waiting has to end.
    """
    try:
        yield
    except Gone as gone:
        adopted = work.entry.steps.get(FIND)
        is_new = work.entry.contact_created and work.entry.lost_contact_id is None
        pause = next_look(work.now - adopted.at, work.settings.settle_schedule_s) if adopted and is_new else None
        if pause is None:
            raise
        raise NotYet("the contact was created just now and does not show yet", cause="settle.contact", retry_in=pause) from gone

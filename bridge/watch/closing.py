"""What is said when a promise holds again: how that came about, since when it was broken, and what is left to do. Pure.

An alert ends in more than one way. Late calls may have become leads, or questions for a person; too many failures may have become few, or
too few calls to speak of a share. So nothing is said here but what the figures at the end show.
"""

from __future__ import annotations

from datetime import UTC, datetime

from bridge.watch import promises
from bridge.watch.promises import ENOUGH, Figures, Process, counted, span
from bridge.watch.standing import Sending


def over(process: Process, cause: str, figures: Figures, sending: Sending, now: float) -> tuple[str, tuple[str, ...]]:
    """The title and the lines of the message that closes an alert about `cause`."""
    has_come = cause == promises.SILENCE and _has_come(figures, sending, now)
    until = now - (figures.silent_s or 0.0) if has_come else now
    what = ("attempt", "attempts") if cause in {promises.DIED, promises.TIMED_OUT} else ("call", "calls")
    height = f"At its height it was about {counted(sending.count, *what)}." if sending.count > 1 else ""
    lines = (lasted(sending.since, until), height, _left(figures))
    title = _silence(process, has_come=has_come) if cause == promises.SILENCE else _title(process, cause, figures)
    return title, tuple(line for line in lines if line)


def _has_come(figures: Figures, sending: Sending, now: float) -> bool:
    """Whether the newest call is not that with which the silence began: it may have ended by a setting alone."""
    return figures.silent_s is not None and now - figures.silent_s > sending.since + 1.0


def _silence(process: Process, *, has_come: bool) -> str:
    if process.silence_s is None:
        return "Silence is not watched any more: SILENCE_S is not set."
    return "A call has come." if has_come else "No call has come, and it may take longer by now: SILENCE_S was changed."


_PLAIN = {
    promises.LATE: "No call waits for the bridge longer than promised any more.",
    promises.DIED: "Of the last hours' attempts none was cut short by the death of its process, or for want of Redis.",
    promises.TIMED_OUT: "Of the last hours' attempts none was cut short by the time limit.",
}


def _title(process: Process, cause: str, figures: Figures) -> str:
    if cause in _PLAIN:
        return _PLAIN[cause]
    if cause == promises.SLOW:
        return _pace(figures)
    if cause == promises.FAILURES:
        return _failures(figures)
    if cause == promises.BUDGET:
        return f"{figures.left_today} of {process.daily} requests to GoHighLevel are left for today."
    return f"No call needs attention for this cause any more ({cause.partition('.')[2]})."


def _pace(figures: Figures) -> str:
    leads = sum((figures.took or {}).values())
    if leads < ENOUGH:
        return f"The last hours had {counted(leads, 'lead', 'leads')}: too few to speak of their pace."
    return f"Of the last hours' {leads} leads no more than one in twenty is known to have taken longer than promised."


def _failures(figures: Figures) -> str:
    ended = figures.leads + figures.failures
    if ended < ENOUGH:
        return f"The last hours had {counted(ended, 'lead or failure', 'leads and failures')}: too few to speak of a share."
    return f"{figures.failures} of the last hours' {ended} calls failed for good, which is no more than FAILURE_SHARE."


def _left(figures: Figures) -> str:
    """What a person may still have to do, and what the bridge has still to do by itself."""
    attention = sum((figures.attention or {}).values())
    under_way = figures.waiting
    asked = f"{counted(attention, 'call needs', 'calls need')} attention" if attention else "No call needs attention"
    late = f", {figures.late} of them longer than promised" if figures.late else ""
    going = f"{counted(under_way, 'call waits', 'calls wait')} for the bridge{late}" if under_way else "none waits for the bridge"
    return f"{asked}; {going}."


def lasted(since: float, until: float) -> str:
    """From when to when, in UTC, to the second."""
    begin, end = (datetime.fromtimestamp(at, UTC) for at in (since, max(since, until)))
    day = "" if begin.date() == end.date() else f"{end:%Y-%m-%d} "
    return f"It was so from {begin:%Y-%m-%d %H:%M:%S} to {day}{end:%H:%M:%S} UTC ({span(max(until - since, 0.0))})."

"""A bulk action in sentences. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from bridge.console import present
from bridge.console.bulk import DOUBTFUL, MOVED, REFUSED, SAME, Work
from bridge.intake.replay import Preview
from bridge.ledger.entry import State

TITLES = {"replay": "Replay", "adopt": "Adopt a contact for", "close": "Close", "assign": "Assign"}
DONE = {
    "replay": ("is put back, and starts when its turn comes", "are put back, and start one by one"),
    "adopt": ("goes to this contact", "go to this contact, one by one"),
    "close": ("is closed", "are closed"),
    "assign": ("has a new owner", "have a new owner"),
}
LEFT = {
    MOVED: ("had moved on since the page was made", "had moved on since the page was made"),
    DOUBTFUL: ("is replayed only with a reason", "are replayed only with a reason"),
    SAME: ("had this owner already", "had this owner already"),
    REFUSED: ("could not be changed just now", "could not be changed just now"),
}
DOUBTS = {
    "cause": ("has a cause that may still stand", "have a cause that may still stand"),
    "satisfied": ("has nothing left to do", "have nothing left to do"),
    "again": ("would do a step again that is done", "would do steps again that are done"),
    "age": ("is too old", "are too old"),
    "later": ("has a later call of the same caller that has been brought", "have later calls of the same caller that have been brought"),
    "gone": ("has a contact that is gone", "have a contact that is gone"),
    "changed": ("has a number that leads to another contact now", "have a number that leads to another contact now"),
    "opted out": ("has a contact that does not want to be contacted", "have a contact that does not want to be contacted"),
}
FILTERS = {
    "state": "state",
    "cause": "cause",
    "provider": "phone system",
    "dialled": "number called",
    "location": "location",
    "day": "day",
    "contact": "contact id",
    "last4": "last four digits",
    "owner": "owner",
    "like": "same caller as",
}


def work(one: Work) -> str:
    """What has become of the calls so far."""
    left = sum(one.left.values())
    untouched = one.total - one.done - left
    if one.stopped_by and untouched == one.total:
        return f"All of them were left as they were, by {one.stopped_by}."
    parts = [f"{_counted(one.done, *DONE[one.action])}." if one.done else "Nothing was changed."]
    if left:
        why = ", ".join(f"{times:,} {LEFT[word][times != 1]}" for word, times in sorted(one.left.items(), key=lambda item: -item[1]))
        parts.append(f"{present.count(left, 'was left as it is', 'were left as they are')}: {why}.")
    if one.stopped_by:
        parts.append(f"The {present.count(untouched, 'other was left as it was', 'others were left as they were')}, by {one.stopped_by}.")
    return " ".join(parts)


def doubts(previews: Iterable[Preview]) -> str:
    """Why calls need a reason, the most frequent first; one may have several."""
    times = Counter(name for preview in previews for name in preview.doubts)
    return ", ".join(f"{often:,} {DOUBTS[name][often != 1]}" for name, often in times.most_common())


def lasts(seconds: float) -> str:
    """How long it takes until the last replay has started."""
    return "within a minute" if seconds < 60 else f"over {present.span(seconds)}"


def filters(query: Mapping[str, str]) -> str:
    """The filter of a list: `cause: every try of the budget has failed, day: 2026-11-29`."""
    causes = {cause.value: told for cause, told in present.CAUSES.items()}
    states = {state.value: state.value.replace("_", " ") for state in State}
    shown = {name: {"cause": causes, "state": states}.get(name, {}).get(value, value) for name, value in query.items()}
    return ", ".join(f"{FILTERS[name]}: {value}" for name, value in shown.items())


def _counted(times: int, one: str, many: str) -> str:
    return present.count(times, f"call {one}", f"calls {many}")

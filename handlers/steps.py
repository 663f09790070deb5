"""The steps of a call, in order. A new step is one file and one line here (docs/add-a-step.md)."""

from __future__ import annotations

from functools import partial

from bridge.ledger.entry import Entry, Plan
from bridge.settings import Settings
from bridge.work.attempt import Planner
from handlers import find_or_create_lead, note_call, tag_lead
from handlers.step import Step

STEPS: tuple[Step, ...] = (
    find_or_create_lead.STEP,
    tag_lead.STEP,
    note_call.STEP,
)


def plan(settings: Settings, entry: Entry, now: float) -> Plan:
    """What is left to do for an entry: the steps that can run now, or until when to wait, or why there is nothing to bring."""
    if entry.closed_by is not None:
        return Plan(reason=entry.reason)
    needs = [(step.name, step.need(entry, now, settings)) for step in STEPS]
    skipped = next((need.skipped for _, need in needs if need.skipped), None)
    if skipped:
        return Plan(reason=skipped)
    ready = tuple(name for name, need in needs if need.ready)
    waits = [need for _, need in needs if need.wait_until is not None]
    if ready or not waits:
        return Plan(ready=ready)
    return Plan(wait_until=waits[0].wait_until, waiting_for=waits[0].waiting_for)


def planner(settings: Settings) -> Planner:
    return partial(plan, settings)

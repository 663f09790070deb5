"""What is said before a replay: each question, and its answer."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from bridge.crm.base import Note
from bridge.errors import NotYet, Permanent, Transient
from bridge.intake import replay
from bridge.intake.replay import FRESH_S, InCrm, Level, Preview
from bridge.ledger import by_hand, moves
from bridge.ledger.entry import Entry, Plan, State
from tests.support.builders import ANONYMOUS, KEY, NOW, PHONE, done_entry, make_call, parked_entry, queued_entry, running_entry
from tests.support.crm import FakeCrm

STEPS = ("find_or_create_lead", "tag_lead", "note_call")
READY = Plan(ready=("find_or_create_lead",))
NOTHING_THERE = InCrm()


def judged(
    entry: Entry, plan: Plan = READY, *, crm: InCrm | None = NOTHING_THERE, later: Entry | None = None, now: float = NOW, **more
) -> Preview:
    idle = entry.state in (State.NEEDS_ATTENTION, State.DONE)
    fresh = by_hand.replay(entry, now, start_at=now, from_step=more.get("from_step"), order=STEPS) if idle else entry
    return replay.judge(entry, fresh, plan, now, crm=crm, later=later, order=STEPS, **more)


def levels(preview: Preview) -> dict[str, Level]:
    return {check.name: check.level for check in preview.checks}


def test_a_fresh_failure_whose_cause_has_gone_needs_no_reason() -> None:
    preview = judged(parked_entry())
    assert preview.is_possible
    assert not preview.needs_reason
    assert preview.will_do == STEPS


@pytest.mark.parametrize("entry", [queued_entry(), running_entry()])
def test_what_is_under_way_is_not_replayed(entry: Entry) -> None:
    preview = judged(entry)
    assert not preview.is_possible
    assert levels(preview) == {"state": Level.STOP}


LATER = replace(done_entry(facts=make_call(root_id="CA9")), contact_id="c1")
DOUBTS = {
    "cause": lambda: judged(parked_entry(), crm=InCrm(failure="GoHighLevel answered 401.")),
    "satisfied": lambda: judged(parked_entry(), Plan()),
    "age": lambda: judged(parked_entry(), now=NOW + FRESH_S + 1),
    "later": lambda: judged(parked_entry(), later=LATER),
    "gone": lambda: judged(parked_entry(), crm=InCrm(is_gone=True)),
    "changed": lambda: judged(moves.adopt(parked_entry(), "c1", created=True), crm=InCrm(found_id="c2", notes=0)),
    "opted out": lambda: judged(parked_entry(), crm=InCrm(found_id="c1", tags=("VIP", "Do Not Contact"))),
    "again": lambda: judged(moves.record(done_entry(), "note_call", NOW, version=1), from_step="note_call"),
}


@pytest.mark.parametrize("name", DOUBTS)
def test_each_doubt_asks_for_a_reason(name: str) -> None:
    preview = DOUBTS[name]()
    assert levels(preview)[name] is Level.WARNING
    assert preview.needs_reason
    assert preview.is_possible


def test_a_call_that_is_done_asks_for_a_reason_even_with_work_left() -> None:
    assert levels(judged(done_entry()))["satisfied"] is Level.WARNING


def test_what_was_done_is_told_and_only_the_rest_would_be() -> None:
    parked = moves.adopt(moves.record(parked_entry(), "find_or_create_lead", NOW, version=1), "c1", created=True)
    preview = judged(parked, Plan(ready=("tag_lead",)), crm=InCrm(found_id="c1", notes=1))
    told = {check.name: check.say for check in preview.checks}
    assert "find or create lead" in told["done"]
    assert "not written twice" in told["note"]
    assert preview.will_do == ("tag_lead", "note_call")


# ---- Looking


def test_looking_reads_and_writes_nothing() -> None:
    crm = FakeCrm()
    known = crm.add(PHONE, tags=("dnd",))
    crm.notes[known.id] = [Note("n1", f"Inbound call\nCallbridge call {KEY}"), Note("n2", f"Callbridge call {KEY}0")]
    assert replay.look(crm, parked_entry()) == InCrm(found_id=known.id, tags=("dnd",), notes=1)
    assert crm.requests == ["find_contact", "list_notes"]


def test_a_deleted_contact_is_seen_to_be_gone() -> None:
    crm = FakeCrm()
    assert replay.look(crm, moves.adopt(parked_entry(), "c99", created=True)).is_gone


@pytest.mark.parametrize("request_name", ["find_contact", "list_notes"])
@pytest.mark.parametrize(
    "error", [Permanent("refused +15550101234", cause="crm.403", hint="Check GHL_TOKEN."), Transient("away", cause="crm.5xx")]
)
def test_a_crm_that_does_not_answer_is_the_answer(request_name: str, error: Exception) -> None:
    crm = FakeCrm()
    crm.add(PHONE)
    crm.refuse(request_name, error)
    failure = replay.look(crm, parked_entry()).failure
    assert failure is not None
    assert PHONE not in failure


def test_a_caller_without_a_number_is_not_searched_for() -> None:
    crm = FakeCrm()
    assert replay.look(crm, parked_entry(facts=make_call(caller=ANONYMOUS))) == InCrm()
    assert crm.requests == []


def test_do_not_disturb_on_the_contact_needs_a_reason() -> None:
    entry = parked_entry()
    preview = judged(entry, crm=InCrm(found_id="c1", is_opted_out=True))
    assert preview.needs_reason
    assert "do not disturb" in " ".join(check.say for check in preview.checks)


def test_the_age_limit_is_a_setting() -> None:
    entry = parked_entry()
    assert not judged(entry, now=entry.accepted_at + 60, fresh_s=100).needs_reason
    assert judged(entry, now=entry.accepted_at + 200, fresh_s=100).needs_reason


@pytest.mark.parametrize(("begun_s", "is_old"), [(FRESH_S + 1, True), (60.0, False), (-3600.0, False)], ids=["old", "recent", "future"])
def test_the_age_is_that_of_the_call_and_not_of_its_coming_in(begun_s: float, *, is_old: bool) -> None:
    """A call from a list has come in just now, however long ago somebody rang. A phone system's clock that is ahead makes none younger."""
    entry = parked_entry(facts=make_call(started_at=datetime.fromtimestamp(NOW - begun_s, UTC)))
    assert ("age" in judged(entry).doubts) is is_old
    assert "age" in judged(entry, now=NOW + FRESH_S + 1).doubts


def test_what_stopped_a_replay_still_stands_where_nobody_asks() -> None:
    entry = parked_entry()
    assert entry.trouble is not None
    back = replace(entry, trouble=replace(entry.trouble, word="replay.opted_out", message="The contact does not want to be contacted."))
    assert judged(back, crm=None).doubts == ("opted out",)
    assert judged(back, crm=InCrm(failure="away")).doubts == ("cause", "opted out")
    assert judged(back, crm=InCrm(found_id="c1")).doubts == ()


@pytest.mark.parametrize(
    ("crm", "say"), [(InCrm(is_gone=True), "if nothing is found, a new contact"), (InCrm(found_id="c2", is_gone=True), "leads to another")]
)
def test_of_a_contact_that_is_gone_it_is_told_what_follows(crm: InCrm, say: str) -> None:
    told = {check.name: check.say for check in judged(moves.adopt(parked_entry(), "c1", created=True), crm=crm).checks}
    assert say in told["gone"]


# ---- Looking at many


def calls_of(*phones: str) -> list[Entry]:
    caller = make_call().caller
    assert caller is not None
    facts = [make_call(root_id=f"CA{number}", caller=replace(caller, e164=phone)) for number, phone in enumerate(phones)]
    return [replace(parked_entry(facts=one), call_key=one.key) for one in facts]


def test_each_contact_is_asked_for_once_and_no_more_than_the_limit() -> None:
    crm = FakeCrm()
    entries = calls_of("+12025550101", "+12025550101", "+12025550102", "+12025550103", "+12025550101")
    told = replay.look_at_many(crm, entries, limit=2, within_s=60)
    assert crm.requests == ["find_contact", "find_contact"]
    assert list(told) == [entries[number].call_key for number in (0, 1, 2, 4)]


def test_a_first_look_is_made_however_short_the_time() -> None:
    assert len(replay.look_at_many(FakeCrm(), calls_of("+12025550101", "+12025550102"), limit=9, within_s=0)) == 1


def test_a_look_that_fails_is_the_last_and_costs_nothing_that_was_seen() -> None:
    crm = FakeCrm()
    entries = calls_of("+12025550101", "+12025550102", "+12025550103")
    crm.watch("find_contact", lambda: crm.refuse("find_contact", Transient("away", cause="crm.5xx")) if len(crm.requests) == 2 else None)
    told = replay.look_at_many(crm, entries, limit=9, within_s=60)
    assert (list(told), told[entries[0].call_key].failure) == ([entries[0].call_key], None)


def test_a_first_look_that_fails_says_why() -> None:
    crm = FakeCrm()
    crm.refuse("find_contact", Transient("away", cause="crm.5xx"))
    entries = calls_of("+12025550101", "+12025550102")
    assert [one.failure for one in replay.look_at_many(crm, entries, limit=9, within_s=60).values()] == ["away"]


@pytest.mark.parametrize(("cause", "says_why"), [("crm.budget", False), ("crm.daily_limit", True)])
def test_a_budget_that_is_spent_for_the_moment_is_no_cause_that_stands(cause: str, *, says_why: bool) -> None:
    crm = FakeCrm()
    crm.refuse("find_contact", NotYet("spent", cause=cause, retry_in=9.0))
    told = replay.look_at_many(crm, calls_of("+12025550101", "+12025550102"), limit=9, within_s=60)
    assert [one.failure for one in told.values()] == (["spent"] if says_why else [])


def test_a_contact_is_found_by_every_spelling_of_the_line() -> None:
    crm = FakeCrm()
    crm.add("+5491123456789", dnd=True)
    (entry,) = calls_of("+541123456789")
    assert replay.look(crm, entry).is_opted_out

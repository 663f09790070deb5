"""What is left to do for a call: something now, something later, or nothing and why."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from bridge.call import Caller, CallerKind, Input, Leg, Recording, Status, Transcript
from bridge.errors import WrongSettings
from bridge.ledger import moves
from bridge.ledger.entry import Entry, Plan
from bridge.settings import Settings
from handlers import note_call, steps
from handlers.no_lead import SHORT, SKIPPED, WHY_NO_LEAD
from tests.support.builders import ANONYMOUS, NOW, PHONE, make_call, make_entry, make_settings

RINGING = make_call(status=Status.RINGING)


def plan(entry: Entry, now: float = NOW, settings: Settings | None = None) -> Plan:
    return steps.planner(settings or make_settings())(entry, now)


def with_lead(**facts) -> Entry:
    entry = make_entry(**facts)
    return moves.record(moves.adopt(entry, "c1", created=True), "find_or_create_lead", NOW, version=1)


def all_done(**facts) -> Entry:
    entry = moves.record(with_lead(**facts), "tag_lead", NOW, version=1)
    return moves.record(entry, "note_call", NOW, version=1, result={"note_id": "n1", "digest": note_call.digest(entry.facts)})


def test_the_names_and_order_of_the_steps_never_change() -> None:
    assert [step.name for step in steps.STEPS] == ["find_or_create_lead", "tag_lead", "note_call"]


def test_a_new_call_needs_its_lead_before_anything_else() -> None:
    assert plan(make_entry()) == Plan(ready=("find_or_create_lead",))
    assert plan(make_entry(facts=RINGING)) == Plan(ready=("find_or_create_lead",)), "a lead does not wait for the end of its call"


def test_with_a_lead_it_needs_tags_and_a_note() -> None:
    assert plan(with_lead()) == Plan(ready=("tag_lead", "note_call"))


def test_the_note_waits_for_the_end_of_the_call() -> None:
    entry = moves.record(with_lead(facts=RINGING), "tag_lead", NOW, version=1)
    waiting = plan(entry)
    assert (waiting.ready, waiting.wait_until) == ((), NOW + 120)
    assert plan(entry, NOW + 120).ready == ("note_call",), "or for two minutes without news"
    assert plan(replace(entry, last_event_at=NOW + 50), NOW + 120).wait_until == NOW + 170


def test_nothing_is_left_when_all_steps_are_done() -> None:
    assert plan(all_done()) == Plan()


def test_news_that_change_the_note_make_work_and_others_do_not() -> None:
    entry = all_done()
    assert plan(replace(entry, facts=make_call(duration_s=61))).ready == ("note_call",)
    assert plan(replace(entry, facts=make_call(postcode="62701"))) == Plan()


@pytest.mark.parametrize("kind", [kind for kind in CallerKind if kind is not CallerKind.PSTN])
def test_a_caller_without_a_number_makes_no_lead_and_says_why(kind: CallerKind) -> None:
    entry = make_entry(facts=make_call(caller=Caller("x", kind)))
    assert plan(entry) == Plan(reason=WHY_NO_LEAD[kind])
    assert plan(entry, settings=make_settings(ANONYMOUS="lead")).ready == ("find_or_create_lead",)


def test_a_call_whose_caller_is_not_told_yet_waits_a_quarter_of_an_hour() -> None:
    entry = make_entry(facts=make_call(caller=None))
    assert plan(entry).wait_until == NOW + 900
    assert plan(entry, NOW + 900) == Plan(reason=WHY_NO_LEAD[CallerKind.EMPTY]), "its own event came, and nobody will name a caller"


def test_a_call_of_which_only_parts_were_heard_becomes_a_question() -> None:
    entry = make_entry(facts=make_call(caller=None, dialled=None))
    assert plan(entry, NOW + 900).ready == ("find_or_create_lead",)


def test_a_call_closed_by_a_person_needs_nothing() -> None:
    entry = replace(make_entry(), closed_by="anna", reason="called back")
    assert plan(entry) == Plan(reason="called back")


def test_without_tags_in_the_settings_there_is_nothing_to_tag() -> None:
    assert plan(with_lead(), settings=make_settings(LEAD_TAGS=",")).ready == ("note_call",)


def test_the_contact_that_collects_notes_is_not_tagged() -> None:
    settings = make_settings(ANONYMOUS="note_only", ANONYMOUS_CONTACT_ID="c1")
    assert plan(with_lead(facts=make_call(caller=ANONYMOUS)), settings=settings).ready == ("note_call",)


def test_a_lost_contact_starts_every_step_over() -> None:
    assert plan(moves.lose_contact(all_done())) == Plan(ready=("find_or_create_lead",))


# ---- Callers and calls that the owner does not want as leads

MEXICO, MEXICO_OLD = "+525512345678", "+5215512345678"
SHORT_ONES = make_settings(SHORT_CALL_S="3")
BEGAN = datetime(2026, 1, 15, 15, 0, tzinfo=UTC)


@pytest.mark.parametrize("listed", [PHONE, "1 555-010-1234", f"+15550101235, {PHONE}"])
def test_a_caller_on_the_list_makes_no_lead_and_says_why(listed: str) -> None:
    settings = make_settings(SKIPPED_CALLERS=listed)
    assert plan(make_entry(), settings=settings) == Plan(reason=SKIPPED)
    assert plan(make_entry(facts=RINGING), settings=settings) == Plan(reason=SKIPPED)
    assert plan(replace(make_entry(), is_replay=True), settings=settings) == Plan(reason=SKIPPED), (
        "to undo it, take the number off the list"
    )


def test_the_list_catches_no_neighbour() -> None:
    assert plan(make_entry(), settings=make_settings(SKIPPED_CALLERS="+15550101235")).ready == ("find_or_create_lead",)
    with pytest.raises(WrongSettings, match="SKIPPED_CALLERS"):
        make_settings(SKIPPED_CALLERS=PHONE[:-1])


@pytest.mark.parametrize("name", ["SKIPPED_CALLERS", "OWN_NUMBERS"])
@pytest.mark.parametrize(("listed", "rings"), [(MEXICO_OLD, MEXICO), (MEXICO, MEXICO), ("+5511955500123", "+551155500123")])
def test_a_listed_line_is_known_in_each_of_its_spellings(name: str, listed: str, rings: str) -> None:
    entry = make_entry(facts=make_call(caller=Caller(rings, CallerKind.PSTN, rings)))
    assert name in (plan(entry, settings=make_settings(**{name: listed})).reason or "")


def test_by_default_the_shortest_call_is_a_lead() -> None:
    assert plan(make_entry(facts=make_call(duration_s=0))).ready == ("find_or_create_lead",)


@pytest.mark.parametrize(
    "lasted",
    [
        {"duration_s": 0},
        {"duration_s": 2},
        {"answered_at": BEGAN, "ended_at": BEGAN + timedelta(seconds=2)},
        {"started_at": BEGAN, "ended_at": BEGAN + timedelta(seconds=2)},
        {"duration_s": 2, "inputs": (Input("digits", ""),), "transcripts": (Transcript("t", " "),)},
        {"duration_s": 2, "recordings": (Recording("RE1", "https://r.example.com/1", 2),)},
    ],
)
def test_a_short_call_makes_no_lead_where_the_owner_says_so(lasted: dict[str, object]) -> None:
    assert plan(make_entry(facts=make_call(**lasted)), settings=SHORT_ONES) == Plan(reason=SHORT)


@pytest.mark.parametrize(
    "facts",
    [
        {"duration_s": 3},
        {"duration_s": None},
        {"duration_s": None, "ended_at": BEGAN},
        {"duration_s": 0, "status": Status.CANCELED},
        {"duration_s": 0, "status": Status.NO_ANSWER},
        {"duration_s": 2, "inputs": (Input("digits", "1"),)},
        {"duration_s": 2, "transcripts": (Transcript("t", "call me"),)},
        {"duration_s": 2, "legs": (Leg("CA2"),)},
        {"duration_s": 2, "recordings": (Recording("RE1", "https://r.example.com/1"),)},
        {"duration_s": 2, "recordings": (Recording("RE1", "https://r.example.com/1", 3),)},
        {"status": Status.RINGING, "inputs": (Input("speech", "hello"),)},
    ],
)
def test_whoever_was_not_answered_or_took_part_is_a_lead(facts: dict[str, object]) -> None:
    assert plan(make_entry(facts=make_call(**facts)), settings=SHORT_ONES).ready == ("find_or_create_lead",)


def test_with_that_rule_the_lead_waits_for_the_end_of_the_call_and_not_for_ever() -> None:
    entry = make_entry(facts=RINGING)
    assert plan(entry, settings=SHORT_ONES).wait_until == NOW + 120
    assert plan(entry, NOW + 120, settings=SHORT_ONES).ready == ("find_or_create_lead",)


def test_a_person_who_replays_a_short_call_makes_it_a_lead() -> None:
    entry = make_entry(facts=make_call(duration_s=2), is_replay=True)
    assert plan(entry, settings=SHORT_ONES).ready == ("find_or_create_lead",)

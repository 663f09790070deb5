"""What a person may do to an entry: pure, by tables."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bridge.errors import WrongMove
from bridge.ledger import by_hand, moves
from bridge.ledger.entry import DUE_IN_S, Cause, Entry, State
from tests.support.builders import NOW, done_entry, parked_entry, queued_entry, running_entry

STEPS = ("find_or_create_lead", "tag_lead", "note_call")


def worked(entry: Entry, *steps: str) -> Entry:
    for step in steps:
        entry = moves.record(entry, step, NOW, version=1)
    return replace(entry, contact_id="c1", contact_created=True)


def test_a_replay_waits_for_its_turn_and_has_a_fresh_budget() -> None:
    parked = replace(parked_entry(), spent=16, deaths=2, unreported=True)
    back = by_hand.replay(parked, NOW + 5, start_at=NOW + 9)
    assert (back.state, back.next_try_at, back.queued_at, back.waiting_for) == (State.ACCEPTED, NOW + 9, None, "replay")
    assert (back.spent, back.deaths, back.trouble, back.unreported) == (0, 0, None, False)
    assert back.look_at == NOW + 9, "the sweeper starts it"


def test_a_replay_of_an_uncertain_create_is_the_answer_to_it() -> None:
    assert by_hand.replay(parked_entry(Cause.UNCERTAIN), NOW + 5, start_at=NOW + 5).answered_at == NOW + 5


@pytest.mark.parametrize("entry", [queued_entry(), running_entry()])
def test_what_is_under_way_cannot_be_replayed(entry: Entry) -> None:
    with pytest.raises(WrongMove, match="already"):
        by_hand.replay(entry, NOW, start_at=NOW)


def test_what_was_done_stays_done_in_a_replay() -> None:
    parked = worked(parked_entry(), "find_or_create_lead", "tag_lead")
    assert by_hand.replay(parked, NOW, start_at=NOW).steps == parked.steps


@pytest.mark.parametrize(
    ("step", "kept", "contact"),
    [("find_or_create_lead", [], None), ("tag_lead", STEPS[:1], "c1"), ("note_call", STEPS[:2], "c1")],
)
def test_a_replay_from_a_step_forgets_it_and_those_behind_it(step: str, kept: list[str], contact: str | None) -> None:
    back = by_hand.replay(worked(done_entry(), *STEPS), NOW, start_at=NOW, from_step=step, order=STEPS)
    assert list(back.steps) == list(kept)
    assert back.contact_id == contact
    assert back.notes_unknown, "the note that is there already is looked for"


def test_an_adopted_contact_is_the_calls_and_the_rest_is_done_on_it() -> None:
    adopted = by_hand.adopt(replace(worked(parked_entry(), *STEPS), intents={"note_call": NOW}), NOW, "c2", start_at=NOW)
    assert (adopted.contact_id, adopted.contact_created, adopted.intents) == ("c2", False, {})
    assert list(adopted.steps) == ["find_or_create_lead"]
    assert adopted.notes_unknown


def test_only_what_needs_attention_is_closed_by_hand() -> None:
    closed = by_hand.close(parked_entry(), reason="rang them", by="otto")
    assert (closed.state, closed.reason, closed.closed_by, closed.trouble) == (State.DONE, "rang them", "otto", None)
    with pytest.raises(WrongMove):
        by_hand.close(running_entry(), reason="r", by="otto")


def test_a_new_owner_has_time_to_act() -> None:
    given = by_hand.assign(parked_entry(), NOW + 100, "bert")
    assert given.trouble is not None
    assert (given.owner, given.trouble.due_at) == ("bert", NOW + 100 + DUE_IN_S)
    assert by_hand.assign(done_entry(), NOW, "bert").owner == "bert"


def test_every_move_makes_the_mark_of_a_page_stale() -> None:
    parked = parked_entry()
    moved = [by_hand.replay(parked, NOW, start_at=NOW), by_hand.close(parked, reason="r", by="o"), replace(parked, version=2), done_entry()]
    assert by_hand.mark(parked) not in {by_hand.mark(entry) for entry in moved}

"""Every allowed and every forbidden move, and what an entry carries from one state to the next."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bridge.call import Caller, CallerKind, Status
from bridge.errors import Fenced, WrongMove
from bridge.ledger import moves
from bridge.ledger.entry import LEASE_GRACE_S, Cause, Entry, Plan, Seen, State, Taken
from tests.support.builders import (
    NOW,
    done_entry,
    entry_in,
    make_call,
    make_entry,
    make_trouble,
    parked_entry,
    queued_entry,
    running_entry,
)

A, R, D, N = State.ACCEPTED, State.RUNNING, State.DONE, State.NEEDS_ATTENTION
ALLOWED = {(A, A), (A, R), (A, N), (R, R), (R, A), (R, D), (R, N), (D, D), (D, A), (D, N), (N, N), (N, A), (N, D)}
OTHER = Caller("+15550105678", CallerKind.PSTN, "+15550105678")


def seen(fingerprint: str, at: float = NOW) -> Seen:
    return Seen(fingerprint, "status", at)


@pytest.mark.parametrize("old", State)
@pytest.mark.parametrize("new", State)
def test_the_table_knows_every_move(old: State, new: State) -> None:
    entry = replace(make_entry(), state=old)
    if (old, new) in ALLOWED:
        assert moves.move(entry, new).state is new
    else:
        with pytest.raises(WrongMove, match=f"no move from {old} to {new}"):
            moves.move(entry, new)


@pytest.mark.parametrize(
    ("move", "allowed"),
    [
        (lambda entry: moves.begin(entry, NOW, lease_s=30, worker="w2"), {A, R}),
        (lambda entry: moves.finish(entry, Plan(), NOW), {R, D, N}),
        (lambda entry: moves.park(entry, NOW, make_trouble()), {A, R, D, N}),
        (lambda entry: moves.replay(entry, NOW), {A, R, D, N}),
        (lambda entry: moves.close(entry, reason="by phone", by="anna"), {R, D, N}),
    ],
    ids=["begin", "finish", "park", "replay", "close"],
)
@pytest.mark.parametrize("state", State)
def test_moves_outside_the_table_are_errors(move, allowed: set[State], state: State) -> None:
    entry = entry_in(state)
    if state in allowed:
        assert move(entry).state in State
    else:
        with pytest.raises(WrongMove):
            move(entry)


# ---- Events


def test_the_same_event_again_leaves_the_very_entry() -> None:
    entry = make_entry(events=(seen("f1"),))
    taken, after = moves.take(entry, make_call(), seen("f1", NOW + 5))
    assert taken is Taken.REPEAT
    assert after is entry


def test_an_event_that_tells_nothing_new_leaves_the_version() -> None:
    taken, after = moves.take(make_entry(events=(seen("f1"),)), make_call(), seen("f2"))
    assert taken is Taken.REPEAT
    assert after.version == 1
    assert [event.fingerprint for event in after.events] == ["f1", "f2"]


def test_news_are_merged_into_a_new_version() -> None:
    entry = make_entry(facts=make_call(status=Status.RINGING))
    taken, after = moves.take(entry, make_call(), seen("f2", NOW + 5))
    assert taken is Taken.NEWS
    assert (after.version, after.facts.status, after.last_event_at) == (2, Status.COMPLETED, NOW + 5)
    assert after.state is State.ACCEPTED


def test_the_events_of_a_call_are_bounded() -> None:
    entry = make_entry()
    for number in range(moves.EVENTS_KEPT + 10):
        _, entry = moves.take(entry, make_call(duration_s=number), seen(f"f{number}"))
    assert len(entry.events) == moves.EVENTS_KEPT
    assert entry.version == moves.EVENTS_KEPT + 11


@pytest.mark.parametrize("state", State)
def test_a_conflict_keeps_both_versions_and_asks_a_person(state: State) -> None:
    entry = entry_in(state)
    taken, after = moves.take(entry, make_call(caller=OTHER), seen("f2"))
    assert taken is Taken.CONFLICT
    assert after.state is State.NEEDS_ATTENTION
    assert after.facts == entry.facts
    assert [call.caller for call in after.conflicts] == [OTHER]
    assert after.trouble is not None
    assert after.trouble.cause is Cause.CONFLICT
    assert after.unreported
    assert after.queued_at is not None


def test_a_conflict_that_is_shown_already_is_not_reported_again() -> None:
    _, parked = moves.take(queued_entry(), make_call(caller=OTHER), seen("f2"))
    heard = moves.reported(parked)
    taken, after = moves.take(heard, make_call(caller=OTHER, status=Status.BUSY), seen("f3", NOW + 9))
    assert taken is Taken.CONFLICT
    assert len(after.conflicts) == 2
    assert not after.unreported
    assert after.queued_at is None
    assert after.trouble == heard.trouble


def test_a_conflict_fences_the_running_attempt_off() -> None:
    running = running_entry()
    _, after = moves.take(running, make_call(dialled="+15550100000"), seen("f2"))
    assert after.attempts[-1].outcome == "parked"
    with pytest.raises(Fenced):
        moves.held(after, running.attempt)


# ---- What happens next

READY = Plan(ready=("note_call",))
WAIT = Plan(wait_until=NOW + 60, waiting_for="the call goes on")


def paused_entry() -> Entry:
    return moves.wait(running_entry(), NOW, delay=40, spend=True, cause="crm.5xx", message="down", step=None, trace_id=None)


def waiting_entry() -> Entry:
    return moves.finish(running_entry(), WAIT, NOW)


@pytest.mark.parametrize(
    ("entry", "plan", "state", "queued", "next_try_at"),
    [
        (make_entry(), READY, A, True, None),
        (make_entry(), Plan(reason="withheld"), A, True, None),
        (make_entry(), WAIT, A, False, NOW + 60),
        (waiting_entry(), READY, A, True, None),
        (waiting_entry(), WAIT, A, False, NOW + 60),
        (done_entry(), READY, A, True, None),
        (done_entry(), WAIT, A, False, NOW + 60),
        (done_entry(), Plan(), D, False, None),
        (paused_entry(), READY, A, False, NOW + 40),
        (running_entry(), READY, R, False, None),
        (parked_entry(), READY, N, False, None),
    ],
)
def test_an_entry_is_put_where_it_belongs(entry: Entry, plan: Plan, state: State, queued: bool, next_try_at: float | None) -> None:
    after = moves.arrange(entry, plan, NOW + 1)
    assert (after.state, after.queued_at is not None, after.next_try_at) == (state, queued, next_try_at)


def test_a_queued_entry_is_not_queued_twice() -> None:
    entry = queued_entry()
    assert moves.arrange(entry, READY, NOW + 5) is entry


def test_only_a_queued_entry_or_one_whose_lease_is_over_may_begin() -> None:
    assert moves.may_begin(queued_entry(), NOW)
    assert not moves.may_begin(make_entry(), NOW)
    assert not moves.may_begin(paused_entry(), NOW)
    assert not moves.may_begin(done_entry(), NOW)
    assert not moves.may_begin(parked_entry(), NOW)
    running = running_entry()
    assert running.lease_until == NOW + 30
    assert not moves.may_begin(running, NOW + 30)
    assert moves.may_begin(running, NOW + 30 + LEASE_GRACE_S)


def test_an_attempt_is_written_before_its_first_effect() -> None:
    entry = running_entry()
    (attempt,) = entry.attempts
    assert (entry.state, entry.attempt, entry.queued_at, entry.next_try_at) == (R, 1, None, None)
    assert (attempt.number, attempt.began_at, attempt.worker, attempt.outcome) == (1, NOW, "w1", None)


def test_an_attempt_that_begins_over_a_dead_one_says_so() -> None:
    after = moves.begin(running_entry(), NOW + 40, lease_s=30, worker="w2")
    assert [(attempt.number, attempt.outcome) for attempt in after.attempts] == [(1, "died"), (2, None)]
    assert (after.attempt, after.deaths) == (2, 1)


def test_an_attempt_number_is_a_fencing_token() -> None:
    first = running_entry()
    second = moves.begin(first, NOW + 40, lease_s=30, worker="w2")
    assert moves.held(second, 2) is second
    for entry in (second, done_entry(), parked_entry(), None):
        with pytest.raises(Fenced):
            moves.held(entry, 1)


def test_the_attempts_of_a_call_are_bounded() -> None:
    entry = queued_entry()
    for _ in range(moves.ATTEMPTS_KEPT + 5):
        entry = moves.begin(entry, NOW, lease_s=30, worker="w")
        entry = moves.queue(moves.wait(entry, NOW, delay=1, spend=False, cause="c", message="m", step=None, trace_id=None), NOW)
    assert len(entry.attempts) == moves.ATTEMPTS_KEPT
    assert entry.attempts[-1].number == moves.ATTEMPTS_KEPT + 5


def test_a_step_done_closes_its_intent_and_a_series_of_deaths() -> None:
    entry = moves.intend(replace(running_entry(), deaths=2), "note_call", NOW)
    assert entry.intents == {"note_call": NOW}
    after = moves.record(entry, "note_call", NOW + 1, version=1, result={"note_id": "n1"})
    assert (after.intents, after.deaths) == ({}, 0)
    assert after.steps["note_call"].result == {"note_id": "n1"}


def test_a_withdrawn_intent_leaves_the_others() -> None:
    entry = moves.intend(moves.intend(running_entry(), "a", NOW), "b", NOW)
    assert moves.withdraw(moves.withdraw(entry, "a"), "a").intents == {"b": NOW}


def test_finishing_with_nothing_left_is_done() -> None:
    entry = moves.finish(replace(running_entry(), spent=3, deaths=1, suspect_since=NOW), Plan(reason="withheld"), NOW + 2)
    assert (entry.state, entry.reason, entry.spent, entry.deaths, entry.suspect_since) == (D, "withheld", 0, 0, None)
    assert (entry.attempts[-1].outcome, entry.attempts[-1].ended_at, entry.lease_until) == ("done", NOW + 2, None)


def test_finishing_with_something_later_waits_for_it() -> None:
    entry = waiting_entry()
    assert (entry.state, entry.next_try_at, entry.waiting_for) == (A, NOW + 60, "the call goes on")
    assert entry.look_at == NOW + 60


@pytest.mark.parametrize("spend", [True, False])
def test_only_a_try_that_counts_is_spent(spend: bool) -> None:
    running = replace(running_entry(), spent=2)
    entry = moves.wait(running, NOW, delay=7, spend=spend, cause="crm.429", message="busy", step="note_call", trace_id="t1")
    assert entry.spent == 2 + spend
    attempt = entry.attempts[-1]
    assert (attempt.outcome, attempt.step, attempt.cause, attempt.trace_id, attempt.next_try_at) == (
        "again",
        "note_call",
        "crm.429",
        "t1",
        NOW + 7,
    )


def test_the_third_death_in_a_row_asks_a_person() -> None:
    entry = running_entry()
    for deaths in (1, 2):
        entry = moves.put_back(entry, NOW)
        assert (entry.state, entry.deaths, entry.attempts[-1].outcome) == (A, deaths, "died")
        entry = moves.begin(moves.queue(entry, NOW), NOW, lease_s=30, worker="w")
    entry = moves.put_back(entry, NOW)
    assert entry.state is N
    assert entry.trouble is not None
    assert (entry.trouble.cause, entry.trouble.word) == (Cause.EXHAUSTED, "worker.died")
    assert entry.unreported


def test_a_parked_attempt_keeps_its_step_and_the_trace_id() -> None:
    entry = moves.park(running_entry(), NOW + 1, make_trouble(), step="note_call", trace_id="t9")
    attempt = entry.attempts[-1]
    assert (attempt.outcome, attempt.step, attempt.cause, attempt.trace_id) == ("parked", "note_call", "crm.403", "t9")
    assert (entry.lease_until, entry.queued_at, entry.look_at) == (None, None, None)


def test_parking_what_does_not_run_leaves_its_attempts() -> None:
    assert moves.park(paused_entry(), NOW, make_trouble()).attempts == paused_entry().attempts


def test_a_replay_gives_a_fresh_budget_and_keeps_what_is_done() -> None:
    parked = replace(moves.record(parked_entry(), "tag_lead", NOW, version=1), spent=5, deaths=2)
    entry = moves.replay(parked, NOW + 9)
    assert (entry.state, entry.trouble, entry.spent, entry.deaths, entry.queued_at) == (A, None, 0, 0, NOW + 9)
    assert "tag_lead" in entry.steps
    assert entry.answered_at is None


def test_the_replay_of_an_uncertain_call_is_an_answer() -> None:
    assert moves.replay(parked_entry(Cause.UNCERTAIN), NOW + 9).answered_at == NOW + 9


def test_a_replay_takes_back_that_a_call_was_closed() -> None:
    closed = moves.close(parked_entry(), reason="by phone", by="anna")
    entry = moves.replay(closed, NOW)
    assert (entry.closed_by, entry.reason) == (None, None)


def test_a_closed_call_is_done_by_hand() -> None:
    entry = moves.close(parked_entry(), reason="called back", by="anna")
    assert (entry.state, entry.reason, entry.closed_by, entry.trouble, entry.look_at) == (D, "called back", "anna", None, None)


def test_a_lost_contact_is_forgotten_and_remembered_as_lost() -> None:
    entry = moves.record(moves.adopt(running_entry(), "c1", created=True), "note_call", NOW, version=1)
    after = moves.lose_contact(moves.intend(entry, "note_call", NOW))
    assert (after.contact_id, after.contact_created, after.lost_contact_id) == (None, False, "c1")
    assert (after.steps, after.intents, after.notes_unknown) == ({}, {}, True)
    assert moves.lose_contact(after).lost_contact_id == "c1", "written again when the first answer was lost"


def test_the_words_of_a_write_are_known_until_its_outcome_is() -> None:
    announced = moves.intend(moves.intend(running_entry(), "note_call", NOW, words="abc"), "callback", NOW)
    assert (announced.announced, set(announced.intents)) == ({"note_call": "abc"}, {"note_call", "callback"})
    assert moves.withdraw(announced, "callback").announced == {"note_call": "abc"}
    assert moves.withdraw(announced, "note_call").announced == {}
    assert moves.record(announced, "note_call", NOW, version=1).announced == {}
    assert moves.lose_contact(announced).announced == {}

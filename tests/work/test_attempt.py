"""One run of the job: what it writes before and after, and what follows from everything that can go wrong in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
import redis
from rq.exceptions import ShutDownImminentException
from rq.timeouts import JobTimeoutException

from bridge.call import Caller, CallerKind, Recording, Status
from bridge.errors import Gone, NotYet, Permanent, StepFailed, Transient, Uncertain
from bridge.ledger import moves
from bridge.ledger.entry import Cause, Entry, Plan, State
from bridge.work.attempt import ROUNDS, Work
from tests.support.builders import KEY, NOW, make_call, make_trouble, queued_entry
from tests.support.house import House

SECRET_NUMBER = "+1 555 010 1234"


@dataclass(frozen=True)
class Act:
    """A step of the test's own."""

    name: str
    run: Callable[[Work], None]


@pytest.fixture
def house(connection: redis.Redis) -> House:
    return House(connection, MAX_ATTEMPTS="3")


def with_steps(house: House, *steps: Act) -> House:
    """The house with steps of the test: each is ready until it is recorded."""

    def plan(entry: Entry, _now: float) -> Plan:
        return Plan(ready=tuple(step.name for step in steps if step.name not in entry.steps))

    house.needs = replace(house.needs, plan=plan, steps=steps)
    house.put(queued_entry())
    return house


def failing(error: BaseException) -> Act:
    def run(_work: Work) -> None:
        raise error

    return Act("fail", run)


def recording(name: str) -> Act:
    return Act(name, lambda work: work.record(name))


# ---- Without faults


def test_a_call_becomes_a_tagged_lead_with_one_note(house: House) -> None:
    house.accept(make_call())
    house.run()
    entry = house.entry()
    assert (entry.state, entry.trouble, list(entry.steps)) == (State.DONE, None, ["find_or_create_lead", "tag_lead", "note_call"])
    assert house.crm.requests == ["find_contact", "create_contact", "add_note"]
    (contact,) = house.crm.contacts.values()
    assert entry.contact_id == contact.id
    assert [attempt.outcome for attempt in entry.attempts] == ["done"]
    assert house.told() == ["event new", "attempt began", "lead", "note written", "attempt ended"]
    assert (house.counted("attempts"), house.counted("done")) == (1, 1)


def test_a_second_run_changes_nothing(house: House) -> None:
    house.accept(make_call())
    house.run()
    before, requests = house.entry(), list(house.crm.requests)
    house.run()
    house.run("twilio-unknown")
    assert (house.entry(), house.crm.requests) == (before, requests)


def test_a_later_attempt_starts_at_the_first_step_not_done(house: House) -> None:
    runs: list[str] = []
    second = Act("second", lambda work: runs.append("second") or work.record("second"))
    broken = Act("broken", lambda work: runs.append("broken") or (work.record("broken") if len(runs) > 2 else failing(down()).run(work)))
    with_steps(house, Act("first", lambda work: runs.append("first") or work.record("first")), broken, second)
    house.run()
    house.run_again()
    assert runs == ["first", "broken", "broken", "second"]
    assert house.entry().state is State.DONE


def down(**details) -> Transient:
    return Transient("the CRM is down", cause="crm.5xx", **details)


# ---- News while it runs


def test_news_that_come_while_a_call_runs_are_brought_by_the_same_attempt(house: House) -> None:
    house.accept(make_call())
    late = make_call(recordings=(Recording("RE1", "https://r.example.com/1"),))
    house.crm.watch("add_note", lambda: house.accept(late))
    house.run()
    entry = house.entry()
    assert (entry.state, entry.version, len(entry.attempts)) == (State.DONE, 2, 1)
    (body,) = house.crm.bodies("c1")
    assert "https://r.example.com/1" in body
    assert house.crm.requests[-3:] == ["add_note", "get_note", "update_note"]


def test_a_call_that_never_stops_changing_is_handed_back_at_no_cost(house: House) -> None:
    ran: list[int] = []
    restless = Act("restless", lambda _work: ran.append(1))
    with_steps(house, restless)
    house.run()
    entry = house.entry()
    assert len(ran) == ROUNDS
    assert (entry.state, entry.waiting_for, entry.next_try_at, entry.spent) == (State.ACCEPTED, "call.news", NOW + 1, 0)


def test_a_call_that_goes_on_waits_for_its_end(house: House) -> None:
    house.accept(make_call(status=Status.RINGING))
    house.run()
    entry = house.entry()
    assert (entry.state, entry.next_try_at) == (State.ACCEPTED, NOW + house.settings.note_wait_s)
    assert entry.waiting_for == "the call is still going on; its note is written when it is over"
    assert house.crm.bodies("c1") == []


# ---- Errors


@pytest.mark.parametrize(
    ("error", "cause", "spent", "delay"),
    [
        (down(), "crm.5xx", 1, 1.0),
        (down(retry_in=40), "crm.5xx", 1, 42.0),
        (Uncertain("lost", cause="crm.timeout"), "crm.timeout", 1, 1.0),
        (NotYet("budget", cause="crm.budget", retry_in=3), "crm.budget", 0, 3.0),
        (redis.ConnectionError("away"), "redis", 1, 1.0),
        (JobTimeoutException("over"), "worker.timeout", 1, 1.0),
        (ShutDownImminentException("shutting down", {}), "worker.shutdown", 0, 0.0),
    ],
)
def test_what_can_be_mended_is_written_down_and_returns(house: House, error: BaseException, cause: str, spent: int, delay: float) -> None:
    with_steps(house, failing(error)).run()
    entry = house.entry()
    assert (entry.state, entry.spent, entry.next_try_at, entry.waiting_for) == (State.ACCEPTED, spent, NOW + delay, cause)
    attempt = entry.attempts[-1]
    assert (attempt.outcome, attempt.step, attempt.cause, attempt.ended_at) == ("again", "fail", cause, NOW)
    assert house.counted("again") == 1


@pytest.mark.parametrize(
    ("error", "cause", "word"),
    [
        (Permanent("no access", cause="crm.403", hint="check", trace_id="t1"), Cause.PERMANENT, "crm.403"),
        (Gone("gone", cause="crm.gone"), Cause.PERMANENT, "crm.gone"),
        (KeyError("surprise"), Cause.PERMANENT, "bug.KeyError"),
    ],
)
def test_what_cannot_be_mended_is_parked_and_raised(house: House, error: Exception, cause: Cause, word: str) -> None:
    with_steps(house, failing(error))
    with pytest.raises(Permanent) as raised:
        house.run()
    assert raised.value.cause == word
    entry = house.entry()
    assert entry.trouble is not None
    assert (entry.state, entry.trouble.cause, entry.trouble.word) == (State.NEEDS_ATTENTION, cause, word)
    assert (entry.attempts[-1].outcome, entry.attempts[-1].step, entry.attempts[-1].trace_id) == (
        "parked",
        "fail",
        getattr(error, "trace_id", None),
    )
    assert not entry.unreported, "the raise itself is the report"
    assert house.counted("parked") == 1


def test_a_fault_of_our_own_keeps_its_traceback_and_names_no_value(house: House) -> None:
    with_steps(house, failing(KeyError(SECRET_NUMBER)))
    with pytest.raises(Permanent) as raised:
        house.run()
    assert isinstance(raised.value.__cause__, KeyError)
    assert "010" not in str(raised.value)
    assert "Callbridge" in raised.value.hint


def test_a_spent_budget_is_parked_as_exhausted_and_raised(house: House) -> None:
    with_steps(house, failing(down(trace_id="t7")))
    house.run()
    house.run_again()
    house.requeue()
    with pytest.raises(Transient):
        house.run()
    entry = house.entry()
    assert entry.trouble is not None
    assert (entry.trouble.cause, entry.trouble.word, entry.attempt) == (Cause.EXHAUSTED, "crm.5xx", 3)
    assert "replay" in entry.trouble.hint


def test_a_replay_gives_a_fresh_budget(house: House) -> None:
    test_a_spent_budget_is_parked_as_exhausted_and_raised(house)
    house.change(moves.replay)
    house.run()
    assert (house.entry().state, house.entry().spent) == (State.ACCEPTED, 1)


def test_numbers_in_a_message_are_masked_wherever_it_is_kept(house: House) -> None:
    with_steps(house, failing(Permanent(f"no contact for {SECRET_NUMBER}", cause="crm.400")))
    with pytest.raises(Permanent):
        house.run()
    entry = house.entry()
    assert entry.trouble is not None
    kept = [entry.trouble.message, entry.attempts[-1].message, *(line.get("message", "") for line in house.store.trail(KEY))]
    assert not any("0101234" in (text or "").replace(" ", "") for text in kept)


# ---- What somebody else parked


def test_a_conflict_is_reported_once_through_the_job(house: House) -> None:
    house.accept(make_call())
    house.accept(make_call(caller=Caller("+15550105678", CallerKind.PSTN, "+15550105678")))
    with pytest.raises(Permanent) as raised:
        house.run()
    assert raised.value.cause == "call.conflict"
    assert "replay" in raised.value.hint
    house.run()
    entry = house.entry()
    assert (entry.state, entry.unreported, entry.look_at, entry.attempt) == (State.NEEDS_ATTENTION, False, None, 0)
    assert house.crm.requests == []


def test_a_call_that_died_three_times_is_reported_through_its_job(house: House) -> None:
    with_steps(house, recording("x"))
    for _ in range(3):
        house.change(lambda entry, now: moves.begin(moves.queue(moves.move(entry, State.ACCEPTED), now), now, lease_s=30, worker="w"))
        house.change(moves.put_back)
    with pytest.raises(Permanent) as raised:
        house.run()
    assert raised.value.cause == "worker.died"


# ---- Fencing


def test_an_attempt_that_was_taken_over_writes_nothing_more(house: House) -> None:
    def lose(work: Work) -> None:
        house.change(lambda entry, now: moves.begin(entry, now, lease_s=30, worker="other"))
        work.record("x")

    with_steps(house, Act("x", lose)).run()
    entry = house.entry()
    assert (entry.state, entry.attempt, entry.steps) == (State.RUNNING, 2, {})


def test_the_error_of_a_fenced_attempt_is_not_written(house: House) -> None:
    def lose(_work: Work) -> None:
        house.change(lambda entry, now: moves.begin(entry, now, lease_s=30, worker="other"))
        raise Permanent("too late", cause="crm.403")

    with_steps(house, Act("x", lose)).run()
    assert (house.entry().state, house.entry().trouble) == (State.RUNNING, None)


def test_a_job_that_comes_while_another_attempt_runs_does_nothing(house: House) -> None:
    inner: list[State] = []

    def twice(work: Work) -> None:
        house.run()
        inner.append(house.entry().state)
        work.record("x")

    with_steps(house, Act("x", twice)).run()
    assert inner == [State.RUNNING]
    assert (house.entry().state, house.entry().attempt) == (State.DONE, 1)


def test_a_conflict_stops_the_attempt_before_its_next_write(house: House) -> None:
    house.accept(make_call())
    house.crm.watch("find_contact", lambda: house.accept(make_call(dialled="+15550100000")))
    house.run()
    assert house.crm.requests == ["find_contact", "create_contact"]
    assert house.entry().state is State.NEEDS_ATTENTION
    assert house.claims.acquire("loc1", "+15550101234", owner="x").contact_id == "c1", "the claim remembers what the entry may not"


# ---- Intents


def send(work: Work, request: Callable[[], None]) -> None:
    work.send("write", request)
    work.record("write")


def test_an_intent_is_written_before_the_request(house: House) -> None:
    seen: list[dict] = []
    with_steps(house, Act("write", lambda work: send(work, lambda: seen.append(dict(house.entry().intents))))).run()
    assert seen == [{"write": NOW}]
    assert house.entry().intents == {}


@pytest.mark.parametrize(
    ("error", "is_open"),
    [
        (Uncertain("lost", cause="crm.timeout"), True),
        (ShutDownImminentException("now", {}), True),
        (ValueError("bug"), True),
        (down(), False),
        (NotYet("budget", cause="crm.budget", retry_in=1), False),
        (Permanent("refused", cause="crm.400"), False),
    ],
)
def test_an_intent_stays_open_exactly_while_its_outcome_is_unknown(house: House, error: BaseException, is_open: bool) -> None:
    def request() -> None:
        raise error

    with_steps(house, Act("write", lambda work: send(work, request)))
    try:
        house.run()
    except StepFailed:
        assert house.entry().state is State.NEEDS_ATTENTION
    assert ("write" in house.entry().intents) is is_open


def test_a_parked_call_keeps_its_open_intent_for_the_replay(house: House) -> None:
    test_an_intent_stays_open_exactly_while_its_outcome_is_unknown(house, ValueError("bug"), is_open=True)
    house.change(moves.replay)
    assert "write" in house.entry().intents


# ---- Leases


def test_a_request_leaves_only_while_the_lease_outlives_it(house: House) -> None:
    leases: list[float | None] = []

    def late(work: Work) -> None:
        work.before_request(13.05)
        leases.append(house.entry().lease_until)
        house.clock.advance(20)
        house.monotonic.advance(20)
        work.before_request(13.05)
        leases.append(house.entry().lease_until)
        work.record("x")

    with_steps(house, Act("x", late)).run()
    assert leases == [NOW + 30, NOW + 50]


def test_the_attempt_renews_its_claim_before_a_request(house: House) -> None:
    def late(work: Work) -> None:
        claim = work.claims.acquire("loc1", "+1", owner=work.owner)
        work.hold(claim)
        house.clock.advance(10)
        house.monotonic.advance(10)
        work.before_request(13.05)
        assert float(house.connection.hget(claim.name, "lease_until") or 0) == pytest.approx(house.clock.at + 15.05)
        work.hold(None)
        work.record("x")

    with_steps(house, Act("x", late)).run()
    assert house.entry().state is State.DONE


def test_a_request_whose_claim_was_lost_does_not_leave(house: House) -> None:
    sent: list[int] = []

    def late(work: Work) -> None:
        work.hold(work.claims.acquire("loc1", "+1", owner=work.owner))
        house.clock.advance(16)
        house.monotonic.advance(16)
        house.claims.acquire("loc1", "+1", owner="another/1")
        work.before_request(13.05)
        sent.append(1)

    with_steps(house, Act("x", late)).run()
    assert sent == []
    assert house.entry().state is State.RUNNING, "left for the sweeper"


def test_the_owner_of_a_claim_is_the_attempt_and_not_the_call(house: House) -> None:
    owners: list[str] = []
    with_steps(house, Act("x", lambda work: owners.append(work.owner) or failing(down()).run(work)))
    house.run()
    house.run_again()
    assert owners == [f"{KEY}/1", f"{KEY}/2"]


# ---- A contact that is gone


def run_until_believed(house: House) -> None:
    """A contact that was created just now is not given up before the schedule is over: it may only not show yet."""
    house.run()
    while house.entry().state is State.ACCEPTED:
        house.run_again()


def test_a_contact_that_is_gone_is_resolved_anew_once(house: House) -> None:
    house.accept(make_call())
    house.crm.watch("add_note", lambda: house.crm.delete("c1") if "c1" in house.crm.contacts else None)
    run_until_believed(house)
    entry = house.entry()
    assert (entry.state, entry.lost_contact_id) == (State.DONE, "c1")
    assert entry.contact_id not in {None, "c1"}
    assert [len(notes) for notes in house.crm.notes.values()] == [1]
    assert "contact gone" in house.told()


def test_a_contact_that_is_gone_twice_is_for_a_person(house: House) -> None:
    house.accept(make_call())
    house.crm.watch("add_note", lambda: [house.crm.delete(contact_id) for contact_id in list(house.crm.contacts)])
    with pytest.raises(Gone):
        run_until_believed(house)
    entry = house.entry()
    assert entry.trouble is not None
    assert (entry.state, entry.trouble.word) == (State.NEEDS_ATTENTION, "crm.gone")
    assert [attempt.cause for attempt in entry.attempts] == ["settle.contact"] * 4 + ["crm.gone"]


def test_a_person_who_closes_a_running_call_stops_it(house: House) -> None:
    house.accept(make_call())
    house.crm.watch("find_contact", lambda: house.change(lambda entry, _: moves.close(entry, reason="by hand", by="anna")))
    house.run()
    assert (house.entry().state, house.entry().closed_by) == (State.DONE, "anna")


def test_a_parked_call_is_not_run(house: House) -> None:
    house.put(moves.park(queued_entry(), NOW, make_trouble()))
    house.run()
    assert house.crm.requests == []

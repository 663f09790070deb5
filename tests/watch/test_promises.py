"""What is the case, and which promises are broken: each process by itself, at a constant cost, with nothing personal in a sentence."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import redis

from bridge.call import Caller, CallerKind, Status
from bridge.crm.pacing import Pacing
from bridge.ledger import index, keys, moves, owed
from bridge.ledger.entry import Cause
from bridge.watch import promises
from bridge.watch.promises import BUDGET, DIED, FAILURES, LATE, SILENCE, SLOW, TIMED_OUT, Breach, Figures, breaches, span
from tests.support.broken import unreachable
from tests.support.builders import NOW, make_call, make_settings, make_trouble, parked_entry, running_entry
from tests.support.house import House

AGAIN = {"delay": 1.0, "spend": True, "cause": "worker.timeout", "message": "over", "step": None, "trace_id": None}
[CALLS] = promises.processes(make_settings())


@pytest.fixture
def house(connection: redis.Redis) -> House:
    return House(connection)


def call(number: int, **facts):
    phone = f"+1555010{number:04}"
    return make_call(root_id=f"CA{number}", caller=Caller(phone, CallerKind.PSTN, phone), **facts)


def affected(house: House, cause: str, count: int = 6) -> tuple[int, bool]:
    return promises.callers(house.store, CALLS, Breach(cause, count, "", ""), house.clock.now())


def causes(figures: Figures, **of) -> list[str]:
    return [breach.cause for breach in breaches(replace(CALLS, **of), figures)]


def test_the_oldest_waiting_call_is_the_one_that_has_waited_longest(house: House) -> None:
    house.accept(call(1))
    house.clock.advance(50)
    house.accept(call(2))
    house.clock.advance(20)
    figures = promises.read(house.store, CALLS)
    assert (figures.oldest_s, figures.waiting, figures.late) == (70, 2, 1)
    house.run(call(1).key)
    figures = promises.read(house.store, CALLS)
    assert (figures.oldest_s, figures.waiting, figures.late) == (20, 1, 0)


def test_a_call_that_is_going_on_is_not_late_and_a_dead_sweeper_shows_when_its_note_should_be_there(house: House) -> None:
    house.accept(call(1, status=Status.IN_PROGRESS))
    house.run(call(1).key)
    house.clock.advance(119)
    assert promises.read(house.store, CALLS).waiting == 0
    house.clock.advance(62)
    figures = promises.read(house.store, CALLS)
    assert (figures.oldest_s, figures.late) == (61, 1)


def test_a_call_that_needs_attention_is_counted_by_its_cause_and_not_as_waiting(house: House) -> None:
    house.put(parked_entry(Cause.UNCERTAIN))
    house.clock.advance(1000)
    figures = promises.read(house.store, CALLS)
    assert figures.waiting == 0
    assert figures.attention[Cause.UNCERTAIN] == 1
    assert figures.failures == 1


def test_times_to_a_lead_are_those_of_the_last_two_hours(house: House) -> None:
    for number in range(20):
        house.accept(call(number))
        house.clock.advance(90 if number == 0 else 8)
        house.run(call(number).key)
    figures = promises.read(house.store, CALLS)
    assert figures.took == {"10": 19, "120": 1}
    assert figures.leads == 20
    house.clock.advance(3 * 3600)
    assert promises.read(house.store, CALLS).took == {}


def test_silence_is_the_time_since_the_newest_call(house: House) -> None:
    assert promises.read(house.store, CALLS).silent_s is None
    house.accept(call(1))
    house.clock.advance(700)
    assert promises.read(house.store, CALLS).silent_s == 700


def test_a_look_costs_the_same_however_many_calls_there_are(house: House) -> None:
    def cost() -> int:
        house.connection.config_resetstat()
        promises.read(house.store, CALLS)
        return sum(stat["calls"] for stat in house.connection.info("commandstats").values())

    empty = cost()
    house.connection.zadd(keys.owed(CALLS.name), {f"x{number}": NOW - number for number in range(3000)})
    assert cost() == empty


@pytest.mark.parametrize(
    ("figures", "of", "broken"),
    [
        pytest.param(Figures(oldest_s=59), {}, [], id="all is well"),
        pytest.param(Figures(oldest_s=61, late=1), {}, [LATE], id="one call is late"),
        pytest.param(Figures(took={"120": 19}), {}, [], id="too few leads to speak of a percentile"),
        pytest.param(Figures(took={"120": 20}), {}, [SLOW], id="leads are slow"),
        pytest.param(Figures(took={"60": 96, "+Inf": 4}), {}, [], id="less than one in twenty is slow"),
        pytest.param(Figures(took={"60": 90, "+Inf": 10}), {}, [SLOW], id="some leads are very slow"),
        pytest.param(Figures(took={"5": 24}), {"promise_s": 4.0}, [], id="who knows whether they took three seconds or five"),
        pytest.param(Figures(took={"5": 24, "10": 2}), {"promise_s": 4.0}, [SLOW], id="one in twelve took more than five for certain"),
        pytest.param(Figures(took={"60": 95, "120": 5}), {}, [], id="one in twenty is what is allowed"),
        pytest.param(Figures(leads=9, failures=10), {}, [], id="too few calls to speak of a share"),
        pytest.param(Figures(leads=18, failures=2), {}, [], id="as many failures as allowed"),
        pytest.param(Figures(leads=17, failures=3), {}, [FAILURES], id="too many failures"),
        pytest.param(Figures(leads=99, died=1), {}, [DIED], id="one process died"),
        pytest.param(Figures(leads=99, timed_out=2), {}, [TIMED_OUT], id="two attempts ran into the time limit"),
        pytest.param(Figures(left_today=20_000), {}, [], id="a tenth of the budget is left"),
        pytest.param(Figures(left_today=19_999), {}, [BUDGET], id="less than a tenth is left"),
        pytest.param(Figures(silent_s=1e6), {}, [], id="silence is normal unless told otherwise"),
        pytest.param(Figures(silent_s=601), {"silence_s": 600.0}, [SILENCE], id="silence"),
        pytest.param(Figures(silent_s=None), {"silence_s": 600.0}, [], id="before the first call there is no silence"),
        pytest.param(Figures(attention={Cause.STALE: 0, Cause.CONFLICT: 2}), {}, ["attention.conflict"], id="calls need attention"),
    ],
)
def test_which_promises_are_broken(figures, of, broken) -> None:
    assert causes(figures, **of) == broken


def test_a_breach_says_what_is_the_case_and_what_to_do() -> None:
    everything = Figures(
        oldest_s=200,
        late=3,
        took={"+Inf": 30},
        leads=1,
        failures=30,
        died=1,
        timed_out=2,
        attention=dict.fromkeys(Cause, 2),
        left_today=1,
        silent_s=9e5,
    )
    found = breaches(replace(CALLS, silence_s=60.0), everything)
    assert {breach.cause for breach in found} == set(promises.CAUSES)
    assert all(breach.say.endswith(".") and breach.do.endswith(".") for breach in found)
    assert found[1].say == "30 of the last hours' 30 leads took more than 60 s; 60 s are promised."
    assert found[0].say == "3 calls wait longer than the promised 60 s; the oldest for 3 min."


def test_attempts_that_were_cut_short_are_counted_for_two_hours(house: House) -> None:
    for end in (moves.put_back, partial(moves.wait, **AGAIN)):
        house.put(running_entry())
        house.change(end)
    figures = promises.read(house.store, CALLS)
    assert (figures.died, figures.timed_out) == (1, 1)
    house.clock.advance(2 * 3600)
    figures = promises.read(house.store, CALLS)
    assert (figures.died, figures.timed_out) == (0, 0)


def test_callers_are_counted_once_however_often_they_rang(house: House) -> None:
    phone = Caller("+15550100001", CallerKind.PSTN, "+15550100001")
    for number in range(4):
        house.accept(make_call(root_id=f"CA{number}", caller=phone))
    house.accept(call(9))
    house.accept(make_call(root_id="CA10", caller=Caller("anonymous", CallerKind.WITHHELD)))
    house.clock.advance(61)
    assert affected(house, LATE) == (3, False)
    assert affected(house, BUDGET) == (0, False)


def test_both_figures_of_a_message_are_of_one_look(house: House) -> None:
    """Calls that are late only since then, or that came to need attention since then, are no callers of the breach."""
    for number in range(6):
        house.accept(call(number))
        house.clock.advance(10)
    house.clock.advance(21)
    seen_at = house.clock.at
    [breach] = breaches(CALLS, promises.read(house.store, CALLS))
    assert breach.count == 3
    house.clock.advance(60)
    assert promises.callers(house.store, CALLS, breach, seen_at) == (3, False)


def test_failures_of_other_days_are_no_callers_of_the_last_hours_share(house: House) -> None:
    for number in range(30):
        days_ago = 3 * 86_400 if number < 5 else 0
        house.put(moves.park(running_entry(facts=call(number)), NOW - days_ago, make_trouble(at=NOW - days_ago)))
    assert promises.callers(house.store, CALLS, Breach(FAILURES, 25, "", ""), NOW) == (25, False)


@pytest.mark.parametrize("cause", [FAILURES, "attention.permanent"])
def test_callers_of_failed_calls_are_found_by_their_cause(house: House, cause) -> None:
    for number in range(3):
        house.put(moves.park(running_entry(facts=call(number)), NOW, make_trouble()))
    assert affected(house, cause) == (3, False)


def test_a_crowd_is_counted_up_to_a_limit(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(promises, "AFFECTED_LIMIT", 2)
    for number in range(3):
        house.accept(call(number))
    house.clock.advance(61)
    assert affected(house, LATE) == (2, True)


def test_the_budget_is_asked_for_and_unknown_without_redis(connection: redis.Redis) -> None:
    assert promises.left_today(Pacing(connection, daily=500), "loc1") == 500
    assert promises.left_today(Pacing(unreachable()), "loc1") is None


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.4, "0 s"), (60, "60 s"), (119, "119 s"), (150, "2 min"), (7100, "118 min"), (10_800, "3 h"), (400_000, "5 days")],
)
def test_times_are_said_as_people_say_them(seconds, said) -> None:
    assert span(seconds) == said


def test_every_call_belongs_to_a_process_that_is_watched() -> None:
    assert owed.process(running_entry()) == CALLS.name
    assert index.hour(NOW) == int(NOW // 3600)

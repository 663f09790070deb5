"""The sweeper starts what is due and puts back what was lost; what is in order it leaves alone."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import pytest
import redis

from bridge.ledger import keys, moves
from bridge.ledger.entry import Cause, Entry, Plan, State
from bridge.work import queues
from bridge.work.sweep import BATCH, LEASE_S, SHUTDOWN, Sweeper, decide, horse_died, needs_attention
from tests.support.broken import unreachable
from tests.support.builders import KEY, NOW, Clock, make_call, make_entry, parked_entry, queued_entry, running_entry
from tests.support.house import House, make_store

QUEUE, TAKEN, RUNNING = "rq:queue:calls", "rq:queue:calls:intermediate", "rq:wip:calls"
NOWHERE = queues.Presence(frozenset(), frozenset(), frozenset())


@pytest.fixture
def house(connection: redis.Redis) -> House:
    return House(connection)


@pytest.fixture
def sweeper(house: House) -> Sweeper:
    return Sweeper(house.connection, house.store)


def waiting_entry(at: float) -> Entry:
    return moves.finish(running_entry(), Plan(wait_until=at), NOW)


# ---- What is due


def test_a_due_retry_is_queued_and_not_before(house: House, sweeper: Sweeper) -> None:
    house.put(waiting_entry(NOW + 30))
    house.clock.advance(29.9)
    assert sweeper.sweep() == 0
    assert house.jobs() == []
    house.clock.advance(0.1)
    assert sweeper.sweep() == 1
    assert house.jobs() == [KEY]
    assert house.entry().queued_at == NOW + 30
    assert sweeper.sweep() == 0


def test_a_call_whose_lease_ran_out_is_put_back(house: House, sweeper: Sweeper) -> None:
    house.put(running_entry())
    house.clock.advance(30.5)
    assert sweeper.sweep() == 0, "the grace of a second is not over"
    house.clock.advance(0.6)
    sweeper.sweep()
    entry = house.entry()
    assert (entry.state, entry.deaths, entry.attempts[-1].outcome, entry.waiting_for) == (State.ACCEPTED, 1, "died", "worker.died")
    assert house.told() == ["worker died"]
    assert house.counted("deaths") == 1
    sweeper.sweep()
    assert house.jobs() == [KEY]


def test_the_third_death_in_a_row_parks_the_call_and_puts_the_job_that_says_so(house: House, sweeper: Sweeper) -> None:
    house.put(replace(running_entry(), deaths=2))
    house.clock.advance(40)
    sweeper.sweep()
    entry = house.entry()
    assert entry.trouble is not None
    assert (entry.state, entry.trouble.cause, entry.unreported) == (State.NEEDS_ATTENTION, Cause.EXHAUSTED, True)
    assert house.jobs() == [KEY]
    assert needs_attention(house.store, KEY)


def test_a_renewed_lease_keeps_the_call_with_its_attempt(house: House, sweeper: Sweeper) -> None:
    house.put(running_entry())
    house.clock.advance(20)
    house.change(lambda entry, now: moves.renew(entry, now, lease_s=30))
    house.clock.advance(20)
    assert sweeper.sweep() == 0
    assert house.entry().state is State.RUNNING


# ---- Lost jobs


def lose_hash(house: House) -> None:
    house.connection.delete(f"rq:job:{KEY}", QUEUE)


def lose_list_entry(house: House) -> None:
    house.connection.delete(QUEUE)


def get_stuck(house: House) -> None:
    house.connection.lmove(QUEUE, TAKEN, "LEFT", "RIGHT")


@pytest.mark.parametrize("lose", [lose_hash, lose_list_entry, get_stuck])
def test_a_lost_job_is_put_again(house: House, sweeper: Sweeper, lose) -> None:
    house.put(queued_entry())
    lose(house)
    house.clock.advance(moves.CHECK_QUEUED_AFTER_S)
    sweeper.sweep()
    assert house.jobs() == [KEY]
    assert house.connection.exists(f"rq:job:{KEY}")
    assert house.connection.llen(TAKEN) == 0
    assert (house.told(), house.counted("jobs_lost")) == (["job lost, put again"], 1)


def test_a_job_that_reports_a_parked_call_is_put_again_too(house: House, sweeper: Sweeper) -> None:
    house.put(moves.park(queued_entry(), NOW, parked_entry().trouble, unreported=True))
    lose_hash(house)
    house.clock.advance(moves.CHECK_QUEUED_AFTER_S)
    sweeper.sweep()
    assert house.jobs() == [KEY]
    assert house.entry().state is State.NEEDS_ATTENTION


@pytest.mark.parametrize("where", [QUEUE, RUNNING])
def test_a_job_in_its_place_is_looked_at_again_later(house: House, sweeper: Sweeper, where: str) -> None:
    house.put(queued_entry())
    if where == RUNNING:
        house.connection.delete(QUEUE)
        house.connection.zadd(RUNNING, {f"{KEY}:execution": time.time() + 60})
    house.clock.advance(moves.CHECK_QUEUED_AFTER_S)
    sweeper.sweep()
    assert house.told() == []
    assert house.connection.zscore(keys.DUE, KEY) == NOW + 2 * moves.CHECK_QUEUED_AFTER_S
    assert house.jobs() == ([KEY] if where == QUEUE else [])


def test_a_long_queue_keeps_no_call_waiting_whose_worker_died(house: House, sweeper: Sweeper) -> None:
    """Each call in the queue is due for a look every ten seconds: looked at one by one, they would come first for ever."""
    for number in range(BATCH + 1):
        call = make_call(root_id=f"CB{number}")
        house.put(replace(queued_entry(), call_key=call.key, facts=call))
    house.put(running_entry())
    house.clock.advance(40)
    assert sweeper.sweep() == 1
    assert house.entry().attempts[-1].outcome == "died"
    assert sweeper.sweep() == 1, "the one that was put back is due; the queue is not looked at again so soon"
    assert len(house.jobs()) == BATCH + 2


def test_a_row_that_was_written_while_the_queue_was_put_off_stays(house: House) -> None:
    house.put(waiting_entry(NOW + 5))
    house.store.put_off_due([KEY, "twilio-gone"], 10)
    assert house.connection.zrange(keys.DUE, 0, -1, withscores=True) == [(KEY.encode(), NOW + 5)]


def test_a_row_without_an_entry_is_dropped(house: House, sweeper: Sweeper) -> None:
    house.connection.zadd(keys.DUE, {"twilio-gone": NOW - 5})
    assert sweeper.sweep() == 1
    assert house.connection.zcard(keys.DUE) == 0
    assert not house.connection.exists(keys.entry("twilio-gone"))


@pytest.mark.parametrize("entry", [None, make_entry(), parked_entry(), queued_entry(), running_entry(), waiting_entry(NOW + 1)])
def test_what_is_not_due_is_left_alone(house: House, entry: Entry | None) -> None:
    decisions = []

    def look(_old, moment):
        decisions.append(decide(entry, moment, NOWHERE))

    house.store.change(KEY, look)
    assert decisions == [None]


def test_many_due_calls_are_worked_off_in_batches(house: House, sweeper: Sweeper) -> None:
    for number in range(BATCH + 20):
        entry = waiting_entry(NOW + 1)
        call = make_call(root_id=f"CA{number}")
        house.put(replace(entry, call_key=call.key, facts=call))
    house.clock.advance(2)
    assert [sweeper.sweep(), sweeper.sweep(), sweeper.sweep()] == [BATCH, 20, 0]
    assert len(house.jobs()) == BATCH + 20


# ---- Several sweepers


def test_one_of_two_sweepers_acts(house: House) -> None:
    first, second = (Sweeper(house.connection, house.store) for _ in range(2))
    assert first.hold()
    assert not second.hold()
    assert first.hold(), "whoever holds the lease renews it"
    assert 0 < house.connection.pttl(keys.SWEEPER) <= LEASE_S * 1000
    second.let_go()
    assert not second.hold(), "only the own lease is given up"
    first.let_go()
    assert second.hold()


def test_two_sweepers_at_once_do_each_thing_once(house: House) -> None:
    house.put(running_entry())
    house.clock.advance(40)
    sweepers = [Sweeper(house.connection, make_store(house.connection, house.clock)) for _ in range(4)]
    threads = [threading.Thread(target=sweeper.sweep) for sweeper in sweepers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (house.entry().deaths, house.counted("deaths")) == (1, 1)


def stop_after(passes: int, waits: list[float]):
    def stop(seconds: float) -> bool:
        waits.append(seconds)
        return len(waits) >= passes

    return stop


def test_a_sweeper_gives_its_lease_up_when_it_stops(house: House, sweeper: Sweeper) -> None:
    house.put(waiting_entry(NOW))
    chores: list[str] = []
    sweeper.chores = (lambda: chores.append("done"),)
    waits: list[float] = []
    sweeper.run(stop_after(3, waits))
    assert house.jobs() == [KEY]
    assert chores == ["done"], "once at the start, then hourly"
    assert waits == [0.5, 0.5, 0.5]
    assert not house.connection.exists(keys.SWEEPER)


def test_a_waiting_sweeper_sweeps_nothing(house: House, sweeper: Sweeper) -> None:
    Sweeper(house.connection, house.store).hold()
    house.put(waiting_entry(NOW))
    sweeper.run(stop_after(2, []))
    assert house.jobs() == []


def test_a_sweeper_waits_for_redis_and_goes_on(house: House, caplog: pytest.LogCaptureFixture) -> None:
    sweeper = Sweeper(unreachable(), make_store(unreachable(), house.clock))
    house.put(waiting_entry(NOW))
    waits: list[float] = []

    def stop(seconds: float) -> bool:
        waits.append(seconds)
        sweeper.connection, sweeper.store = house.connection, house.store  # Redis is back
        return len(waits) == 2

    sweeper.run(stop)
    assert house.jobs() == [KEY]
    assert "Redis is away" in caplog.text


def test_a_lease_that_cannot_be_given_up_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    Sweeper(unreachable(), make_store(unreachable())).let_go()
    assert "runs out by itself" in caplog.text


# ---- Told by a worker


def test_a_work_horse_that_died_is_put_back_at_once(house: House) -> None:
    house.put(replace(running_entry(), deaths=1))
    horse_died(house.store, KEY, "SIGKILL")
    entry = house.entry()
    assert (entry.state, entry.deaths, entry.next_try_at) == (State.ACCEPTED, 2, NOW + 2)
    assert house.store.trail(KEY)[-1]["how"] == "SIGKILL"


def test_a_shutdown_costs_neither_a_try_nor_a_death(house: House) -> None:
    house.put(replace(running_entry(), deaths=2, spent=3))
    horse_died(house.store, KEY, SHUTDOWN)
    entry = house.entry()
    assert (entry.state, entry.deaths, entry.spent, entry.next_try_at) == (State.ACCEPTED, 2, 3, NOW)
    assert house.counted("deaths") == 0


@pytest.mark.parametrize("entry", [queued_entry(), waiting_entry(NOW + 5), parked_entry()])
def test_a_death_after_the_run_was_settled_changes_nothing(house: House, entry: Entry) -> None:
    house.put(entry)
    horse_died(house.store, KEY, "SIGKILL")
    horse_died(house.store, "twilio-unknown", "SIGKILL")
    assert house.entry() == entry


def test_only_parked_calls_belong_to_the_failed_registry(house: House) -> None:
    house.put(parked_entry())
    assert needs_attention(house.store, KEY)
    house.change(moves.replay)
    assert not needs_attention(house.store, KEY)
    assert not needs_attention(house.store, "twilio-unknown")


def test_an_entry_that_cannot_be_read_does_not_keep_others_waiting(connection):
    """The most overdue entry of all is broken: the sweeper puts it off and goes on."""
    clock = Clock()
    store = make_store(connection, clock)
    connection.set(keys.entry("broken"), b'{"not": "an entry"}')
    connection.zadd(keys.DUE, {"broken": 1.0, "gone": 2.0})
    assert Sweeper(connection, store).sweep() == 2
    assert connection.zscore(keys.DUE, "broken") == clock.now() + 3600
    assert connection.zscore(keys.DUE, "gone") is None

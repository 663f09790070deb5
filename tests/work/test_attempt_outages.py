"""Redis breaks off at every single command of an attempt, in every way: still one contact, one note, and a call that ends."""

from __future__ import annotations

import pytest
import redis

from bridge.errors import Permanent
from bridge.ledger.claims import Claims
from bridge.ledger.entry import State
from bridge.work import attempt
from bridge.work.sweep import Sweeper
from tests.support.broken import AFTER, BEFORE, GONE, Cut, breaking
from tests.support.builders import KEY, make_call
from tests.support.house import House

COMMANDS = 30  # more than a whole attempt sends


def broken_house(whole: House, url: str, cut: Cut) -> House:
    """The same bridge with a connection that breaks off."""
    broken = House(breaking(url, cut))
    broken.crm, broken.clock, broken.monotonic = whole.crm, whole.clock, whole.monotonic
    broken.store.clock = whole.clock
    claims = Claims(broken.connection, whole.clock, lease_s=15, wait_s=0.0, monotonic=whole.monotonic.now)
    broken.needs = attempt.Needs(broken.store, claims, whole.crm, whole.settings, whole.plan, whole.needs.steps, draw=lambda: 0.5)
    return broken


def run_broken(house: House, url: str, cut: Cut) -> BaseException | None:
    """Run the job once on a connection that breaks off; what it raised."""
    broken = broken_house(house, url, cut)
    house.connection.lrem("rq:queue:calls", 0, KEY)  # a worker has taken it
    cut.armed = True
    try:
        broken.run()
    except (redis.RedisError, Permanent) as error:
        return error
    finally:
        cut.armed = False
        broken.connection.close()
    return None


def drive_to_the_end(house: House) -> None:
    """What sweeper and workers do once Redis is back."""
    sweeper = Sweeper(house.connection, house.store)
    for _ in range(30):
        if house.entry().state in {State.DONE, State.NEEDS_ATTENTION}:
            return
        for clock in (house.clock, house.monotonic):
            clock.advance(65)
        sweeper.sweep()
        house.run()
    raise AssertionError(f"the call does not end: {house.entry()}")


@pytest.mark.parametrize("allows_duplicates", [False, True])
@pytest.mark.parametrize("how", [BEFORE, AFTER, GONE])
@pytest.mark.parametrize("at", range(1, COMMANDS))
def test_an_outage_at_any_command_costs_neither_call_nor_twin(
    connection: redis.Redis, redis_url: str, at: int, how: str, allows_duplicates: bool
) -> None:
    house = House(connection, allows_duplicates=allows_duplicates)
    house.accept(make_call())
    error = run_broken(house, redis_url, Cut(at, how))
    assert error is None or isinstance(error, redis.RedisError)
    drive_to_the_end(house)
    entry = house.entry()
    assert (entry.state, entry.trouble) == (State.DONE, None)
    assert len(house.crm.contacts) == 1
    assert len(house.crm.bodies(entry.contact_id or "")) == 1


def test_the_outages_reach_every_command_of_an_attempt(connection: redis.Redis, redis_url: str) -> None:
    house = House(connection)
    house.accept(make_call())
    cut = Cut(at=10_000)
    run_broken(house, redis_url, cut)
    assert 10 < cut.sent < COMMANDS
    assert house.entry().state is State.DONE


@pytest.mark.parametrize("how", [BEFORE, AFTER])
@pytest.mark.parametrize("at", range(1, 5))
def test_a_conflict_is_reported_once_even_where_an_answer_is_lost(connection: redis.Redis, redis_url: str, at: int, how: str) -> None:
    house = House(connection)
    house.accept(make_call())
    house.accept(make_call(dialled="+15550100000"))
    raised = [run_broken(house, redis_url, Cut(at, how))]
    for _ in range(2):
        try:
            house.run()
        except Permanent as error:
            raised.append(error)
    assert [error.cause for error in raised if isinstance(error, Permanent)] == ["call.conflict"]
    assert not house.entry().unreported


@pytest.mark.parametrize("how", [BEFORE, AFTER])
@pytest.mark.parametrize("at", range(1, 16))
def test_a_terminal_failure_is_raised_even_where_an_answer_is_lost(connection: redis.Redis, redis_url: str, at: int, how: str) -> None:
    house = House(connection)
    house.accept(make_call())
    house.crm.refuse("find_contact", *[Permanent("no access", cause="crm.403")] * 3)
    raised = [run_broken(house, redis_url, Cut(at, how))]
    for _ in range(30):
        if house.entry().state is State.NEEDS_ATTENTION:
            break
        for clock in (house.clock, house.monotonic):
            clock.advance(65)
        Sweeper(house.connection, house.store).sweep()
        try:
            house.run(KEY)
        except Permanent as error:
            raised.append(error)
    assert [error.cause for error in raised if isinstance(error, Permanent)] == ["crm.403"], "told to RQ and Sentry, once"

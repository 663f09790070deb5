"""One creator per caller: the lease is the right to act and runs out, the memory does not."""

from __future__ import annotations

import threading

import pytest
import redis

from bridge.clock import RedisClock
from bridge.errors import Fenced, NotYet
from bridge.ledger import keys
from bridge.ledger.claims import LIFE_S, Claim, Claims
from tests.support.broken import unreachable
from tests.support.builders import PHONE, Clock

LEASE_S = 30.0
NAME = keys.claim("loc1", PHONE)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def claims(connection: redis.Redis, clock: Clock) -> Claims:
    return Claims(connection, clock, lease_s=LEASE_S, wait_s=0)


def acquire(claims: Claims, owner: str = "call-1/1") -> Claim:
    return claims.acquire("loc1", PHONE, owner=owner)


def test_the_first_holder_gets_an_empty_claim(claims: Claims) -> None:
    claim = acquire(claims)
    assert (claim.contact_id, claim.intent_age_s, claim.intents) == (None, None, 0)
    assert claim.outlives(LEASE_S - 1, claims.now())
    assert not claim.outlives(LEASE_S, claims.now())


def test_the_age_of_a_contact_counts_from_when_the_crm_last_showed_it(claims: Claims, clock: Clock, connection: redis.Redis) -> None:
    claims.resolve(acquire(claims), "c1")
    clock.advance(500)
    known = acquire(claims)
    assert (known.contact_id, known.contact_age_s) == ("c1", pytest.approx(500))
    claims.confirm(known)
    clock.advance(7)
    assert acquire(claims).contact_age_s == pytest.approx(7)
    claims.forget("loc1", PHONE, "c1")
    claims.confirm(known)
    assert not connection.hexists(NAME, "contact_at"), "what is forgotten is not confirmed any more"


def test_a_contact_of_an_earlier_version_counts_as_old(claims: Claims, clock: Clock, connection: redis.Redis) -> None:
    connection.hset(NAME, mapping={"token": 3, "contact_id": "c1"})
    assert acquire(claims).contact_age_s == pytest.approx(clock.now())


def test_a_second_holder_waits_and_then_comes_back_later(claims: Claims, connection: redis.Redis) -> None:
    acquire(claims)
    times, pauses = iter([0.0, 0.0, 0.03, 0.06, 0.11]), []
    second = Claims(connection, Clock(), lease_s=LEASE_S, wait_s=0.1, monotonic=lambda: next(times), sleep=pauses.append)
    with pytest.raises(NotYet) as busy:
        acquire(second, "call-2/1")
    assert busy.value.cause == "claim.busy"
    assert len(pauses) == 3
    assert busy.value.retry_in == pytest.approx(1.1)


def test_a_second_holder_need_not_wait_longer_than_the_lease(claims: Claims, clock: Clock) -> None:
    acquire(claims)
    clock.advance(LEASE_S - 0.4)
    with pytest.raises(NotYet) as busy:
        acquire(claims, "call-2/1")
    assert busy.value.retry_in == pytest.approx(0.5)


def test_a_released_claim_is_free_at_once(claims: Claims) -> None:
    first = acquire(claims)
    claims.release(first)
    assert int(acquire(claims, "call-2/1").token) == int(first.token) + 1


def test_one_of_many_workers_gets_the_claim(claims: Claims) -> None:
    got: list[Claim] = []
    busy: list[str] = []

    def race(number: int) -> None:
        try:
            got.append(acquire(claims, f"call-{number}/1"))
        except NotYet as error:
            busy.append(error.cause)

    threads = [threading.Thread(target=race, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(got), busy) == (1, ["claim.busy"] * 19)


def test_tokens_grow_with_every_acquisition(claims: Claims, clock: Clock) -> None:
    tokens = []
    for number in range(3):
        tokens.append(int(acquire(claims, f"call-{number}/1").token))
        clock.advance(LEASE_S + 1)
    assert tokens == [1, 2, 3]


@pytest.mark.parametrize("act", ["announce", "renew", "resolve", "withdraw", "lost"])
def test_a_holder_whose_lease_went_to_another_is_fenced(claims: Claims, connection: redis.Redis, clock: Clock, act: str) -> None:
    first = acquire(claims)
    clock.advance(LEASE_S + 1)
    acquire(claims, "call-2/1")
    before = connection.hgetall(NAME)
    acts = {
        "announce": lambda: claims.announce(first, timeout_s=13),
        "renew": lambda: claims.renew(first),
        "resolve": lambda: claims.resolve(first, "c1"),
        "withdraw": lambda: claims.withdraw(first),
        "lost": lambda: claims.lost(first),
    }
    with pytest.raises(Fenced):
        acts[act]()
    assert connection.hgetall(NAME) == before, "a fenced holder writes nothing"


def test_a_lease_that_ran_out_unseen_can_still_be_renewed(claims: Claims, clock: Clock) -> None:
    claim = acquire(claims)
    clock.advance(LEASE_S + 1)
    renewed = claims.renew(claim)
    assert renewed.token == claim.token
    with pytest.raises(NotYet):
        acquire(claims, "call-2/1")


def test_a_released_claim_cannot_announce_any_more(claims: Claims) -> None:
    claim = acquire(claims)
    claims.release(claim)
    with pytest.raises(Fenced):
        claims.announce(claim, timeout_s=13)


def test_only_the_own_lease_is_released(claims: Claims, clock: Clock) -> None:
    first = acquire(claims)
    clock.advance(LEASE_S + 1)
    acquire(claims, "call-2/1")
    claims.release(first)
    with pytest.raises(NotYet):
        acquire(claims, "call-3/1")


def test_an_announced_lease_outlives_the_request(connection: redis.Redis) -> None:
    claims = Claims(connection, Clock(), lease_s=5, wait_s=0)
    claim = acquire(claims)
    assert not claim.outlives(13, claims.now())
    announced = claims.announce(claim, timeout_s=13)
    assert announced.outlives(13, claims.now())
    assert announced.intents == 1


@pytest.mark.parametrize("end", ["release", "lease"])
def test_an_announced_create_is_remembered_after_its_holder(claims: Claims, clock: Clock, end: str) -> None:
    announced = claims.announce(acquire(claims), timeout_s=13)
    if end == "release":
        claims.release(announced)
    else:
        clock.advance(LEASE_S + 1)
    second = acquire(claims, "call-2/1")
    assert second.intents == 1
    passed = 0 if end == "release" else LEASE_S + 1
    assert second.intent_age_s == pytest.approx(passed - 13), "the request may be under way for 13 s"


def test_a_lost_answer_starts_the_settling(claims: Claims, clock: Clock) -> None:
    announced = claims.announce(acquire(claims), timeout_s=13)
    clock.advance(4)
    claims.lost(announced)
    claims.release(announced)
    clock.advance(2.5)
    assert acquire(claims, "call-2/1").intent_age_s == pytest.approx(2.5)


def test_a_withdrawn_create_leaves_nothing_open(claims: Claims) -> None:
    announced = claims.announce(acquire(claims), timeout_s=13)
    claims.withdraw(announced)
    claims.release(announced)
    assert acquire(claims, "call-2/1").intent_age_s is None


def test_a_known_contact_needs_no_lease(claims: Claims) -> None:
    first = claims.announce(acquire(claims), timeout_s=13)
    claims.resolve(first, "c1")
    for number in (2, 3):  # nobody released, and nobody waits
        known = acquire(claims, f"call-{number}/1")
        assert (known.contact_id, known.intent_age_s) == ("c1", None)
        claims.release(known)
    claims.renew(first)


def test_only_the_contact_that_is_gone_is_forgotten(claims: Claims) -> None:
    claims.resolve(acquire(claims), "c1")
    claims.forget("loc1", PHONE, "c0")
    assert acquire(claims).contact_id == "c1"
    claims.forget("loc1", PHONE, "c1")
    assert acquire(claims, "call-1/1").contact_id is None


def test_callers_and_locations_do_not_wait_for_each_other(claims: Claims) -> None:
    acquire(claims)
    claims.acquire("loc1", "+15550105678", owner="call-2/1")
    assert claims.acquire("loc2", PHONE, owner="call-3/1").token == "1"


def test_a_claim_is_kept_for_longer_than_a_year_after_its_last_use(claims: Claims, connection: redis.Redis) -> None:
    claims.resolve(acquire(claims), "c1")
    connection.expire(NAME, 10)
    acquire(claims)
    assert connection.ttl(NAME) in {LIFE_S, LIFE_S - 1}


def test_leases_end_by_the_clock_of_redis_and_by_no_machine_clock(connection: redis.Redis) -> None:
    clock = RedisClock(connection)
    acquire(Claims(connection, clock, lease_s=LEASE_S, wait_s=0, monotonic=lambda: 0.0))
    running_ahead = Claims(connection, clock, lease_s=LEASE_S, wait_s=0, monotonic=lambda: 1e9)
    with pytest.raises(NotYet):
        acquire(running_ahead, "call-2/1")
    seconds, _ = connection.time()
    assert float(connection.hget(NAME, "lease_until") or 0) == pytest.approx(seconds + LEASE_S, abs=2)


def test_a_redis_that_is_away_is_an_error_of_redis() -> None:
    with pytest.raises(redis.ConnectionError):
        acquire(Claims(unreachable(), Clock(), lease_s=LEASE_S))

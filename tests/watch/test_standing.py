"""When a route is told: once in a quarter of an hour, and once more when it is over."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest
import redis

from bridge.ledger import keys
from bridge.watch.standing import (
    GAP_S,
    LONGEST_PAUSE_S,
    LONGEST_S,
    REMIND_S,
    SENDING_S,
    Book,
    Kind,
    Sending,
    Standing,
    is_due,
    is_over,
    look,
    settle,
)

T = 1_768_489_445.0
ONE = ("webhook",)


class Owner:
    """One alert and one watcher whose messages arrive, unless told otherwise."""

    def __init__(self) -> None:
        self.standing = Standing()
        self.heard: list[tuple[float, Kind, int]] = []

    def look(self, at: float, count: int, *, arrives: bool = True) -> None:
        self.standing, due = look(self.standing, count, T + at, ONE, "me")
        for sending in due:
            self.standing = settle(self.standing, sending, T + at, is_sent=arrives)
            if arrives:
                self.heard.append((at, sending.kind, sending.count))


@pytest.fixture
def owner() -> Owner:
    return Owner()


def test_a_breach_is_told_at_once_and_its_end_by_a_second_message(owner: Owner) -> None:
    for at, count in [(0, 0), (5, 3), (10, 3), (15, 4), (20, 0), (25, 0)]:
        owner.look(at, count)
    assert owner.heard == [(5, Kind.OPEN, 3), (20, Kind.OVER, 4)]


def test_a_promise_that_is_broken_and_kept_in_turns_is_told_once_in_a_quarter_of_an_hour(owner: Owner) -> None:
    for at in range(0, 1800, 5):
        owner.look(at, at // 5 % 2)
    assert owner.heard == [(5, Kind.OPEN, 1), (10, Kind.OVER, 1), (905, Kind.OPEN, 1), (910, Kind.OVER, 1)]


def test_while_it_lasts_only_growth_or_a_day_is_told(owner: Owner) -> None:
    for at, count in [(0, 10), (600, 500), (899, 500), (900, 19), (901, 500), (1900, 999), (2000, 1000), (2000 + REMIND_S, 1)]:
        owner.look(at, count)
    assert owner.heard == [(0, Kind.OPEN, 10), (901, Kind.STILL, 500), (2000, Kind.STILL, 1000), (2000 + REMIND_S, Kind.STILL, 1)]


def test_what_does_not_arrive_is_tried_again_at_the_next_look(owner: Owner) -> None:
    owner.look(0, 1, arrives=False)
    owner.look(5, 1, arrives=False)
    owner.look(10, 2)
    owner.look(15, 0, arrives=False)
    owner.look(20, 0)
    assert owner.heard == [(10, Kind.OPEN, 2), (20, Kind.OVER, 2)]


def test_a_route_that_keeps_failing_is_tried_ever_more_rarely_and_never_given_up(owner: Owner) -> None:
    """A mail server locks out who logs in wrongly every five seconds."""
    tries: list[float] = []
    for at in range(0, 3600, 5):
        before = owner.standing.routes.get("webhook")
        owner.look(at, 1, arrives=False)
        if owner.standing.routes["webhook"] != before:
            tries.append(at)
    pauses = [after - before for before, after in pairwise(tries)]
    assert pauses[:6] == [5, 5, 5, 10, 20, 40]
    assert max(pauses) == pauses[-1] == LONGEST_PAUSE_S
    owner.look(3600 + LONGEST_PAUSE_S, 1)
    assert [kind for _, kind, _ in owner.heard] == [Kind.OPEN]
    owner.look(3605 + LONGEST_PAUSE_S, 0, arrives=False)
    owner.look(3610 + LONGEST_PAUSE_S, 0)
    assert [kind for _, kind, _ in owner.heard] == [Kind.OPEN, Kind.OVER], "what arrived once begins anew"


@pytest.mark.parametrize("wrong", [400 * 86_400.0, 3600.0])
def test_a_clock_that_was_wrong_for_a_while_keeps_nobody_quiet(owner: Owner, wrong: float) -> None:
    owner.look(0, 1)
    owner.look(5, 0)
    owner.look(wrong, 1)
    owner.look(10, 0)
    owner.look(15, 1)
    assert [(at, kind) for at, kind, _ in owner.heard][-2:] == [(10, Kind.OVER), (15, Kind.OPEN)]
    taken, [sending] = look(Standing(), 1, T + wrong, ONE, "died while the clock was wrong")
    assert [one.route for one in look(taken, 1, T, ONE, "me")[1]] == [sending.route]


def test_nobody_hears_the_end_of_what_they_never_heard_of(owner: Owner) -> None:
    owner.look(0, 1, arrives=False)
    owner.look(5, 0)
    assert owner.heard == []
    assert owner.standing.since is None


def test_a_sending_under_way_is_not_started_twice_and_one_whose_process_died_is() -> None:
    standing, [first] = look(Standing(), 1, T, ONE, "dead")
    standing, none = look(standing, 1, T + 5, ONE, "alive")
    assert none == ()
    standing, [second] = look(standing, 1, T + SENDING_S, ONE, "alive")
    assert settle(standing, first, T + SENDING_S, is_sent=True) == standing, "it speaks too late"
    assert settle(standing, second, T + SENDING_S, is_sent=True).routes["webhook"].is_open


def test_what_may_have_arrived_is_not_said_again_for_a_quarter_of_an_hour_and_then_it_is() -> None:
    standing, [sending] = look(Standing(), 3, T, ONE, "me")
    standing = settle(standing, sending, T, is_sent=None)
    assert look(standing, 3, T + GAP_S - 1, ONE, "me")[1] == ()
    standing, [again] = look(standing, 3, T + GAP_S, ONE, "me")
    assert (again.kind, again.count) == (Kind.STILL, 3)
    _, [over] = look(settle(standing, again, T + GAP_S, is_sent=None), 0, T + GAP_S + 5, ONE, "me")
    assert over.kind is Kind.OVER


def test_a_sending_is_begun_only_by_whose_it_is_while_it_is_true_and_can_end_in_time() -> None:
    standing, [sending] = look(Standing(), 1, T, ONE, "me")
    assert is_due(standing, sending, T)
    assert is_due(standing, sending, T + SENDING_S - LONGEST_S)
    assert not is_due(standing, sending, T + SENDING_S - LONGEST_S + 1)
    assert not is_due(look(standing, 0, T + 5, ONE, "me")[0], sending, T + 5), "it is over"
    again, [second] = look(standing, 1, T + SENDING_S, ONE, "me")
    assert not is_due(again, sending, T), "the same process has begun anew"
    assert is_due(again, second, T + SENDING_S)
    assert settle(again, sending, T + SENDING_S, is_sent=True) == again


def test_each_route_is_told_for_itself() -> None:
    standing, due = look(Standing(), 1, T, ("webhook", "email"), "me")
    for sending in due:
        standing = settle(standing, sending, T, is_sent=sending.route == "email")
    _, due = look(standing, 1, T + 5, ("webhook", "email"), "me")
    assert [(sending.route, sending.kind) for sending in due] == [("webhook", Kind.OPEN)]


def test_a_breach_that_begins_anew_has_a_beginning_of_its_own(owner: Owner) -> None:
    owner.look(0, 1)
    owner.look(5, 0, arrives=False)
    owner.look(1000, 1)
    assert (owner.standing.since, owner.standing.most) == (T + 1000, 1)


def test_an_alert_is_forgotten_when_the_next_may_be_told_at_once(connection: redis.Redis) -> None:
    book = Book(connection)
    sendings: list[Sending] = []

    def see(count: int, now: float) -> None:
        def decide(old: Standing) -> Standing:
            new, sendings[:] = look(old, count, now, ONE, "me")
            return new

        book.change("calls", "silence", decide, now)
        for sending in sendings:
            book.change("calls", "silence", lambda old, sending=sending: settle(old, sending, now, is_sent=True), now)

    see(1, T)
    assert 0 < connection.ttl(keys.alert("calls", "silence")) <= keys.ALERT_LIFE_S
    see(0, T + 5)
    see(0, T + GAP_S - 1)
    assert list(book.standing("calls", ["silence", "promise.late"])) == ["silence"]
    see(0, T + GAP_S)
    assert connection.keys("cb:alert:*") == []


def test_of_two_who_look_at_once_one_speaks(connection: redis.Redis) -> None:
    def speak(name: str) -> int:
        said: list[Sending] = []

        def decide(old: Standing) -> Standing:
            new, said[:] = look(old, 1, T, ONE, name)
            return new

        Book(connection).change("calls", "promise.late", decide, T)
        return len(said)

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(speak, [f"watcher-{number}" for number in range(8)])) == 1


def test_nothing_is_remembered_of_a_promise_that_holds() -> None:
    assert is_over(Standing(), T)
    assert look(Standing(), 0, T, ONE, "me") == (Standing(), ())


def test_what_another_version_wrote_is_forgotten_and_not_stumbled_over(connection: redis.Redis) -> None:
    connection.set(keys.alert("calls", "silence"), '{"since": "yesterday"}')
    book = Book(connection)
    assert book.standing("calls", ["silence"]) == {"silence": Standing()}
    assert book.change("calls", "silence", lambda old: look(old, 2, T, ONE, "me")[0], T).count == 2

"""The storm guard: of a cause two in a minute, five in a row, then one an hour, all counted; without Redis each process for itself."""

from __future__ import annotations

import logging
import os
import socketserver
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import redis

from bridge.ledger import keys
from bridge.watch import alerts
from bridge.watch.guard import AWAY_S, CAUSES, HELD, IN_A_ROW, PASSES, PATIENCE_S, REFILL_S, RESTED_S, StormGuard, Verdict
from tests.support.broken import unreachable
from tests.support.builders import Clock
from tests.support.storms import make_older


@pytest.fixture
def guard(connection: redis.Redis, redis_url: str) -> StormGuard:
    del connection
    return StormGuard(redis_url)


def test_two_in_a_minute_pass_and_the_rest_is_counted(guard: StormGuard, connection: redis.Redis) -> None:
    assert [guard.admit("a") for _ in range(5)] == [PASSES, PASSES, HELD, HELD, HELD]
    assert guard.admit("b") == PASSES, "another cause has a budget of its own"
    make_older(connection, "a", 61)
    assert guard.admit("a") == Verdict(passes=True, withheld=3)
    assert guard.admit("a") == PASSES, "what was told is not told again"
    assert int(connection.hget(keys.COUNT, "alerts_withheld")) == 3


def test_the_minute_slides(guard: StormGuard, connection: redis.Redis) -> None:
    guard.admit("a")
    make_older(connection, "a", 59)
    guard.admit("a")
    assert guard.admit("a") == HELD
    make_older(connection, "a", 2)
    assert guard.admit("a").passes, "the first is a minute old, the second is not"
    assert guard.admit("a") == HELD


def storm(guard: StormGuard, connection: redis.Redis, minutes: int) -> list[int]:
    """How many of three a minute pass, minute by minute."""
    passed = []
    for _ in range(minutes):
        passed.append(sum(guard.admit("a").passes for _ in range(3)))
        make_older(connection, "a", 60)
    return passed


def test_a_storm_that_goes_on_has_five_events_and_then_one_an_hour(guard: StormGuard, connection: redis.Redis) -> None:
    passed = storm(guard, connection, 5 * 60)
    assert passed[:4] == [2, 2, 1, 0]
    hours = [sum(passed[minute : minute + 60]) for minute in range(0, len(passed), 60)]
    assert hours == [IN_A_ROW, 1, 1, 1, 1]


def test_a_cause_that_was_quiet_may_tell_five_in_a_row_again(guard: StormGuard, connection: redis.Redis) -> None:
    storm(guard, connection, 10)
    make_older(connection, "a", IN_A_ROW * REFILL_S)
    assert storm(guard, connection, 10)[:4] == [2, 2, 1, 0]


def test_an_outage_that_comes_back_is_told_at_once(guard: StormGuard, connection: redis.Redis) -> None:
    """Whoever hears of failures from Sentry alone would otherwise learn of the second outage of an evening an hour late."""
    storm(guard, connection, 30)
    make_older(connection, "a", RESTED_S - 60)
    assert storm(guard, connection, 10) == [1] + [0] * 9
    make_older(connection, "a", RESTED_S - 120)
    assert storm(guard, connection, 10) == [0] * 10, "it has not rested"


def test_what_happens_once_an_hour_is_never_withheld(guard: StormGuard, connection: redis.Redis) -> None:
    for _ in range(50):
        assert guard.admit("a") == PASSES
        make_older(connection, "a", REFILL_S)


def test_what_the_guard_remembers_goes_by_itself(guard: StormGuard, connection: redis.Redis) -> None:
    for _ in range(3):
        guard.admit("a")
    name = keys.storm("a")
    assert 0 < connection.ttl(name) <= 60
    assert REFILL_S < connection.ttl(f"{name}:bucket") <= 2 * REFILL_S
    assert 0 < connection.ttl(f"{name}:withheld") <= 2 * REFILL_S


def test_without_redis_two_in_a_minute_pass_and_the_rest_is_counted() -> None:
    clock = Clock(0)
    guard = StormGuard("redis://unused", connect=lambda _url: unreachable(), clock=clock.now)
    assert [guard.admit("a") for _ in range(4)] == [PASSES, PASSES, HELD, HELD]
    assert guard.admit("b") == PASSES, "another cause has a budget of its own"
    clock.advance(59)
    assert guard.admit("a") == HELD
    clock.advance(1)
    assert guard.admit("a") == Verdict(passes=True, withheld=3)
    assert guard.admit("a") == PASSES, "what was told is not told again"


def test_what_was_withheld_without_redis_is_told_when_it_is_back(redis_url: str, connection: redis.Redis) -> None:
    del connection
    clock = Clock(0)
    guard = StormGuard("redis://away", connect=lambda _url: unreachable(), clock=clock.now)
    for _ in range(5):
        guard.admit("a")
    guard._connection = redis.Redis.from_url(redis_url)
    assert guard.admit("b") == PASSES
    assert guard.admit("a") == HELD, "it is left alone for some seconds"
    clock.advance(AWAY_S)
    assert guard.admit("a") == Verdict(passes=True, withheld=4)


def test_a_redis_that_does_not_answer_is_not_asked_for_each_error() -> None:
    """Whoever logs an error waits for the guard: with a Redis that hangs, all of them for a second and a half each."""
    asked = []
    clock = Clock(0)

    def connect(url: str) -> redis.Redis:
        asked.append(url)
        raise redis.ConnectionError

    guard = StormGuard("redis://unused", connect=connect, clock=clock.now)
    for _ in range(50):
        guard.admit("a")
        clock.advance(0.2)
    assert len(asked) == 2


@contextmanager
def saying(says: bytes | None) -> Iterator[str]:
    """The URL of a server that says this to whatever it hears; None: it takes every connection and never answers."""
    over = threading.Event()

    class Talk(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            while not over.is_set() and self.request.recv(4096):
                if says is None:
                    over.wait(30)
                else:
                    self.request.sendall(says)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Talk) as server:
        server.daemon_threads, server.block_on_close = True, False
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        yield f"redis://127.0.0.1:{server.server_address[1]}?socket_timeout=60"
        over.set()
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    "says",
    [
        pytest.param(None, id="nothing"),
        pytest.param(b"HTTP/1.1 400 Bad Request\r\n\r\n", id="HTTP"),
        pytest.param(b"+OK\r\n+OK\r\n:1\r\n", id="what nobody asked for"),
        pytest.param(b"\xff\xfe\x00", id="no protocol"),
        pytest.param(b"-LOADING Redis is loading the dataset in memory\r\n", id="that it is loading"),
        pytest.param(b"-NOAUTH Authentication required.\r\n", id="that a password is missing"),
        pytest.param(b"*1\r\n" * 5000, id="lists without an end"),
    ],
)
def test_whatever_stands_at_redis_port_the_alert_leaves_within_seconds(says: bytes | None) -> None:
    """The SDK drops an event whose `before_send` raises; and a caller on the line may wait for whoever logs an error."""
    with saying(says) as url:
        guard = StormGuard(url)
        began = time.monotonic()
        assert guard.admit("a").passes
        assert time.monotonic() - began < 3
        assert guard.admit("b").passes
        assert guard.admit("b").passes
        assert not guard.admit("b").passes, "this process has its own limit"


def test_a_redis_that_answers_slowly_is_left_alone_for_a_while(redis_url: str, connection: redis.Redis) -> None:
    """All who log an error wait for one another: the SDK's handler has a lock."""
    clock, asked = Clock(0), []

    def connect(url: str) -> redis.Redis:
        asked.append(url)
        clock.advance(PATIENCE_S + 0.1)
        return redis.Redis.from_url(url)

    guard = StormGuard(redis_url, connect=connect, clock=clock.now)
    assert guard.admit("a") == PASSES, "its answer counts all the same"
    assert connection.llen(keys.storm("a")) == 1
    guard.admit("b")
    assert connection.llen(keys.storm("b")) == 0
    clock.advance(AWAY_S)
    guard.admit("c")
    assert connection.llen(keys.storm("c")) == 1


def test_an_error_that_is_logged_while_redis_is_asked_does_not_ask_again() -> None:
    asked: list[str] = []

    def connect(url: str) -> redis.Redis:
        asked.append(url)
        for _ in range(3):
            logging.getLogger("redis").error("no luck")  # the SDK asks the guard about this one as well
            assert guard.admit("no luck") in {PASSES, HELD}
        raise redis.ConnectionError

    guard = StormGuard("redis://unused", connect=connect)
    assert guard.admit("a").passes
    assert len(asked) == 1


def test_messages_that_differ_each_time_do_not_fill_the_memory() -> None:
    guard = StormGuard("redis://unused", connect=lambda _url: unreachable())
    for number in range(3 * CAUSES):
        assert guard.admit(str(number)) == PASSES
    assert len(guard._alone._causes) <= CAUSES


def test_nothing_is_connected_before_the_first_alert() -> None:
    asked = []
    guard = StormGuard("redis://somewhere", connect=lambda url: asked.append(url) or unreachable())
    assert asked == []
    guard.admit("a")
    guard.admit("a")
    assert asked == ["redis://somewhere"]


def test_a_forked_process_does_not_use_its_parents_socket(guard: StormGuard, connection: redis.Redis) -> None:
    guard.admit("a")
    child = os.fork()
    if child == 0:
        os._exit(0 if guard.admit("a") == PASSES and guard.admit("a") == HELD else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert guard.admit("a") == HELD
    assert connection.llen(keys.storm("a")) == 2


def event(**of):
    return {"event_id": "1", **of}


def raised(kind: str, function: str):
    return {"values": [{"type": kind, "value": "x", "stacktrace": {"frames": [{"module": "app", "function": function}]}}]}


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (event(fingerprint=["callbridge", "crm.403"]), event(fingerprint=["callbridge", "crm.403"], message="else"), True),
        (event(fingerprint=["callbridge", "crm.403"]), event(fingerprint=["callbridge", "crm.404"]), False),
        (event(exception=raised("KeyError", "f")), event(exception=raised("KeyError", "f")), True),
        (event(exception=raised("KeyError", "f")), event(exception=raised("KeyError", "g")), False),
        (event(exception=raised("KeyError", "f")), event(exception=raised("OSError", "f")), False),
        (event(message="a"), event(message="b"), False),
        (event(message="job twilio-CA1 is lost"), event(message="job twilio-CA2 is lost"), True),
        (event(message="at 0x7f3a of 10:04"), event(message="at 0x11 of 9:30"), True),
        (event(logentry={"message": "call 7 failed"}), event(logentry={"message": "call 8 failed"}), True),
        (event(logentry={"message": "call 7 failed"}), event(logentry={"message": "call 7 lost"}), False),
        (
            event(exception=raised("KeyError", "f"), logentry={"message": "no call 'a'"}),
            event(exception=raised("KeyError", "f"), logentry={"message": "no call 'b'"}),
            True,
        ),
        (event(exception={"values": []}), event(), True),
        (event(logentry={"message": "for %s", "formatted": "for 1"}), event(logentry={"message": "for %s", "formatted": "for 2"}), True),
        (event(logentry={"message": "a"}), event(logentry={"message": "b"}), False),
        (event(logger="a", logentry={"message": "x"}), event(logger="b", logentry={"message": "x"}), False),
    ],
)
def test_what_sentry_would_group_shares_a_budget(one, other, same) -> None:
    asked = []
    for each in (one, other):
        alerts.outgoing(lambda cause: asked.append(cause) or PASSES, each, {})
    assert (asked[0] == asked[1]) is same


def test_an_event_that_passes_tells_how_many_did_not() -> None:
    told = alerts.outgoing(lambda _cause: Verdict(passes=True, withheld=41), event(), {})
    assert told["extra"]["also_happened"] == 41
    assert alerts.outgoing(lambda _cause: HELD, event(), {}) is None


def test_check_ins_are_not_asked_about() -> None:
    asked = []
    check_in = {"type": "check_in", "status": "ok"}
    assert alerts.outgoing(lambda cause: asked.append(cause) or HELD, dict(check_in), {}) == check_in
    assert asked == []

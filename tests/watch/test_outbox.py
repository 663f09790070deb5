"""What waits to be said: each route by itself, a cause at most once, and nothing that is not due any more."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
import redis

from bridge.watch.notify import Message
from bridge.watch.outbox import Letter, Outbox
from bridge.watch.standing import LONGEST_S, SENDING_S, Book, Kind, Sending
from bridge.watch.telling import Teller
from tests.support.broken import unreachable
from tests.support.house import House
from tests.watch.owner import Post

OPEN = Message(Kind.OPEN, "calls", "promise.late", "anna", "2 calls wait.", (), "https://ivr.example.com/console", "thread")
OTHER = replace(OPEN, cause="promise.slow")


class Slow:
    """A route that is at its first message until `go`."""

    def __init__(self, name: str = "webhook") -> None:
        self.name = name
        self.go, self.has_begun = threading.Event(), threading.Event()
        self.sent: list[Message] = []

    def send(self, message: Message) -> None:
        self.has_begun.set()
        self.go.wait(10)
        self.sent.append(message)


@pytest.fixture
def slow() -> Slow:
    return Slow()


def test_a_route_that_hangs_holds_up_neither_its_sender_nor_another_route(slow: Slow) -> None:
    outbox, mail, told = Outbox(), Post("email"), []
    outbox.put(slow, Letter(OPEN, told.append))
    outbox.put(mail, Letter(OPEN, told.append))
    outbox.put(mail, Letter(OTHER, told.append))
    outbox.join(0.2)
    assert (mail.messages, told) == ([OPEN, OTHER], [True, True])
    slow.go.set()
    outbox.join(10)
    assert slow.sent == [OPEN]


def test_of_two_messages_about_one_cause_that_wait_the_newer_one_is_sent(slow: Slow) -> None:
    outbox, told = Outbox(), []
    outbox.put(slow, Letter(OTHER, told.append))
    assert slow.has_begun.wait(10)
    newer = replace(OPEN, title="4 calls wait.")
    for message in (OPEN, newer):
        outbox.put(slow, Letter(message, told.append))
    slow.go.set()
    outbox.join(10)
    assert (slow.sent, told) == ([OTHER, newer], [True, True])


def test_what_is_not_due_any_more_when_its_turn_comes_is_not_sent() -> None:
    outbox, post, told = Outbox(), Post(), []
    outbox.put(post, Letter(OPEN, told.append, lambda: False))
    outbox.join(10)
    assert (post.messages, told) == ([], [False])


def test_an_outbox_works_again_after_its_thread_has_ended() -> None:
    outbox, post, told = Outbox(), Post(), []
    for _ in range(3):
        outbox.put(post, Letter(OPEN, told.append))
        outbox.join(10)
    assert told == [True] * 3


# ---- With the alert in Redis


@pytest.fixture
def house(connection: redis.Redis) -> House:
    return House(connection)


def teller(house: House, *routes) -> Teller:
    return Teller(Book(house.connection), house.clock, routes)


def tell(teller: Teller, cause: str, count: int = 1) -> None:
    def write(sending: Sending) -> Message:
        return replace(OPEN, kind=sending.kind, cause=cause)

    teller.tell("calls", cause, count, write)


def causes(messages: list[Message]) -> list[tuple[str, str]]:
    return [(message.kind.value, message.cause) for message in messages]


def test_a_frozen_process_does_not_say_again_what_another_has_said_meanwhile(house: House, slow: Slow) -> None:
    frozen, post = teller(house, slow), Post()
    for cause in ("promise.slow", "promise.late"):
        tell(frozen, cause)
    assert slow.has_begun.wait(10)
    house.clock.advance(SENDING_S)
    other = teller(house, post)
    tell(other, "promise.late")
    other.outbox.join(10)
    slow.go.set()
    frozen.outbox.join(10)
    assert causes(post.messages) == [("open", "promise.late")]
    assert causes(slow.sent) == [("open", "promise.slow")]


def test_one_route_that_drips_for_minutes_gives_each_cause_once_when_it_is_well_again(house: House, slow: Slow) -> None:
    mine = teller(house, slow)
    tell(mine, "promise.late")
    assert slow.has_begun.wait(10)
    tell(mine, "promise.slow")
    for _ in range(34):
        house.clock.advance(5)
        tell(mine, "promise.slow")
    slow.go.set()
    mine.outbox.join(10)
    house.clock.advance(5)
    tell(mine, "promise.slow")
    mine.outbox.join(10)
    assert causes(slow.sent) == [("open", "promise.late"), ("open", "promise.slow")]


def test_a_message_that_has_waited_too_long_or_is_not_true_any_more_is_dropped(house: House, slow: Slow) -> None:
    mine = teller(house, slow)
    tell(mine, "promise.late")
    assert slow.has_begun.wait(10)
    tell(mine, "promise.slow")
    tell(mine, "silence")
    house.clock.advance(5)
    tell(mine, "silence", 0)
    house.clock.advance(SENDING_S - LONGEST_S)
    slow.go.set()
    mine.outbox.join(10)
    assert causes(slow.sent) == [("open", "promise.late")]


def test_without_redis_nothing_is_said_since_another_may_have_said_it(house: House, caplog: pytest.LogCaptureFixture) -> None:
    post = Post()
    mine = teller(house, post)
    book = mine.book
    mine.outbox.put = lambda route, letter: (setattr(mine, "book", Book(unreachable())), letter.told(letter.is_due()))
    tell(mine, "promise.late")
    assert "waits for Redis" in caplog.text
    assert "could not be written down" in caplog.text
    assert book.standing("calls", ["promise.late"])["promise.late"].routes["webhook"].by == mine.name

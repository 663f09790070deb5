"""What made no call: with its reason, for its time, and neither shelf at the cost of the other."""

from __future__ import annotations

import json

import pytest
import redis

from bridge.ledger import ignored, keys
from bridge.ledger.ignored import DROPPED, Shelf
from bridge.ledger.store import Store
from tests.support.builders import NOW
from tests.support.house import House

GARBAGE, OUTBOUND = "no call id", "outbound call"


@pytest.fixture
def store(connection: redis.Redis) -> Store:
    return House(connection).store


def document(number: int, **more: object) -> str:
    return json.dumps({"at": NOW + number, "number": number, **more})


def garbage(store: Store, *numbers: int, reason: str = GARBAGE, **more: object) -> None:
    for number in numbers:
        store.keep_ignored(document(number, **more), reason)


def numbers(store: Store, shelf: Shelf = Shelf.UNREAD, **asked) -> list[int]:
    return [event["number"] for event in store.ignored.page(shelf, **{"limit": 100} | asked).events]


def test_an_event_is_kept_with_its_reason_and_counted(store: Store, connection: redis.Redis) -> None:
    garbage(store, 1)
    store.keep_ignored(document(2), OUTBOUND, is_understood=True)
    (unread,), (other,) = (store.ignored.page(shelf, limit=9).events for shelf in Shelf)
    assert unread == {"at": NOW + 1, "number": 1, "reason": GARBAGE}
    assert other["reason"] == OUTBOUND
    assert store.ignored.counts() == {Shelf.UNREAD: 1, Shelf.OTHER: 1}
    assert connection.hgetall(keys.COUNT) == {b"events.ignored:no call id": b"1", b"events.ignored:outbound call": b"1"}


def test_outbound_calls_by_the_thousand_push_nothing_out_that_could_not_be_understood(store: Store, connection: redis.Redis) -> None:
    garbage(store, *range(3))
    for number in range(keys.OTHER_KEPT + 100):
        store.keep_ignored(document(number), OUTBOUND, is_understood=True)
    assert numbers(store) == [2, 1, 0]
    assert store.ignored.counts()[Shelf.OTHER] == keys.OTHER_KEPT
    assert numbers(store, Shelf.OTHER)[0] == keys.OTHER_KEPT + 99
    assert connection.hget(keys.COUNT, DROPPED) is None


def test_what_could_not_be_understood_is_bounded_by_bytes_and_what_goes_is_counted(
    store: Store, connection: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys, "UNREAD_BYTES", 10_000)
    garbage(store, *range(30), body="x" * 600)
    kept = numbers(store)
    assert kept == list(range(29, 29 - len(kept), -1)), "the newest"
    assert 5 < len(kept) < 15
    assert connection.hget(keys.COUNT, DROPPED) == str(30 - len(kept)).encode()
    assert int(connection.get(keys.shelf("unread")[2])) <= 10_000
    garbage(store, 30, body="x" * 20_000)
    assert numbers(store) == [30], "the newest stays, whatever its size"


def test_events_older_than_their_time_are_forgotten(store: Store, connection: redis.Redis) -> None:
    garbage(store, *range(20))
    store.keep_ignored(document(3), OUTBOUND, is_understood=True)
    store.clock.at = NOW + 20
    store.trim(ignored_s=10)
    assert numbers(store) == list(range(19, 9, -1))
    assert numbers(store, Shelf.OTHER) == []
    store.clock.at = NOW + 100
    store.trim(ignored_s=10)
    assert connection.get(keys.shelf("unread")[2]) == connection.get(keys.shelf("other")[2]) == b"0", "no bytes are counted for ever"


def test_pages_follow_one_another_newest_first_also_while_events_come_in(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ignored, "_BATCH", 4)
    garbage(store, *range(10))
    for _ in range(3):
        garbage(store, 10)  # three of one moment
    seen, after = [], None
    while True:
        page = store.ignored.page(Shelf.UNREAD, limit=2, after=after)
        seen += [event["number"] for event in page.events]
        after = page.after
        garbage(store, 99)
        if after is None:
            break
    assert seen == [10, 10, 10, *range(9, -1, -1)]


def test_a_page_of_one_reason_holds_that_alone(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ignored, "_BATCH", 3)
    for number in range(12):
        garbage(store, number, reason=GARBAGE if number % 5 else "could not be read: KeyError")
    assert numbers(store, reason="could not be read: KeyError") == [10, 5, 0]
    assert numbers(store, reason="no such") == []


def test_a_page_of_large_events_is_short(store: Store) -> None:
    garbage(store, *range(9), body="x" * 300_000)
    page = store.ignored.page(Shelf.UNREAD, limit=50)
    assert [event["number"] for event in page.events] == [8, 7, 6]
    assert numbers(store, after=page.after) == [5, 4, 3]


def test_events_that_version_1_0_0_kept_are_still_shown_and_go_in_their_time(store: Store, connection: redis.Redis) -> None:
    for number in range(ignored._BATCH + 7):
        connection.lpush(keys.IGNORED, document(number, method="POST", path="/webhooks/twilio"))
    garbage(store, 9000)
    page = store.ignored.page(Shelf.UNREAD, limit=2)
    assert [event["number"] for event in page.events] == [9000, ignored._BATCH + 6]
    assert page.events[1]["reason"] == ignored.BEFORE
    assert store.ignored.counts()[Shelf.UNREAD] == ignored._BATCH + 8
    assert not connection.exists(keys.IGNORED)
    connection.lpush(keys.IGNORED, document(1))  # from a web process that has not been restarted yet
    store.clock.at = NOW + 9010
    store.trim(ignored_s=60)
    assert numbers(store) == [9000]

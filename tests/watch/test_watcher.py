"""From a broken promise to its owner, and back: on a real Redis, with routes that can be read."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
import redis

from app import build_parts
from bridge.commands.worker import make_watcher
from bridge.ledger import keys, moves
from bridge.ledger.entry import Cause
from bridge.ledger.store import Change
from bridge.watch import alerts, promises
from bridge.watch.standing import GAP_S, Book, Kind
from bridge.watch.watcher import Watcher
from tests.rules.tree import ROOT
from tests.support.broken import unreachable
from tests.support.builders import PHONE, make_call, make_settings, make_trouble, parked_entry
from tests.support.house import House, make_store
from tests.watch.owner import Post, look


@pytest.fixture
def house(connection: redis.Redis) -> House:
    return House(connection)


@pytest.fixture
def post() -> Post:
    return Post()


def watching(house: House, *routes: Post, left_today: int | None = None, **of) -> Watcher:
    [calls] = promises.processes(make_settings())
    return Watcher(house.store, Book(house.connection), [replace(calls, **of)], routes, "https://ivr.example.com", lambda: left_today)


def test_a_late_call_is_told_with_all_that_its_owner_needs_and_closes_itself(house: House, post: Post) -> None:
    watch = watching(house, post)
    house.accept(make_call())
    house.clock.advance(60)
    look(watch)
    assert post.messages == []
    house.clock.advance(5)
    look(watch)
    [opened] = post.messages
    assert opened.title == "1 call waits longer than the promised 60 s; the oldest for 65 s."
    assert opened.lines[0] == "1 caller is affected."
    assert opened.lines[1].startswith("What to do: Open the console")
    assert (opened.owner, opened.link) == ("anna", "https://ivr.example.com/console")
    house.run()
    house.clock.advance(30)
    look(watch)
    look(watch)
    _, over = post.messages
    assert (over.kind, over.thread) == (Kind.OVER, opened.thread)
    assert over.title == "No call waits for the bridge longer than promised any more."
    assert over.lines == (
        "It was so from 2026-01-15 15:05:05 to 15:05:40 UTC (35 s).",
        "No call needs attention; none waits for the bridge.",
    ), "the call was late five seconds before the first look that saw it"


def test_an_owner_who_is_an_address_is_named_as_the_setting_names_them(house: House, post: Post) -> None:
    house.put(parked_entry())
    look(watching(house, post, owner="anna@example.com"))
    assert post.messages[0].below[-1] == "Owner: anna@example.com"


def test_a_failure_is_one_message_however_often_it_is_looked_at(house: House, post: Post) -> None:
    watch = watching(house, post)
    house.put(parked_entry())
    for _ in range(20):
        house.clock.advance(30)
        look(watch)
    assert post.told == [("open", "attention.permanent")]
    assert post.messages[0].link == "https://ivr.example.com/console/attention"


def test_two_watchers_say_it_once(house: House, post: Post) -> None:
    house.put(parked_entry(Cause.UNCERTAIN))
    watchers = [watching(house, post) for _ in range(2)]
    threads = [threading.Thread(target=look, args=(one,)) for one in watchers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    look(*watchers)
    assert post.told == [("open", "attention.uncertain")]


def test_a_route_that_fails_is_tried_at_the_next_look_and_the_others_are_not_told_twice(house: House, post: Post) -> None:
    mail = Post("email")
    watch = watching(house, post, mail)
    house.put(parked_entry())
    post.closed = True
    look(watch)
    assert (post.told, mail.told) == ([], [("open", "attention.permanent")])
    post.closed = False
    house.clock.advance(5)
    look(watch)
    assert post.told == mail.told == [("open", "attention.permanent")]


def test_sentry_hears_of_promises_and_not_again_of_single_failures(house: House) -> None:
    sentry = Post("sentry")
    house.put(parked_entry())
    look(watching(house, sentry, left_today=3))
    assert sentry.told == [("open", "crm.budget_left")]


@pytest.mark.parametrize("is_emptied", [False, True])
def test_a_deployment_to_which_no_call_has_ever_come_is_silent(house: House, post: Post, *, is_emptied: bool) -> None:
    """A wrong webhook address on the first day, or after Redis was emptied."""
    watch = watching(house, post, silence_s=600.0)
    if is_emptied:
        house.accept(make_call())
        house.run()
        look(watch)
        house.connection.flushall()
    look(watch)
    house.clock.advance(600)
    look(watch)
    assert post.messages == []
    house.clock.advance(5)
    look(watch)
    assert post.messages[0].title == "No call has come for 10 min, which is since the bridge was set up or Redis was emptied."
    house.accept(make_call())
    look(watch)
    assert (post.messages[1].kind, post.messages[1].title) == (Kind.OVER, "A call has come.")
    assert post.messages[1].lines[-1] == "No call needs attention; 1 call waits for the bridge."


def test_flapping_is_told_once_in_a_quarter_of_an_hour(house: House, post: Post) -> None:
    low, enough = watching(house, post, left_today=3), watching(house, post, left_today=150_000)
    for _ in range(10):
        look(low)
        look(enough)
        house.clock.advance(10)
    assert post.told == [("open", "crm.budget_left"), ("over", "crm.budget_left")]
    house.clock.advance(GAP_S)
    look(low)
    assert len(post.messages) == 3


def test_nothing_personal_is_told(house: House, post: Post) -> None:
    house.accept(make_call(caller_name="Ada Example"))
    house.clock.advance(4000)
    house.put(parked_entry())
    look(watching(house, post, left_today=0, silence_s=60.0))
    assert len(post.messages) >= 2
    assert not any(secret in repr(post.messages) for secret in (PHONE, PHONE[-4:], "Ada"))


def test_a_watcher_without_routes_writes_down_what_stands(house: House) -> None:
    house.put(parked_entry())
    look(watching(house))
    assert list(Book(house.connection).standing("calls", promises.CAUSES)) == ["attention.permanent"]


def test_a_late_call_that_comes_to_need_attention_is_named_as_what_is_left(house: House, post: Post) -> None:
    watch = watching(house, post)
    house.accept(make_call())
    house.clock.advance(65)
    look(watch)
    house.store.change(make_call().key, lambda entry, moment: Change(moves.park(entry, moment.now, make_trouble())))
    look(watch)
    over = next(message for message in post.messages if message.kind is Kind.OVER)
    assert over.lines[-1] == "1 call needs attention; none waits for the bridge."


def test_a_budget_that_cannot_be_told_now_is_no_budget_that_is_well_again(house: House, post: Post) -> None:
    look(watching(house, post, left_today=3))
    look(watching(house, post, left_today=None))
    assert post.told == [("open", "crm.budget_left")]
    look(watching(house, post, left_today=150_000))
    assert post.messages[-1].title == "150000 of 200000 requests to GoHighLevel are left for today."


def test_every_cause_stands_in_the_page() -> None:
    page = (ROOT / "docs" / "alerts.md").read_text(encoding="utf-8")
    assert [cause for cause in promises.CAUSES if f"`{cause}`" not in page] == []


def test_the_sweeper_checks_in_once_a_minute_for_each_process(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[str] = []
    monkeypatch.setattr(alerts, "check_in", checked.append)
    watch = watching(house)
    for _ in range(25):
        look(watch)
        house.clock.advance(5)
    assert checked == ["callbridge-calls"] * 3
    house.clock.advance(-86_400)
    look(watch)
    assert len(checked) == 4, "a clock that is set back is no silence"


def test_redis_that_is_away_is_the_sweepers_to_wait_out() -> None:
    [calls] = promises.processes(make_settings())
    connection = unreachable()
    watch = Watcher(make_store(connection), Book(connection), [calls], [], "https://ivr.example.com", lambda: None)
    with pytest.raises(redis.ConnectionError):
        watch.look()


def test_the_worker_watches_with_the_routes_of_its_settings(redis_url: str) -> None:
    parts = build_parts(make_settings(REDIS_URL=redis_url, ALERT_WEBHOOK_URL="https://hooks.example.com/x", GHL_DAILY="900"))
    watch = make_watcher(parts)
    assert [route.name for route in watch.routes] == ["webhook"]
    assert watch.left_today() == 900
    assert parts.connection.exists(keys.SWEEPER) == 0

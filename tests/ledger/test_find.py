"""Pages by any combination of indices, on a real Redis."""

from __future__ import annotations

from dataclasses import replace

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bridge.ledger import find, index, keys
from bridge.ledger.entry import Cause, Entry, State
from bridge.ledger.find import Wanted
from bridge.ledger.store import Change, Store
from tests.support.builders import NOW, Clock, make_call, make_entry, make_trouble
from tests.support.house import DONE_S, make_store

OTHER = "+15550105678"


@pytest.fixture
def store(connection: redis.Redis) -> Store:
    return make_store(connection)


def write(store: Store, entry: Entry) -> Entry:
    store.change(entry.call_key, lambda _old, _moment: Change(entry))
    return entry


def call(number: int, *, at: float | None = None, provider: str = "twilio", dialled: str = "+15550109999", **facts) -> Entry:
    entry = make_entry(facts=make_call(root_id=f"CA{number}", provider=provider, dialled=dialled))
    return replace(entry, accepted_at=NOW + (number if at is None else at), **facts)


def all_pages(store: Store, wanted: Wanted, limit: int, **more) -> list[Entry]:
    found: list[Entry] = []
    after = None
    while True:
        page = store.find.page(wanted, after=after, limit=limit, **more)
        found += page.entries
        after = page.after
        if after is None:
            return found


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(
        st.tuples(
            st.integers(0, 5), st.sampled_from(["twilio", "telnyx"]), st.sampled_from(["+15550109999", OTHER]), st.sampled_from(State)
        ),
        max_size=30,
    ),
    limit=st.integers(1, 7),
    newest=st.booleans(),
    wanted=st.builds(
        Wanted,
        state=st.none() | st.sampled_from(State),
        provider=st.none() | st.just("twilio"),
        dialled=st.none() | st.just(OTHER),
        since=st.none() | st.just(NOW + 2),
        until=st.none() | st.just(NOW + 4),
    ),
)
def test_pages_hold_every_call_that_fits_exactly_once_in_order(connection, rows, limit, newest, wanted) -> None:
    connection.flushall()
    store = make_store(connection)
    entries = [
        write(store, call(number, at=at, provider=provider, dialled=dialled, state=state))
        for number, (at, provider, dialled, state) in enumerate(rows)
    ]
    fitting = [entry for entry in entries if fits(entry, wanted)]
    expected = sorted(fitting, key=lambda entry: (entry.accepted_at, entry.call_key), reverse=newest)
    assert all_pages(store, wanted, limit, newest=newest) == expected


def fits(entry: Entry, wanted: Wanted) -> bool:
    return (
        wanted.state in (None, entry.state)
        and wanted.provider in (None, entry.facts.provider)
        and wanted.dialled in (None, entry.facts.dialled)
        and (wanted.since is None or entry.accepted_at >= wanted.since)
        and (wanted.until is None or entry.accepted_at < wanted.until)
    )


def test_a_page_that_had_to_pass_over_too_much_ends_early_with_a_cursor(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(find, "LOOK_LIMIT", 4)
    monkeypatch.setattr(find, "_BATCH", 2)
    for number in range(10):
        write(store, call(number, provider="twilio", dialled=OTHER if number % 2 else "+15550109999", contact_id=f"c{number % 2}"))
    wanted = Wanted(dialled=OTHER, contact="c0")
    page = store.find.page(wanted, after=None, limit=5)
    assert page.entries == ()
    assert page.after is not None
    assert all_pages(store, wanted, 5) == []


def test_the_smallest_index_is_walked(store: Store, connection: redis.Redis) -> None:
    for number in range(20):
        write(store, call(number))
    rare = write(store, call(99, provider="telnyx"))
    connection.config_resetstat()
    assert store.find.page(Wanted(provider="telnyx", dialled="+15550109999"), after=None, limit=5).entries == (rare,)
    assert connection.info("commandstats")["cmdstat_zrange"]["calls"] == 1


def test_the_most_urgent_question_comes_first(store: Store) -> None:
    for number, due in enumerate((30, 10, 20)):
        trouble = replace(make_trouble(Cause.PERMANENT if number else Cause.EXHAUSTED), due_at=NOW + due)
        write(store, call(number, state=State.NEEDS_ATTENTION, trouble=trouble))
    assert [entry.call_key for entry in all_pages(store, Wanted(), 2, urgent=True)] == ["twilio-CA1", "twilio-CA2", "twilio-CA0"]
    assert [entry.call_key for entry in all_pages(store, Wanted(cause=Cause.PERMANENT), 1, urgent=True)] == ["twilio-CA1", "twilio-CA2"]
    assert (store.find.overdue(NOW + 15), store.find.overdue(NOW + 5)) == (1, 0)


def test_rows_of_expired_calls_leave_the_index_in_which_they_are_met(store: Store, connection: redis.Redis) -> None:
    for number in range(6):
        write(store, call(number))
    connection.delete(*(keys.entry(f"twilio-CA{number}") for number in range(4)))
    assert [entry.call_key for entry in all_pages(store, Wanted(provider="twilio"), 2)] == ["twilio-CA4", "twilio-CA5"]
    assert connection.zrange("cb:index:provider:twilio", 0, -1) == [b"twilio-CA4", b"twilio-CA5"]


def test_one_index_can_tell_how_many_there_are(store: Store) -> None:
    for number in range(4):
        write(store, call(number))
    assert store.find.count(Wanted(provider="twilio", since=NOW + 1)) == 3
    assert store.find.count(Wanted(provider="twilio", dialled=OTHER)) is None


def test_a_call_that_is_about_to_expire_is_forgotten_with_all_its_rows(store: Store, connection: redis.Redis) -> None:
    old = write(store, call(1, state=State.DONE, contact_id="c1"))
    kept = write(store, call(2, state=State.DONE, contact_id="c2"))
    connection.expire(keys.entry(old.call_key), 60)
    assert isinstance(store.clock, Clock)
    store.clock.advance(DONE_S + 10)
    assert store.trim(ignored_s=60) == 1
    assert store.get(old.call_key) is None
    for name in index.rows(old):
        assert connection.zscore(name, old.call_key) is None, name
    for name in index.rows(kept):
        assert connection.zscore(name, kept.call_key) is not None, name


def test_the_hours_are_counted_with_the_change_itself(store: Store) -> None:
    first = call(1)
    write(store, first)
    write(store, call(2))
    write(store, replace(first, contact_id="c1"))
    hour = index.hour(NOW)
    assert store.hours(hour, hour) == {(hour, "accepted"): 2, (hour, "leads"): 1}
    assert store.hours(hour + 1, hour + 30) == {}

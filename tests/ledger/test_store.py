"""One EXEC holds an entry and everything that belongs to it; whoever loses a race decides again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest
import redis

from bridge.call import Status
from bridge.errors import Fenced
from bridge.ledger import keys, moves
from bridge.ledger.entry import Entry, Plan, State
from bridge.ledger.store import Change, Store
from bridge.ledger.trail import line
from tests.support.broken import AFTER, BEFORE, Cut, breaking, unreachable
from tests.support.builders import KEY, NOW, Clock, done_entry, make_call, make_entry, make_trouble, queued_entry, running_entry
from tests.support.house import ATTENTION_S, DONE_S, make_store

JOB = f"rq:job:{KEY}"
QUEUE = "rq:queue:calls"


@pytest.fixture
def store(connection: redis.Redis) -> Store:
    return make_store(connection)


def write(store: Store, entry: Entry, **change) -> None:
    store.change(entry.call_key, lambda _old, _moment: Change(entry, **change))


def whole(store: Store, entry: Entry) -> None:
    write(store, entry, told=(line(NOW, "event new"),), raw="{}", counts=("events.new",))


def left_behind(connection: redis.Redis) -> set[str]:
    return {name.decode() for name in connection.keys("*")}


# ---- All or nothing


def test_entry_trail_raw_event_index_and_job_are_one_transaction(store: Store, connection: redis.Redis) -> None:
    with connection.monitor() as monitor:
        commands: list[str] = []
        watching = threading.Thread(target=lambda: commands.extend(until_exec(monitor)))
        watching.start()
        whole(store, queued_entry())
        watching.join(5)
    inside = commands[commands.index("MULTI") + 1 : commands.index("EXEC")]
    assert commands[-1] == "EXEC"
    assert commands[: commands.index("MULTI")] == ["WATCH", "MGET"]
    wanted = {f"SET {keys.entry(KEY)}", f"RPUSH {keys.trail(KEY)}", f"RPUSH {keys.raw(KEY)}", f"ZADD {keys.DUE}", f"ZADD {keys.ALL}"}
    wanted |= {f"ZADD {keys.state_index('accepted')}", f"HSET {JOB}", f"RPUSH {QUEUE}", f"HINCRBY {keys.COUNT}"}
    assert wanted <= set(inside)


def until_exec(monitor) -> Iterator[str]:
    """What other clients send: the command, inside the transaction with its key."""
    is_inside = False
    for heard in monitor.listen():
        words = heard["command"].split(" ")
        name = words[0].upper()
        if name in {"CLIENT", "HELLO", "SELECT"} or heard["client_type"] == "lua":
            continue
        yield f"{name} {words[1]}" if is_inside and len(words) > 1 else name
        is_inside = is_inside or name == "MULTI"
        if name == "EXEC":
            return


@pytest.mark.parametrize("at", range(1, 4))
def test_a_connection_that_dies_at_any_command_leaves_all_or_nothing(redis_url: str, connection: redis.Redis, at: int) -> None:
    cut = Cut(at, BEFORE)
    store = make_store(breaking(redis_url, cut))
    cut.armed = True
    try:
        whole(store, queued_entry())
    except redis.RedisError:
        assert left_behind(connection) == set()
    else:
        assert {keys.entry(KEY), keys.trail(KEY), keys.raw(KEY), keys.DUE, JOB, QUEUE} <= left_behind(connection)
        assert connection.llen(QUEUE) == 1


def test_a_transaction_that_dies_at_exec_leaves_neither_entry_nor_job(redis_url: str, connection: redis.Redis) -> None:
    cut = Cut(3, "gone", armed=True)
    with pytest.raises(redis.RedisError):
        whole(make_store(breaking(redis_url, cut)), queued_entry())
    assert cut.sent >= 3, "WATCH and MGET came through, and the transaction did not"
    assert left_behind(connection) == set()


def test_a_lost_answer_is_decided_again_on_what_was_written(redis_url: str, connection: redis.Redis) -> None:
    cut = Cut(3, AFTER)
    store = make_store(breaking(redis_url, cut))
    cut.armed = True
    seen: list[Entry | None] = []

    def decide(old: Entry | None, _moment) -> Change | None:
        seen.append(old)
        return None if old else Change(queued_entry())

    assert store.change(KEY, decide) == queued_entry()
    assert seen == [None, queued_entry()]
    assert connection.lrange(QUEUE, 0, -1) == [KEY.encode()]


def test_a_redis_that_is_away_is_an_error_of_redis() -> None:
    with pytest.raises(redis.ConnectionError):
        whole(make_store(unreachable()), queued_entry())


def test_what_a_decision_raises_changes_nothing(store: Store, connection: redis.Redis) -> None:
    def refuse(_old, _moment):
        raise Fenced("not yours")

    with pytest.raises(Fenced):
        store.change(KEY, refuse)
    assert left_behind(connection) == set()
    whole(store, queued_entry())
    assert store.get(KEY) == queued_entry()


def test_a_decision_for_nothing_writes_nothing(store: Store, connection: redis.Redis) -> None:
    whole(store, queued_entry())
    before = connection.get(keys.entry(KEY))
    assert store.change(KEY, lambda _old, _moment: None) == queued_entry()
    assert connection.get(keys.entry(KEY)) == before
    assert store.change("nobody", lambda _old, _moment: None) is None


def test_the_loser_of_a_race_decides_again(store: Store, redis_url: str) -> None:
    other = make_store(redis.Redis.from_url(redis_url))
    write(store, make_entry())
    tries: list[int] = []

    def decide(old: Entry | None, _moment) -> Change:
        assert old is not None
        tries.append(old.version)
        if len(tries) == 1:
            write(other, replace(old, version=7))
        return Change(replace(old, version=old.version + 1))

    changed = store.change(KEY, decide)
    assert tries == [1, 7]
    assert changed is not None
    assert changed.version == 8
    other.connection.close()


def test_the_ledger_knows_when_it_was_born(store: Store, connection: redis.Redis) -> None:
    clock = store.clock
    born: list[float] = []

    def decide(_old, moment) -> Change:
        born.append(moment.born)
        return Change(make_entry())

    store.change(KEY, decide)
    assert isinstance(clock, Clock)
    clock.advance(500)
    store.change(KEY, decide)
    assert born == [NOW, NOW]
    assert float(connection.get(keys.BORN) or 0) == NOW


# ---- Jobs


def test_a_job_is_put_whenever_the_entry_was_queued_anew(store: Store, connection: redis.Redis) -> None:
    write(store, queued_entry())
    assert connection.llen(QUEUE) == 1
    connection.delete(QUEUE)
    write(store, replace(queued_entry(), version=2))
    assert connection.llen(QUEUE) == 0, "nothing asked for a job"
    write(store, moves.queue_again(queued_entry(), NOW + 20))
    assert connection.lrange(QUEUE, 0, -1) == [KEY.encode()]


# ---- Indices


def indexed(connection: redis.Redis) -> tuple[dict[str, float], set[str]]:
    due = {name.decode(): at for name, at in connection.zrange(keys.DUE, 0, -1, withscores=True)}
    return due, {state.value for state in State if connection.zscore(keys.state_index(state), KEY) is not None}


def test_the_indices_are_right_after_every_move(store: Store, connection: redis.Redis) -> None:
    queued = queued_entry()
    story = [
        queued,
        moves.check_later(queued, NOW + 20),
        running := running_entry(),
        moves.renew(running, NOW + 5, lease_s=30),
        moves.put_back(running, NOW, delay=4),
        moves.wait(running, NOW, delay=9, spend=True, cause="c", message="m", step=None, trace_id=None),
        moves.finish(running, Plan(wait_until=NOW + 60), NOW),
        running,
        parked := moves.park(running, NOW, make_trouble(), unreported=True),
        moves.reported(parked),
        moves.replay(parked, NOW + 1),
        running,
        moves.park(running, NOW, make_trouble()),
        moves.close(parked, reason="r", by="anna"),
        done_entry(),
        moves.queue(done_entry(), NOW + 2),
    ]
    for entry in story:
        write(store, entry)
        due, states = indexed(connection)
        assert states == {entry.state.value}
        assert due == ({} if entry.look_at is None else {KEY: entry.look_at})
        assert connection.zrange(keys.ALL, 0, -1, withscores=True) == [(KEY.encode(), NOW)]


# ---- Retention


def lives(connection: redis.Redis) -> set[int]:
    return {connection.ttl(name) for name in keys.of_call(KEY)}


def test_everything_of_a_call_lives_and_dies_together(store: Store, connection: redis.Redis) -> None:
    whole(store, queued_entry())
    store.count_repeat(KEY, "f1")
    assert lives(connection) == {-1}, "an open call never expires"
    write(store, done_entry())
    assert lives(connection) <= {DONE_S, DONE_S - 1}
    connection.expire(keys.entry(KEY), 1000)
    connection.expire(keys.repeats(KEY), 77)
    store.count_repeat(KEY, "f1")
    assert connection.ttl(keys.repeats(KEY)) in {999, 1000}, "as long as the entry, not longer"
    write(store, moves.queue(done_entry(), NOW + 1), told=(line(NOW, "reopened"),))
    assert lives(connection) == {-1}
    write(store, moves.close(running_entry(), reason="r", by="anna"))
    assert lives(connection) <= {ATTENTION_S, ATTENTION_S - 1}


def test_a_repeat_of_a_forgotten_call_leaves_no_key(store: Store, connection: redis.Redis) -> None:
    store.count_repeat(KEY, "f1")
    assert left_behind(connection) == {keys.COUNT}


def test_repeats_are_counted_by_event(store: Store, connection: redis.Redis) -> None:
    write(store, queued_entry())
    for fingerprint in ("f1", "f2", "f1"):
        store.count_repeat(KEY, fingerprint)
    assert connection.hgetall(keys.repeats(KEY)) == {b"f1": b"2", b"f2": b"1"}
    assert connection.hget(keys.COUNT, "events.repeat") == b"3"


def test_trail_and_raw_events_are_bounded(store: Store, connection: redis.Redis) -> None:
    told = tuple(line(NOW + number, "x", number=number) for number in range(keys.TRAIL_LINES + 5))
    write(store, make_entry(), told=told)
    for number in range(keys.RAW_EVENTS + 3):
        write(store, make_entry(), raw=str(number))
    assert [story["number"] for story in store.trail(KEY)] == list(range(5, keys.TRAIL_LINES + 5)), "the newest lines, oldest first"
    assert connection.lrange(keys.raw(KEY), 0, -1) == [str(number).encode() for number in range(keys.RAW_EVENTS)]


def test_rows_of_expired_calls_are_trimmed(store: Store, connection: redis.Redis) -> None:
    for number in range(5):
        write(store, calls(number, state=State.DONE))
    gone, kept = [f"twilio-CA{number}" for number in (0, 3)], [f"twilio-CA{number}" for number in (1, 2, 4)]
    connection.delete(*(keys.entry(call_key) for call_key in gone))
    assert isinstance(store.clock, Clock)
    assert store.trim(ignored_s=60) == 0, "an entry younger than its retention has not expired"
    store.clock.advance(DONE_S + 10)
    assert store.trim(ignored_s=60) == 2
    for index in (keys.ALL, keys.state_index(State.DONE)):
        assert connection.zrange(index, 0, -1) == [call_key.encode() for call_key in kept]


# ---- Reading


def calls(number: int, *, at: float = 0.0, state: State = State.ACCEPTED) -> Entry:
    return replace(make_entry(facts=make_call(root_id=f"CA{number}", status=Status.RINGING)), accepted_at=NOW + (at or number), state=state)


def test_pages_follow_one_another_without_gap_or_repeat(store: Store) -> None:
    entries = [calls(number, at=number // 4) for number in range(10)]
    for entry in entries:
        write(store, entry)
    found: list[Entry] = []
    after = None
    while page := store.page(State.ACCEPTED, after=after, limit=3):
        found += page
        after = page[-1].accepted_at, page[-1].call_key
    assert sorted(found, key=lambda entry: entry.call_key) == sorted(entries, key=lambda entry: entry.call_key)
    assert found == sorted(found, key=lambda entry: (entry.accepted_at, entry.call_key))
    assert store.page(State.DONE, after=None, limit=3) == []
    assert len(store.page(None, after=None, limit=50)) == 10


def test_a_page_passes_over_calls_that_have_expired(store: Store, connection: redis.Redis) -> None:
    for number in range(10):
        write(store, calls(number))
    connection.delete(*(keys.entry(f"twilio-CA{number}") for number in range(6)))
    assert [entry.call_key for entry in store.page(None, after=None, limit=2)] == ["twilio-CA6", "twilio-CA7"]


def test_a_page_leaves_out_what_cannot_be_read_and_says_so(store: Store, connection: redis.Redis, caplog) -> None:
    for number in range(3):
        entry = make_entry(facts=make_call(root_id=f"CA{number}"))
        store.change(entry.call_key, lambda _old, _moment, entry=entry: Change(entry))
    connection.set(keys.entry("twilio-CA1"), b"{")
    assert [entry.call_key for entry in store.page(None, after=None, limit=10)] == ["twilio-CA0", "twilio-CA2"]
    [told] = [record for record in caplog.records if record.levelname == "ERROR"]
    assert told.call_key == "twilio-CA1"


def test_due_calls_come_most_overdue_first(store: Store) -> None:
    for number in (2, 1, 3):
        write(store, moves.queue(calls(number), NOW + number))
    due_at = NOW + moves.CHECK_QUEUED_AFTER_S
    assert store.due(due_at + 2, 10) == ["twilio-CA1", "twilio-CA2"]
    assert store.due(due_at + 9, 2) == ["twilio-CA1", "twilio-CA2"]
    store.drop_due("twilio-CA1")
    assert store.due(due_at + 2, 10) == ["twilio-CA2"]


def test_counting_nothing_asks_nothing() -> None:
    store = make_store(unreachable())
    store.count_many({})
    with pytest.raises(redis.ConnectionError):
        store.count_many({"refused.twilio:forged": 2})


def test_a_process_that_knew_another_ledger_tells_all_that_redis_lost_everything(connection):
    known, fresh = make_store(connection, Clock()), make_store(connection, Clock(NOW + 10))
    seen: list[bool] = []

    def look(entry, moment):
        seen.append(moment.replaced)
        return Change(make_entry()) if entry is None else None

    known.change(KEY, look)
    known.watch_birth()
    connection.flushall()
    fresh.change(KEY, look)
    known.watch_birth()
    fresh.change(KEY, look)
    assert seen == [False, False, True], "a new deployment is not suspicious, a replaced ledger is, to everybody"


def test_a_new_ledger_replaced_nothing(connection):
    store = make_store(connection, Clock())
    for _ in range(2):
        store.watch_birth()
        store.change(KEY, lambda entry, moment: Change(make_entry()) if entry is None else None)
    assert not connection.exists(keys.REPLACED)


def test_a_call_that_was_tried_goes_before_those_that_wait(connection):
    store = make_store(connection, Clock())
    first, tried = make_call(root_id="CAfirst"), make_call(root_id="CAtried")
    failed = moves.wait(
        running_entry(facts=tried), NOW, delay=0, spend=True, cause="crm.timeout", message="no answer", step=None, trace_id=None
    )
    store.change(first.key, lambda _entry, _moment: Change(queued_entry(facts=first)))
    store.change(tried.key, lambda _entry, moment: Change(moves.queue(failed, moment.now)))
    assert connection.lrange("rq:queue:calls", 0, -1) == [tried.key.encode(), first.key.encode()]


def test_a_thread_that_read_before_the_birth_was_written_is_no_sign_of_a_loss(connection):
    """Calls that come at once into a new ledger: one reads "none", another writes the birth, a third has learnt of it."""
    store = make_store(connection, Clock())
    store.change(KEY, lambda _entry, _moment: Change(make_entry()))
    store.watch_birth()
    assert not store._is_replaced(None)
    assert not connection.exists(keys.REPLACED)
    connection.delete(keys.BORN)
    assert store._is_replaced(None)
    assert connection.exists(keys.REPLACED)

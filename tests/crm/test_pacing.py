import threading
import time

import pytest
import redis

from bridge.crm.causes import Cause
from bridge.crm.pacing import Pacing, Remaining
from bridge.errors import NotYet, Transient


def drain(pacing, count, **kwargs):
    return [pacing.take("loc1", **kwargs) for _ in range(count)]


def ttl(connection, part):
    return connection.pttl(f"cb:pace:loc1:{part}") / 1000


def test_burst_is_granted_and_the_next_one_waits_for_the_oldest(connection):
    pacing = Pacing(connection, burst=5, window_s=10)
    assert drain(pacing, 5) == [0] * 5
    assert 9 < pacing.take("loc1") <= 10.01


def test_locations_do_not_share_a_budget(connection):
    pacing = Pacing(connection, burst=1)
    assert [pacing.take("loc1"), pacing.take("loc2")] == [0, 0]


def test_four_threads_never_exceed_the_shared_budget_in_any_window(connection, redis_url):
    """Each grant happened between two readings of the clock, so 51 of them surely inside one window are a proof of excess."""
    limit, window_s, grants = 50, 1.0, []

    def work():
        with redis.Redis.from_url(redis_url) as own:
            pacing = Pacing(own, burst=limit, window_s=window_s)
            for _ in range(60):
                before = time.monotonic()
                while wait_s := pacing.take("loc1"):
                    time.sleep(wait_s)
                    before = time.monotonic()
                grants.append((before, time.monotonic()))

    threads = [threading.Thread(target=work) for _ in range(4)]
    started = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took_s = time.monotonic() - started
    assert len(grants) == 240
    for start, _ in grants:
        assert sum(before >= start and after <= start + window_s for before, after in grants) <= limit
    assert 4 * window_s <= took_s < 4 * window_s + 1.5  # a freed window is used promptly


def test_background_work_leaves_the_last_part_of_a_burst_to_live_calls(connection):
    pacing = Pacing(connection, burst=10)
    assert drain(pacing, 8, background=True)[:7] == [0] * 7
    assert pacing.take("loc1", background=True) > 0
    assert drain(pacing, 3) == [0] * 3
    assert pacing.take("loc1") > 0


def test_background_wait_counts_what_live_calls_have_used(connection):
    pacing = Pacing(connection, burst=10, window_s=0.3)
    drain(pacing, 10)
    time.sleep(pacing.take("loc1", background=True))
    assert pacing.take("loc1", background=True) == 0


def test_short_wait_is_slept_and_then_granted(connection):
    pacing = Pacing(connection, burst=1, window_s=0.2)
    started = time.monotonic()
    pacing.wait("loc1")
    pacing.wait("loc1")
    assert 0.15 < time.monotonic() - started < 1


def test_long_wait_hands_back_at_once_with_its_time(connection):
    pacing = Pacing(connection, burst=1, window_s=10, sleep=pytest.fail)
    pacing.wait("loc1")
    with pytest.raises(NotYet) as caught:
        pacing.wait("loc1")
    assert caught.value.cause == Cause.BUDGET
    assert 9 < caught.value.retry_in <= 10.01


def test_sleeps_add_up_to_two_seconds_at_most(connection):
    slept = []
    pacing = Pacing(connection, burst=1, window_s=1.5, sleep=slept.append)  # others take each freed place: time stands still
    pacing.wait("loc1")
    with pytest.raises(NotYet):
        pacing.wait("loc1")
    assert 0 < sum(slept) <= 2


def test_daily_limit_holds_and_is_asked_again_within_a_quarter_of_an_hour(connection):
    pacing = Pacing(connection, daily=3)
    assert drain(pacing, 3) == [0] * 3
    with pytest.raises(NotYet) as caught:
        pacing.wait("loc1")
    assert caught.value.cause == Cause.DAILY_LIMIT
    assert 0 < caught.value.retry_in <= 900


def test_server_that_counts_more_than_we_do_is_believed(connection):
    pacing = Pacing(connection, burst=100)
    drain(pacing, 10)
    pacing.learn("loc1", 200, {"x-ratelimit-remaining": "2"})
    assert pacing.remaining("loc1").burst == 2
    assert drain(pacing, 3)[:2] == [0, 0]
    assert pacing.take("loc1") > 0


def test_server_that_counts_less_than_we_do_is_not_believed(connection):
    pacing = Pacing(connection, burst=10)
    drain(pacing, 8)
    pacing.learn("loc1", 200, {"x-ratelimit-remaining": "95"})
    assert pacing.remaining("loc1").burst == 2


def test_what_others_used_is_forgotten_with_the_window(connection):
    pacing = Pacing(connection, burst=10, window_s=0.2)
    pacing.learn("loc1", 200, {"x-ratelimit-remaining": "0"})
    time.sleep(pacing.take("loc1"))
    assert drain(pacing, 10) == [0] * 10


def test_day_that_the_server_calls_spent_stops_all_for_a_quarter_of_an_hour(connection, redis_url):
    Pacing(connection).learn("loc1", 200, {"x-ratelimit-daily-remaining": "0"})
    with redis.Redis.from_url(redis_url) as other:
        assert 890 < Pacing(other).take("loc1") <= 900


def test_servers_count_of_the_day_goes_down_with_our_grants_and_lower_words(connection):
    pacing = Pacing(connection)
    pacing.learn("loc1", 200, {"x-ratelimit-daily-remaining": "5"})
    drain(pacing, 2)
    pacing.learn("loc1", 200, {"x-ratelimit-daily-remaining": "4"})  # an older answer that comes late
    assert pacing.remaining("loc1").daily == 3
    assert ttl(connection, "left") > 0
    assert drain(pacing, 4)[:3] == [0, 0, 0]
    assert pacing.take("loc1") > 800


def test_429_stops_every_process_until_its_time(connection, redis_url):
    Pacing(connection).learn("loc1", 429, {"retry-after": "30"})
    with redis.Redis.from_url(redis_url) as own:
        other = Pacing(own)
        assert 29 < other.take("loc1") <= 30
        assert 29 < other.remaining("loc1").paused_s <= 30


def test_an_odd_pause_is_believed_for_a_quarter_of_an_hour(connection):
    Pacing(connection).learn("loc1", 429, {"retry-after": "999999999999"})
    assert 890 < Pacing(connection).take("loc1") <= 900


def test_shorter_pause_does_not_cut_a_longer_one(connection):
    pacing = Pacing(connection)
    pacing.learn("loc1", 429, {"retry-after": "30"})
    pacing.learn("loc1", 429, {"retry-after": "1"})
    assert pacing.take("loc1") > 29


def test_pause_ends_by_itself(connection):
    pacing = Pacing(connection)
    pacing.learn("loc1", 429, {"retry-after": "0.1"})
    pacing.wait("loc1")
    assert pacing.remaining("loc1").paused_s == 0


def test_answer_without_rate_headers_changes_nothing(connection):
    Pacing(connection).learn("loc1", 200, {"x-ratelimit-remaining": "many"})
    assert connection.keys() == []


def test_remaining_of_an_unused_location_is_the_whole_budget_and_reading_it_writes_nothing(connection):
    assert Pacing(connection, burst=7, daily=11).remaining("loc1") == Remaining(burst=7, daily=11, paused_s=0)
    assert connection.keys() == []


def test_clock_set_back_does_not_stop_work(connection):
    connection.zadd("cb:pace:loc1:sent", {f"future{i}": (time.time() + 3600) * 1000 for i in range(100)})
    assert Pacing(connection).take("loc1") == 0


def test_every_key_has_an_end(connection):
    pacing = Pacing(connection)
    pacing.take("loc1")
    pacing.learn("loc1", 429, {"x-ratelimit-remaining": "1", "x-ratelimit-daily-remaining": "1"})
    assert connection.dbsize() == 4
    assert all(connection.pttl(key) > 0 for key in connection.scan_iter())


def test_text_answers_of_a_decoding_client_are_understood(redis_url):
    with redis.Redis.from_url(redis_url, decode_responses=True) as client:
        pacing = Pacing(client, daily=1)
        assert pacing.take("loc1") == 0
        with pytest.raises(NotYet) as caught:
            pacing.wait("loc1")
        assert caught.value.cause == Cause.DAILY_LIMIT


@pytest.fixture
def unreachable():
    with redis.Redis(host="127.0.0.1", port=1, retry=None) as client:
        yield Pacing(client)


@pytest.mark.parametrize("ask", [Pacing.take, Pacing.wait, Pacing.remaining])
def test_without_redis_the_attempt_comes_again(unreachable, ask):
    with pytest.raises(Transient) as caught:
        ask(unreachable, "loc1")
    assert caught.value.cause == Cause.REDIS


def test_without_redis_an_answer_is_not_lost(unreachable):
    assert unreachable.learn("loc1", 429, {"x-ratelimit-remaining": "1"}) is None  # returns: the answer itself is worth more than the count

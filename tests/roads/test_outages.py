"""Redis or GoHighLevel is away while callers ring."""

from __future__ import annotations

import signal
import time
from datetime import datetime

from bridge.intake.spool import Spool
from bridge.sandbox.phone import send

CALLER_WAITS_S = 3.0  # Twilio gives up after 15 s (https://www.twilio.com/docs/voice/twiml), a caller much earlier


def ring(road, count):
    """`count` new callers ring, one after the other; each hears TwiML in time. Their calls."""
    calls = [road.call() for _ in range(count)]
    for call in calls:
        began = time.monotonic()
        answer = send(road.phone.voice(call))
        assert time.monotonic() - began < CALLER_WAITS_S
        assert answer.status_code == 200
        assert answer.headers["Content-Type"].startswith("text/xml")
        assert b"<Response" in answer.content
    return calls


def spooled(road):
    """How often the web has said that it turns to the spool."""
    return road.deployment.log("web-1").read_text().count("events go to the spool")


def test_callers_hear_the_ivr_while_redis_is_gone_and_become_leads_when_it_is_back(rough_road):
    road = rough_road
    road.deployment.stop_part("redis")
    calls = ring(road, 8)
    road.play(road.ended(call) for call in calls)
    assert (road.deployment.folder / "spool.sqlite3").exists()
    road.deployment.start_part("redis")
    entries = road.await_done(calls)
    assert all(entry["source"] == "spool" for entry in entries)
    for call in calls:
        road.assert_one_lead(call)


def test_callers_hear_the_ivr_while_redis_hangs(rough_road):
    road = rough_road
    road.deployment.send("redis", signal.SIGSTOP)
    try:
        calls = ring(road, 4)
        assert Spool(road.deployment.folder / "spool.sqlite3").count() == 4
    finally:
        road.deployment.send("redis", signal.SIGCONT)
    road.play(road.ended(call) for call in calls)
    road.await_done(calls)
    for call in calls:
        road.assert_one_lead(call)


def test_callers_hear_the_ivr_in_time_after_redis_was_killed_and_nothing_accepted_is_lost(rough_road):
    road = rough_road
    before = ring(road, 3)
    time_of_fsync = time.monotonic() + 1.1  # `appendfsync everysec`: what is older than that survives
    road.await_true(lambda: time.monotonic() > time_of_fsync, "Redis has written its file")
    road.deployment.kill("redis")
    during = ring(road, 3)
    road.deployment.start_part("redis")
    calls = [*before, *during]
    road.play(road.ended(call) for call in calls)
    road.await_done(calls)
    for call in calls:
        road.assert_one_lead(call)


def test_retries_start_within_two_seconds_of_their_time_and_succeed_once_gohighlevel_is_back(rough_road):
    road = rough_road
    road.deployment.stop_part("ghl")
    calls = [road.call() for _ in range(3)]
    road.play(road.ended(call) for call in calls)
    road.await_true(lambda: all(len(road.entry(call).get("attempts", [])) >= 3 for call in calls), "each was tried three times")
    road.deployment.start_part("ghl")
    for call in calls:
        attempts = road.await_state(call)["attempts"]
        assert [attempt["outcome"] for attempt in attempts] == ["again"] * (len(attempts) - 1) + ["done"]
        assert all(-0.1 < late < 2.0 for late in lateness(attempts)), lateness(attempts)
        assert road.alerts(call) == []
        road.assert_one_lead(call)


def lateness(attempts):
    """How many seconds after its time each retry began."""
    due = [datetime.fromisoformat(attempt["next_try_at"]) for attempt in attempts[:-1]]
    began = [datetime.fromisoformat(attempt["began_at"]) for attempt in attempts[1:]]
    return [(one - other).total_seconds() for one, other in zip(began, due, strict=True)]

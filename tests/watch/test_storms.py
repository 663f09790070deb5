"""Floods of failures, and a bridge that is late or dead: what Sentry and the owner get to see, with real processes and a real SDK."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import redis

from bridge.ledger import keys, moves
from bridge.sandbox.sentry import Mood, SentryServer
from bridge.watch import promises
from bridge.watch.standing import Book
from bridge.watch.watcher import Watcher
from tests.support.builders import ENVIRONMENT, NOW, make_call, make_settings, make_trouble, running_entry
from tests.support.house import House
from tests.watch.owner import Post, look

ROOT = Path(__file__).parents[2]

# Four processes at once, as forked work horses are; each fails as an attempt does. Most of a large storm asks the guard and makes no
# event of it: an event takes the SDK some milliseconds, and the guard is what is tried here.
STORM = """
import os, sys, time
from bridge.errors import Permanent
from bridge.watch import alerts
from bridge.watch.guard import StormGuard
dsn, url, times = sys.argv[1], sys.argv[2], int(sys.argv[3]) // 4
guard = StormGuard(url)
alerts.configure(dsn, owner="ops", admit=guard.admit)
children = []
for _ in range(4):
    child = os.fork()
    if child == 0:
        for number in range(min(times, 20)):
            error = Permanent(f"refused {number}", cause="crm.402")
            alerts.report(error, call_key=f"twilio-CA{number}", owner="ops", cause="crm.402")
        for _ in range(max(times - 20, 0)):
            guard.admit("callbridge crm.402")
        alerts.flush()
        os._exit(0)
    children.append(child)
failed = sum(os.waitpid(child, 0)[1] for child in children)
alerts.report("the token is not accepted", call_key="twilio-CA1", owner="ops", cause="crm.401_token")
alerts.flush()
sys.exit(failed)
"""


def storm(sentry: SentryServer, redis_url: str, times: int) -> float:
    """Seconds that a storm of failures took."""
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", STORM, sentry.dsn, redis_url, str(times)], cwd=ROOT, capture_output=True, text=True, check=False, timeout=100
    )
    assert done.returncode == 0, done.stderr
    return time.monotonic() - began


def test_five_thousand_failures_of_one_cause_are_one_issue_with_two_events_a_minute(connection: redis.Redis, redis_url: str) -> None:
    with SentryServer() as sentry:
        took_s = storm(sentry, redis_url, 5000)
        issues = {tuple(event["fingerprint"]) for event in sentry.events}
        flood = [event for event in sentry.events if event["fingerprint"][1] == "crm.402"]
    assert issues == {("callbridge", "crm.402"), ("callbridge", "crm.401_token")}, "the unrelated failure is heard"
    assert len(flood) <= 2 * (int(took_s // 60) + 1)
    assert 5000 - 2 * (int(took_s // 60) + 1) <= int(connection.hget(keys.COUNT, "alerts_withheld")) <= 5000 - len(flood)


APP = """
import os
from app import create_app
from bridge.watch import alerts
app = create_app()
for number in range(5):
    alerts.report("refused", call_key=f"twilio-CA{number}", owner="ops", cause="crm.402")
alerts.flush()
print(app.test_client().get("/metrics").text)
"""


def test_the_app_puts_the_guard_before_sentry_and_its_promises_into_the_figures(connection: redis.Redis, redis_url: str) -> None:
    with SentryServer() as sentry:
        environment = os.environ | ENVIRONMENT | {"REDIS_URL": redis_url, "SENTRY_DSN": sentry.dsn}
        done = subprocess.run(
            [sys.executable, "-c", APP], cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 0, done.stderr
        assert len(sentry.events) == 2, "create_app has to hand StormGuard(REDIS_URL).admit to alerts.configure"
    assert 'callbridge_promise_seconds{process="calls"} 60.0' in done.stdout
    assert 'callbridge_crm_requests_left{process="calls"} 200000.0' in done.stdout
    assert "callbridge_alerts_withheld_total 3.0" in done.stdout


def test_without_redis_a_storm_is_two_events_a_minute_from_each_process(tmp_path: Path) -> None:
    with SentryServer() as sentry:
        took_s = storm(sentry, f"unix://{tmp_path}/none.sock", 80)
        flood = [event for event in sentry.wait_for(9) if event["fingerprint"][1] == "crm.402"]
    assert 8 <= len(flood) <= 8 * (int(took_s // 60) + 1)


def test_a_day_of_three_hundred_failures_is_a_handful_of_messages_and_three_hundred_open_calls(connection: redis.Redis) -> None:
    """K13, B130: a location without a plan refuses every call for a day."""
    house, mail = House(connection), Post("email")
    watch = Watcher(house.store, Book(connection), promises.processes(make_settings()), [mail], "https://ivr.example.com", lambda: None)
    for number in range(300):
        house.put(moves.park(running_entry(facts=make_call(root_id=f"CA{number}")), house.clock.at, make_trouble(word="crm.status")))
        house.clock.advance(288)
        if number % 5 == 0:
            look(watch)
    look(watch)
    messages = [message for message in mail.messages if message.cause == "attention.permanent"]
    told = [message.kind.value for message in messages]
    assert told == ["open"] + ["still"] * (len(told) - 1)
    assert len(told) <= 9, "once for each doubling"
    assert messages[-1].lines[0].endswith("affected.")
    assert connection.zcard(keys.index("cause", "permanent")) == 300, "each stands in the console"


def test_a_quota_that_is_used_up_does_not_silence_the_owner(connection: redis.Redis) -> None:
    """K13, B131. Sentry answers 429: the failure that matters reaches a person by the second route."""
    house, mail = House(connection), Post("email")
    house.put(moves.park(running_entry(), NOW, make_trouble(word="crm.401_token")))
    watch = Watcher(house.store, Book(connection), promises.processes(make_settings()), [mail], "https://ivr.example.com", lambda: None)
    with SentryServer(Mood.FULL) as sentry:
        look(watch)
        assert sentry.events == []
    assert mail.told == [("open", "attention.permanent")]


@pytest.fixture
def worker(connection: redis.Redis, redis_url: str, tmp_path: Path):
    """The real worker command against a CRM that is away, watched by a Sentry of ours."""
    with SentryServer() as sentry, (tmp_path / "log").open("wb") as log:
        environment = {
            "REDIS_URL": redis_url,
            "WORKERS": "1",
            "PROMISE_S": "1",
            "GHL_BASE_URL": "http://127.0.0.1:9",
            "SENTRY_DSN": sentry.dsn,
            "SPOOL_PATH": str(tmp_path / "spool"),
        }
        command = [sys.executable, "-m", "flask", "--app", "app", "worker"]
        process = subprocess.Popen(command, cwd=ROOT, env=os.environ | ENVIRONMENT | environment, stdout=log, stderr=log)
        yield sentry
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        finally:
            process.kill()
            process.wait()


def test_a_broken_promise_reaches_sentry_within_half_a_minute_and_the_sweeper_checks_in(
    worker: SentryServer, connection: redis.Redis
) -> None:
    house = House(connection)
    house.clock.at = time.time()
    house.accept(make_call())
    deadline = time.monotonic() + 30 + 1  # and the second that is promised
    while time.monotonic() < deadline and not worker.events:
        time.sleep(0.1)
    [event] = worker.events
    assert event["fingerprint"] == ["callbridge", "calls", "promise.late"]
    wanted = {"owner": "anna", "process": "calls", "cause": "promise.late", "alert": "open"}
    assert wanted.items() <= event["tags"].items()
    assert "1 caller is affected." in event["extra"]["more"]
    assert event["extra"]["link"] == "https://ivr.example.com/console"
    [check_in] = worker.check_ins[:1]
    assert (check_in["monitor_slug"], check_in["status"]) == ("callbridge-calls", "ok")
    assert check_in["monitor_config"]["schedule"] == {"type": "interval", "value": 1, "unit": "minute"}
    assert "5550101234" not in "".join(worker.texts)

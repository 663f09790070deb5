"""Alerts: one event for one terminal failure, from a real SDK in real processes, and nothing personal in it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
import redis
import sentry_sdk
from rq import Queue
from rq.serializers import JSONSerializer

from bridge.errors import Permanent
from bridge.sandbox.sentry import Mood, SentryServer
from bridge.watch import alerts
from tests.watch.jobs import NAME, PHONE

ROOT = Path(__file__).parents[2]
KEY = "twilio-CA0123456789abcdef0123456789abcdef"


@pytest.fixture
def sentry():
    with SentryServer() as server:
        yield server


def run_python(*arguments, timeout_s=60):
    done = subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=False, timeout=timeout_s)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def run_jobs(connection, redis_url, dsn, *jobs):
    """Queue the jobs, with personal data in their arguments and their description, and let a forking worker take them all."""
    queue = Queue("calls", connection=connection, serializer=JSONSerializer)
    for number, (job, options) in enumerate(jobs):
        queue.enqueue_call(
            f"tests.watch.jobs.{job}", args=(f"{KEY}{number}",), job_id=f"{KEY}{number}", description=f"{NAME} {PHONE}", **options
        )
    return run_python("-m", "tests.watch.worker_process", redis_url, dsn)


def nothing_personal(*texts):
    return not any(secret in text for text in texts for secret in ("2025550143", NAME, "Ada+Example"))


JOBS = {
    "come_back_later": {},
    "log_a_warning": {},
    "fail_for_good": {},
    "log_an_error": {},
    "log_what_it_caught": {},
    "log_and_raise": {},
    "fail_by_a_bug": {},
    "take_too_long": {"timeout": 1},
    "be_killed": {},
    "set_up_again": {},
}


@dataclass(frozen=True)
class Work:
    """What one worker process left behind after one job of each kind."""

    events: dict[str, list[dict]]
    sent: str
    output: str

    def event_of(self, job):
        [event] = self.events[job]
        return event


@pytest.fixture(scope="module")
def work(redis_server):
    connection = redis.Redis.from_url(redis_server.url)
    connection.flushall()
    with SentryServer() as sentry:
        output = run_jobs(connection, redis_server.url, sentry.dsn, *JOBS.items())
        sentry.wait_for(len(JOBS) - 2)
        keys = {f"{KEY}{number}": job for number, job in enumerate(JOBS)}
        events = {job: [event for event in sentry.events if keys[event["tags"]["call_key"]] == job] for job in JOBS}
        sent = "".join(sentry.texts)
    connection.close()
    return Work(events, sent, output)


def test_a_terminal_failure_in_a_forked_work_horse_is_one_event(work):
    event = work.event_of("fail_for_good")
    assert event["fingerprint"] == ["callbridge", "crm.400"]
    wanted = {"owner": "ops@example.org", "cause": "crm.400", "step": "note_call", "state": "needs attention"}
    assert wanted.items() <= event["tags"].items()
    assert event["exception"]["values"][-1]["value"] == "phone +…43 is not allowed"
    assert event["extra"]["hint"] == "Look at the contact."
    assert event["extra"]["trace_id"] == "trace-1"
    assert event["extra"]["rq-job"]["job_id"] == event["tags"]["call_key"]
    assert (event["release"], event["environment"]) == ("1.2.3", "test")


@pytest.mark.parametrize("job", ["come_back_later", "log_a_warning"])
def test_a_job_that_returns_makes_no_event(work, job):
    assert work.events[job] == []


def test_a_job_that_logs_an_error_and_returns_is_one_event(work):
    event = work.event_of("log_an_error")
    assert (event["level"], event["logger"]) == ("error", "tests.watch.jobs")
    assert event["logentry"] == {"message": "no lead for %s", "formatted": "no lead for +…43"}
    assert event["tags"]["owner"] == "ops@example.org"
    assert event["extra"]["rq-job"]["job_id"] == event["tags"]["call_key"]


def test_what_a_job_caught_and_logged_is_grouped_as_if_it_had_been_raised(work):
    event = work.event_of("log_what_it_caught")
    assert event["fingerprint"] == ["callbridge", "crm.400"]
    assert event["exception"]["values"][-1]["value"] == "phone +…43 is not allowed"


def test_what_is_logged_and_then_raised_is_one_event(work):
    assert work.event_of("log_and_raise")["tags"]["cause"] == "crm.400"


def test_tags_do_not_reach_the_next_job(work):
    event = work.event_of("fail_by_a_bug")
    assert "step" not in event["tags"]
    assert "fingerprint" not in event


def test_a_job_that_takes_too_long_is_one_event(work):
    assert work.event_of("take_too_long")["exception"]["values"][-1]["type"] == "JobTimeoutException"


def test_a_killed_work_horse_is_one_event_once_its_parent_reports_it(work):
    event = work.event_of("be_killed")
    assert event["message"] == "the work horse was killed"
    assert event["fingerprint"] == ["callbridge", "worker.killed"]
    assert event["tags"]["owner"] == "night shift"


def test_a_second_set_up_inside_a_job_keeps_the_first_client(work):
    event = work.event_of("set_up_again")
    assert event["tags"]["owner"] == "ops@example.org"
    assert event["extra"]["rq-job"]["func"] == "tests.watch.jobs.set_up_again"
    assert "Sentry is set up already, the first set-up stays" in work.output


def test_nothing_personal_leaves_a_worker(work):
    """It stands in messages, in local variables, in the job's description."""
    assert nothing_personal(work.sent)
    assert "2025550143" not in work.output


def test_every_line_of_an_rq_worker_is_json_and_masked(work):
    lines = [json.loads(line) for line in work.output.splitlines()]
    assert any(line["logger"] == "rq.worker" and "Permanent: phone +…43" in line["event"] for line in lines)


@pytest.mark.parametrize("mood", [Mood.FULL, Mood.GONE, Mood.SLOW])
def test_a_sentry_that_does_not_take_events_holds_no_worker_up(connection, redis_url, sentry, mood):
    sentry.mood, sentry.delay_s = mood, 60
    started = time.monotonic()
    run_jobs(connection, redis_url, sentry.dsn, ("fail_for_good", {}))
    assert time.monotonic() - started < 50
    assert Queue("calls", connection=connection, serializer=JSONSerializer).failed_job_registry.get_job_ids() == [f"{KEY}0"]


ROUTE = f"""
import sys, flask
from bridge.watch import alerts
alerts.configure(sys.argv[1], owner="ops")
app = flask.Flask("probe")
@app.post("/webhooks/twilio")
def webhook():
    caller = flask.request.form["From"]
    app.logger.warning("about to fail for %s", caller)
    raise RuntimeError("no lead for " + caller)
app.test_client().post(
    "/webhooks/twilio?token=s3cret",
    data={{"From": "{PHONE}", "CallerName": "{NAME}"}},
    headers={{"X-Twilio-Signature": "c2lnbmF0dXJl", "Cookie": "session=c00kie", "X-Forwarded-For": "203.0.113.9"}},
)
alerts.flush()
"""


def test_a_route_that_raises_is_one_event_without_the_request(sentry):
    run_python("-c", ROUTE, sentry.dsn)
    [event] = sentry.wait_for(1)
    assert event["request"] == {"url": "http://localhost/webhooks/twilio", "method": "POST"}
    assert event["exception"]["values"][-1]["value"] == "no lead for +…43"
    assert [crumb["message"] for crumb in event["breadcrumbs"]["values"]] == ["about to fail for +…43"]
    assert not any("vars" in frame for frame in event["exception"]["values"][-1]["stacktrace"]["frames"])
    sent = "".join(sentry.texts)
    assert nothing_personal(sent)
    assert not any(secret in sent for secret in ("s3cret", "c2lnbmF0dXJl", "c00kie", "203.0.113.9"))


REPORTS = """
import logging, sys
from bridge.errors import Permanent
from bridge.watch import alerts
alerts.configure(sys.argv[1], owner="ops")
logging.getLogger("any").warning("no event")
error = Permanent("gone", cause="crm.404")
alerts.report(error, call_key="twilio-CA1", owner="ops", cause="crm.404", step="tag_lead")
alerts.report(error, call_key="twilio-CA1", owner="ops", cause="crm.404", step="tag_lead")
import sentry_sdk, sentry_sdk.crons
sentry_sdk.crons.capture_checkin(monitor_slug="oldest-pending", status="ok")
sentry_sdk.capture_message("next")
alerts.flush()
"""


def test_reporting_the_same_error_twice_makes_one_event_and_leaves_no_tags(sentry):
    run_python("-c", REPORTS, sentry.dsn)
    reported, following = sentry.wait_for(2)
    assert len(sentry.events) == 2
    assert reported["fingerprint"] == ["callbridge", "crm.404"]
    assert reported["tags"] == {
        "owner": "ops",
        "call_key": "twilio-CA1",
        "cause": "crm.404",
        "step": "tag_lead",
        "state": "needs attention",
    }
    assert following["tags"] == {"owner": "ops"}
    assert [check_in["monitor_slug"] for check_in in sentry.check_ins] == ["oldest-pending"]


ENDS = """
import logging, sys, threading
from bridge.settings import LogFormat
from bridge.watch import alerts, logs
logs.configure(LogFormat.JSON, "INFO", sys.stderr)
alerts.configure(sys.argv[1], owner="ops")
def fail():
    raise RuntimeError("for +12025550143")
if sys.argv[2] == "thread":
    threading.Thread(target=fail).start()
elif sys.argv[2] == "child":
    from bridge.work.supervisor import Child, _live
    import os
    if os.fork() == 0:
        _live(Child("sweeper", fail), os.getppid())
    os.wait()
elif sys.argv[2] == "line":
    logs.fact(logging.getLogger("bridge.intake.webhook"), "event could not be kept", level=logging.ERROR, provider="twilio", caller="Ada")
    logging.getLogger("bridge.work.sweep").error("an entry cannot be read", extra={"call_key": "twilio-CA1", "body": "Ada Example"})
else:
    fail()
"""


@pytest.mark.parametrize("where", ["thread", "child"])
def test_an_exception_that_ends_a_thread_or_a_child_is_one_event(sentry, where):
    run_python("-c", ENDS, sentry.dsn, where)
    [event] = sentry.wait_for(1)
    assert event["exception"]["values"][-1]["value"] == "for +…43"


def test_an_exception_that_ends_the_process_is_one_event(sentry):
    done = subprocess.run(
        [sys.executable, "-c", ENDS, sentry.dsn, "main"], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 1
    [event] = sentry.wait_for(1)
    assert event["exception"]["values"][-1]["value"] == "for +…43"


def test_of_a_line_in_the_log_only_fields_of_our_own_leave(sentry):
    run_python("-c", ENDS, sentry.dsn, "line")
    first, second = sentry.wait_for(2)
    assert first["logentry"] == {"message": "event could not be kept", "formatted": "event could not be kept"}
    assert first["extra"] == {"facts": {"provider": "twilio", "caller": "***"}}
    assert second["extra"] == {"call_key": "twilio-CA1"}
    assert nothing_personal(*sentry.texts)


WORKS = """
import logging, sys
import redis
from rq import Queue, Worker
from bridge.watch import alerts
class Faulty(Worker):
    errors = [redis.TimeoutError("away"), redis.ConnectionError("away"), KeyError("Ada Example"), LookupError("of +12025550143")]
    def dequeue_job_and_maintain_ttl(self, *args, **options):
        raise self.errors.pop(0)
alerts.configure(sys.argv[2], owner="ops")
connection = redis.Redis.from_url(sys.argv[1])
while Faulty.errors:
    Faulty([Queue("calls", connection=connection)], connection=connection).work(burst=True)
alerts.flush()
"""


def test_a_worker_that_ends_by_a_fault_of_its_own_is_one_event_and_an_outage_of_redis_is_none(connection, redis_url, sentry):
    """RQ logs it and returns as if all were well; whoever starts it again sees nothing but an end."""
    del connection
    run_python("-c", WORKS, redis_url, sentry.dsn)
    sentry.wait_for(2)
    assert [event["exception"]["values"][-1]["type"] for event in sentry.events] == ["KeyError", "LookupError"]
    assert nothing_personal(*sentry.texts)


ASKS = """
import logging, sys
from bridge.watch import alerts
from bridge.watch.guard import StormGuard, impatient
def connect(url):
    logging.getLogger("client").error("cannot connect")
    return impatient(url)
alerts.configure(sys.argv[1], owner="ops", admit=StormGuard("redis://127.0.0.1:9/0", connect).admit)
logging.getLogger("app").error("event could not be kept")
alerts.flush()
"""


def test_an_error_of_the_guards_own_client_is_an_event_and_takes_no_other_along(sentry):
    run_python("-c", ASKS, sentry.dsn)
    events = sentry.wait_for(2)
    assert sorted(event["logger"] for event in events) == ["app", "client"]


TELLS = """
import logging, sys
from bridge.watch import alerts
from bridge.watch.guard import Verdict
from bridge.watch.notify import Message, ToSentry
from bridge.watch.standing import Kind
alerts.configure(sys.argv[1], owner="ops", admit=lambda cause: Verdict(passes=False))
for kind in (Kind.OPEN, Kind.STILL, Kind.OVER) * 4:
    message = Message(kind, "calls", "promise.late", "ops", "2 calls wait.", ("Look.",), "https://ivr.example.com", "thread")
    try:
        ToSentry().send(message)
    except OSError as error:
        print("lost:", error)
print("told")
alerts.report("refused", call_key="twilio-CA1", owner="ops", cause="crm.402")
alerts.flush()
"""


def test_a_promise_leaves_past_the_storm_guard_and_is_there_when_the_route_says_so(sentry):
    output = run_python("-c", TELLS, sentry.dsn)
    assert "lost" not in output
    assert len(sentry.events) == 12, "none is withheld, and the failure is"
    assert {(event["level"], event["tags"]["alert"]) for event in sentry.events} == {("error", "open"), ("info", "closed")}


@pytest.mark.parametrize(
    ("mood", "why"), [(Mood.FULL, "status_429"), (Mood.GONE, "network"), (Mood.ILL, "status_503"), (Mood.FULL, "self_rate_limits")]
)
def test_a_promise_that_sentry_does_not_take_is_said_to_be_lost(sentry, mood, why):
    sentry.mood = mood
    output = run_python("-c", TELLS, sentry.dsn)
    assert output.count("lost: Sentry did not take it: ") == 12
    assert f"lost: Sentry did not take it: {why}\n" in output


def test_a_promise_without_a_sentry_is_said_to_be_lost():
    with pytest.raises(OSError, match="is SENTRY_DSN set"):
        alerts.tell("2 calls wait.", process="calls", owner="ops", cause="promise.late", is_over=False, more="", link="")


def test_without_a_dsn_alerts_are_off_and_everything_still_works(caplog):
    with caplog.at_level("INFO"):
        assert alerts.configure(None, owner="ops") is False
    assert "SENTRY_DSN" in caplog.text
    assert not sentry_sdk.get_client().is_active()
    alerts.bind(call_key="twilio-CA1")
    alerts.report("nobody hears it", call_key="twilio-CA1", owner="ops", cause="crm.404")
    alerts.flush(0.1)


def test_a_check_in_passes_as_it_is():
    check_in = {"type": "check_in", "monitor_slug": "oldest-pending", "status": "ok"}
    assert alerts.scrub(dict(check_in), {}) == check_in


def test_fields_that_nobody_has_looked_at_stay_here():
    event = {
        "event_id": "1",
        "user": {"id": "7"},
        "threads": [1],
        "spans": [1],
        "modules": {"rq": "3"},
        "contexts": {"trace": {"data": 1, "op": "x"}, "new": {}},
    }
    assert alerts.scrub(event, {}) == {"event_id": "1", "modules": {"rq": "3"}, "contexts": {"trace": {"op": "x"}}, "extra": {}}


def test_an_event_that_cannot_be_masked_still_arrives_without_its_content():
    event = alerts.scrub({"event_id": "1", "exception": PHONE}, {})
    assert event["event_id"] == "1"
    assert PHONE not in json.dumps(event)


def test_the_owner_is_named_as_the_setting_names_them():
    event = {"event_id": "1", "tags": {"owner": "anna@example.com +12025550143", "cause": f"x {PHONE}"}}
    assert alerts.scrub(event, {})["tags"] == {"owner": "anna@example.com +12025550143", "cause": "x +…43"}


@pytest.mark.parametrize(
    "url", ["https://bridge-12025550143.example.com", "https://10.20.30.40:8080/a", "https://x.example.com/2025550143"]
)
def test_the_link_of_an_alert_leads_where_public_url_does(url):
    event = {"event_id": "1", "extra": {"link": f"{url}/console", "more": f"x {PHONE}"}}
    assert alerts.scrub(event, {})["extra"] == {"link": f"{url}/console", "more": "x +…43"}


def test_a_step_failure_below_another_exception_still_gives_the_cause():
    outer = RuntimeError("outer")
    outer.__cause__ = Permanent("inner", cause="crm.401")
    event = alerts.scrub({"event_id": "1"}, {"exc_info": (RuntimeError, outer, None)})
    assert event["fingerprint"] == ["callbridge", "crm.401"]
    assert event["tags"] == {"cause": "crm.401"}

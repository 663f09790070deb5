"""K13, B127: four ways in which a job goes wrong, each told within a minute by the Procfile's own worker to a Sentry of ours."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from rq.job import Job

from bridge.sandbox.phone import PhoneCall
from bridge.sandbox.processes import Sighting
from bridge.watch import promises
from bridge.work import queues
from tests.roads import support
from tests.roads.support import Road
from tests.watch import jobs

VISIBLE_WITHIN_S = 60.0
SEARCH = "/contacts/search/duplicate"


@pytest.fixture(scope="module")
def own_road(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Road]:
    """One of its own: an alert that another test has opened would have been told already."""
    with support.road(tmp_path_factory.mktemp("unseen"), workers=1, WORKERS="1", **support.QUICK) as ours:
        yield ours


def horse(road: Road) -> Sighting:
    """The process that runs the only job: a child of the one worker, which is a child of the supervisor."""
    supervisor, *family = road.deployment.family("worker-1")
    children = {one.pid for one in family if one.parent == supervisor.pid}
    [found] = [one for one in family if one.parent in children]
    return found


def held(road: Road) -> PhoneCall:
    """A call whose first request to GoHighLevel is under way, and gets no answer for some seconds."""
    call, since = road.call(), road.ghl.next_request()
    road.ghl.add_fault("answer_held", path=SEARCH, effect="none", seconds=10, times=1)
    road.play([road.ended(call)])
    road.await_true(lambda: any(one["endpoint"].endswith(SEARCH) for one in road.ghl.requests(since=since)), "the search is under way")
    return call


def events(road: Road, **tags: str) -> list[dict]:
    return [event for event in road.sentry.events if tags.items() <= event["tags"].items()]


def await_one(road: Road, **tags: str) -> dict:
    [event] = road.await_true(lambda: events(road, **tags), f"Sentry hears of {tags}", within_s=VISIBLE_WITHIN_S)
    return event


def test_job_that_raises_is_told(own_road: Road) -> None:
    own_road.ghl.add_fault("plain_text", path=SEARCH, status=401, text="{}", times=1)
    call = own_road.call()
    own_road.play([own_road.ended(call)])
    event = await_one(own_road, call_key=own_road.key(call))
    assert event["tags"]["state"] == "needs_attention"


def test_job_that_logs_an_error_and_returns_is_told(own_road: Road) -> None:
    """As a fault that a later hand catches and only logs: RQ takes the job for done."""
    key = "probe-log"
    queues.calls_queue(own_road.connection).enqueue_call(f"{jobs.__name__}.log_an_error", args=(key,), job_id=key)
    event = await_one(own_road, call_key=key)
    assert event["logentry"]["formatted"] == "no lead for +…43"
    assert key not in own_road.failed_jobs()


def test_job_whose_process_is_killed_is_told(own_road: Road) -> None:
    call = held(own_road)
    os.kill(horse(own_road).pid, signal.SIGKILL)
    event = await_one(own_road, cause=promises.DIED, alert="open")
    assert "death of the process" in event["message"]
    own_road.await_state(call, within_s=40)
    own_road.assert_one_lead(call)


def test_job_that_runs_into_its_time_limit_is_told(own_road: Road) -> None:
    call = held(own_road)
    worker = horse(own_road).parent
    os.kill(worker, signal.SIGSTOP)  # the next attempt's job waits for its limit to be made shorter
    key = own_road.key(call)
    try:
        own_road.await_true(lambda: own_road.bridge.call(key)["state"] == "accepted", "the first attempt has given up")
        own_road.await_true(lambda: own_road.connection.hget(Job.key_for(key), "status") == b"queued", "its job waits again")
        own_road.connection.hset(Job.key_for(key), "timeout", 1)
        own_road.ghl.add_fault("answer_held", path=SEARCH, effect="none", seconds=10, times=1)
    finally:
        os.kill(worker, signal.SIGCONT)
    event = await_one(own_road, cause=promises.TIMED_OUT, alert="open")
    assert "time limit" in event["message"]
    own_road.await_state(call, within_s=40)
    own_road.assert_one_lead(call)

"""Processes die in the middle of a request to GoHighLevel, or are asked to stop."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from datetime import datetime

import pytest

from bridge.ledger.entry import LEASE_GRACE_S
from bridge.sandbox.processes import alive
from bridge.settings import Settings
from bridge.work import sweep
from tests.roads.support import QUICK

BACK_WITHIN_S = 60.0
LEASE_S = float(QUICK["ATTEMPT_LEASE_S"])
CREATE, NOTE = "/contacts/", "/contacts/{contact_id}/notes"


def horses(road):
    """The processes that run a job: children of the children of the supervisor."""
    supervisor, *family = road.deployment.family("worker-1")
    workers = {one.pid for one in family if one.parent == supervisor.pid}
    return [one for one in family if one.parent in workers]


def workers(road):
    supervisor, *family = road.deployment.family("worker-1")
    return [one for one in family if one.parent == supervisor.pid]


def in_flight(road, path, effect):
    """A call whose request to `path` has reached GoHighLevel and gets no answer; whether it takes effect is `effect`."""
    call = road.call()
    since = road.ghl.next_request()
    road.ghl.add_fault("answer_held", method="POST", path=path, effect=effect, seconds=20, times=1)
    road.play([road.ended(call)])
    wanted = "POST " + path
    road.await_true(lambda: any(one["endpoint"] == wanted for one in road.ghl.requests(since=since)), f"{wanted} is under way")
    return call


def began_at(entry, number):
    return datetime.fromisoformat(entry["attempts"][number]["began_at"]).timestamp()


@pytest.mark.parametrize("path", [CREATE, NOTE])
@pytest.mark.parametrize("effect", ["done", "none"])
def test_work_horse_killed_in_the_middle_of_a_request_costs_no_lead_and_doubles_none(rough_road, path, effect):
    road = rough_road
    call = in_flight(road, path, effect)
    [horse] = horses(road)
    os.kill(horse.pid, signal.SIGKILL)
    killed = time.time()
    entry = road.await_state(call, within_s=40)
    assert entry["attempts"][0]["outcome"] == "died"
    assert began_at(entry, 1) - killed < BACK_WITHIN_S
    road.assert_one_lead(call)
    assert road.alerts(call) == []


def test_children_of_the_supervisor_killed_in_the_middle_of_a_request_come_back(rough_road):
    road = rough_road
    call = in_flight(road, CREATE, "done")
    killed = workers(road)
    for one in killed:
        os.kill(one.pid, signal.SIGKILL)
    road.await_state(call, within_s=40)
    road.assert_one_lead(call)
    road.await_true(lambda: len(workers(road)) == len(killed), "the supervisor has started all of them again")
    assert not alive(killed)
    later = road.call()
    road.play([road.ended(later)])
    road.await_state(later)


def test_call_of_a_machine_that_is_lost_is_put_back_within_a_minute(rough_road):
    road = rough_road
    call = in_flight(road, CREATE, "done")
    road.deployment.kill("worker-1")
    killed = time.time()
    road.deployment.start_part("worker-1")
    entry = road.await_state(call, within_s=60)
    assert entry["attempts"][0]["outcome"] == "died"
    took = began_at(entry, 1) - killed
    # The sweeper of the lost machine holds the lease of its kind for a while, and the new one has to start.
    assert took < LEASE_S + LEASE_GRACE_S + sweep.LEASE_S + 10
    road.assert_one_lead(call)


def test_a_minute_is_enough_with_the_lease_that_is_the_default():
    longest_wait = Settings.model_fields["attempt_lease_s"].default + LEASE_GRACE_S + sweep.LEASE_S + sweep.PASS_EVERY_S
    assert longest_wait < BACK_WITHIN_S - 10, "ten seconds are left for a new machine to start"


def test_stop_signal_to_every_process_loses_nothing_and_doubles_nothing(rough_road):
    """As Heroku does it at each deploy: SIGTERM to all, and SIGKILL 30 s later to what is left."""
    road = rough_road
    road.ghl.configure(latency_s=0.4)
    calls = [road.call() for _ in range(12)]
    road.play(road.ended(call) for call in calls)
    road.await_true(lambda: horses(road), "jobs run")
    families = {name: road.deployment.family(name) for name in ("web-1", "worker-1")}
    for one in [one for family in families.values() for one in family]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(one.pid, signal.SIGTERM)
    asked = time.monotonic()
    everybody = [one for family in families.values() for one in family]
    road.await_true(lambda: not alive(everybody), "all have ended", within_s=30)
    assert time.monotonic() - asked < 25
    road.ghl.configure(latency_s=0)
    road.mend()
    entries = road.await_done(calls)
    assert all(attempt["outcome"] != "died" for entry in entries for attempt in entry["attempts"])
    for call in calls:
        road.assert_one_lead(call)

"""Real processes: kept alive, stopped together, and never left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import time

import pytest

from bridge.work.supervisor import pause_after
from tests.work.processes import Processes, await_true, descendants, is_alive
from tests.work.test_worker import await_no_trace, began, pop


def child(connection, group: Processes, name: str) -> int:
    """The process id of a child that has just started."""
    pid = int(pop(connection, name))
    group.others.append(pid)
    return pid


def zombies(parent: int) -> list[str]:
    rows = subprocess.run(["/bin/ps", "-A", "-o", "ppid=,stat="], capture_output=True, text=True, check=True).stdout.splitlines()
    return [row for row in rows if row.split()[0] == str(parent) and "Z" in row.split()[1]]


@pytest.mark.parametrize(
    ("pause", "lived", "expected"),
    [
        (0, 0.1, 0.5),
        (0.5, 0.1, 1),
        (4, 59, 8),
        (8, 1, 10),
        (10, 1, 10),
        (10, 60, 0.5),
    ],
)
def test_pauses_double_up_to_ten_seconds_and_start_over_after_a_good_life(pause, lived, expected):
    assert pause_after(pause, lived) == expected


def test_a_child_that_ends_is_started_again_after_growing_pauses(connection, group):
    supervisor = group.start("supervisor")
    pids, times = [], []
    for _ in range(3):
        pids.append(child(connection, group, "brief"))
        times.append(time.monotonic())
    assert len(set(pids)) == 3
    assert 0.4 < times[1] - times[0] < times[2] - times[1] < 3
    await_true(lambda: not zombies(supervisor.pid), "the dead to be reaped")
    assert "the end of a child" in group.log()
    assert "brief ended after 0 s (exit code 1); next start in 0.5 s" in group.log()


def test_a_killed_child_is_started_again_and_the_others_are_left_alone(connection, group):
    group.start("supervisor")
    steady, stubborn = child(connection, group, "steady"), child(connection, group, "stubborn")
    os.kill(steady, signal.SIGKILL)
    assert child(connection, group, "steady") != steady
    assert is_alive(stubborn)
    group.await_log("steady ended after 0 s (SIGKILL)")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_signal_is_passed_on_once_and_every_child_is_waited_for(connection, group, number):
    supervisor = group.start("supervisor")
    steady, stubborn = child(connection, group, "steady"), child(connection, group, "stubborn")
    supervisor.send_signal(number)
    pop(connection, "stubborn was told")
    supervisor.send_signal(signal.SIGTERM)
    await_true(lambda: not is_alive(steady), "the first child to stop")
    assert supervisor.poll() is None
    connection.rpush("stubborn may end", 1)
    assert pop(connection, "stubborn counted") == "1"
    assert supervisor.wait(10) == 0
    assert not is_alive(stubborn)
    assert f"stubborn started (pid {stubborn})" in group.log()


def test_a_child_that_does_not_stop_is_killed(connection, group):
    supervisor = group.start("impatient supervisor")
    deaf = child(connection, group, "deaf")
    supervisor.terminate()
    assert supervisor.wait(10) == 0
    assert not is_alive(deaf)
    assert "deaf did not stop within 0 s and is killed" in group.log()


def test_a_killed_supervisor_leaves_no_child_behind(connection, group):
    supervisor = group.start("supervisor")
    steady, stubborn = child(connection, group, "steady"), child(connection, group, "stubborn")
    supervisor.kill()
    pop(connection, "stubborn was told")
    connection.rpush("stubborn may end", 1)
    await_true(lambda: not is_alive(steady) and not is_alive(stubborn), "both children to end")


def test_a_supervised_worker_finishes_its_job_when_the_supervisor_is_killed(connection, put, group):
    supervisor = group.start("workers")
    group.await_log("Listening on")
    put("c-1", "wait")
    began(connection, group)
    worker, _ = descendants(supervisor.pid)
    group.others.append(worker)
    supervisor.kill()
    group.await_log("Imminent shutdown")
    connection.rpush("go:c-1", 1)
    assert pop(connection, "ended") == "c-1"
    await_true(lambda: not is_alive(worker), "the worker to end")
    await_no_trace(connection, "c-1")


def test_a_deploy_stops_everything_without_costing_a_job_its_attempt(connection, put, group):
    """As Heroku does it: SIGTERM to the supervisor, the worker and the process of the job alike."""
    supervisor = group.start("workers")
    group.await_log("Listening on")
    put("c-1", "wait")
    began(connection, group)
    for pid in (supervisor.pid, *descendants(supervisor.pid)):
        os.kill(pid, signal.SIGTERM)
    group.await_log("Imminent shutdown")
    connection.rpush("go:c-1", 1)
    assert pop(connection, "ended") == "c-1"
    assert supervisor.wait(10) == 0
    await_no_trace(connection, "c-1")
    assert not connection.exists("died")


def test_a_killed_worker_is_replaced(connection, put, group):
    group.start("workers")
    group.await_log("Listening on")
    (key,) = connection.smembers("rq:workers")
    os.kill(int(connection.hget(key, "pid")), signal.SIGKILL)
    group.await_log("Listening on", times=2)
    put("c-1")
    assert pop(connection, "ended") == "c-1"

"""Processes are started on a leash, and end with all that they forked."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bridge.sandbox import leash
from bridge.sandbox.processes import Process, Sighting, _from_ps, alive, await_gone, free_port, tree

ROOT = Path(__file__).parents[2]
WITH_CHILD = "sleep 600 & echo ready; wait"
DEAF = "trap '' TERM; echo ready; while true; do sleep 0.1; done"


@pytest.fixture
def start(tmp_path):
    started = []

    def begin(script):
        process = Process("part", ["/bin/sh", "-c", script], dict(os.environ), tmp_path, tmp_path / "logs" / "part.log")
        process.start()
        started.append(process)
        await_log(process.log, "ready")
        return process

    yield begin
    for process in started:
        process.kill()


def await_log(log, text, within_s=10.0):
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if log.exists() and text in log.read_text():
            return
        time.sleep(0.02)
    raise AssertionError(f"{text!r} is not in {log}")


def test_stop_ends_what_the_program_left_behind(start):
    process = start(WITH_CHILD)
    family = process.family()
    assert len(family) == 2
    process.stop(5)
    assert not process.is_running
    assert alive(family) == []


def test_kill_leaves_nothing_of_the_family(start):
    process = start(WITH_CHILD)
    family = process.family()
    process.kill()
    assert alive(family) == []
    assert process.family() == []


def test_kill_of_the_program_alone_leaves_its_children_until_it_is_stopped(start):
    process = start(WITH_CHILD)
    _, child = process.family()
    process.kill(alone=True)
    assert alive([child]) == [child]
    process.stop(5)
    assert alive([child]) == []


def test_program_that_will_not_stop_is_killed(start):
    process = start(DEAF)
    family = process.family()
    process.stop(0.2)
    assert alive(family) == []


def test_program_can_be_started_again_and_adds_to_its_log(start):
    process = start("echo ready; sleep 600")
    process.kill()
    process.start()
    await_log(process.log, "ready\nready\n")
    assert process.is_running


def test_program_that_does_not_exist_says_what_to_install(tmp_path):
    process = Process("part", ["no-such-program"], dict(os.environ), tmp_path, tmp_path / "part.log")
    process.start()
    await_log(process.log, "pip install -r requirements-demo.txt")
    process.stop(5)
    with pytest.raises(RuntimeError, match="does not run"):
        _ = process.pid


def test_signals_reach_the_whole_family(start):
    process = start(WITH_CHILD)
    family = process.family()
    process.send(signal.SIGKILL)
    assert await_gone(family) == []


STARTER = """
import os, sys, time
from pathlib import Path
from bridge.sandbox.processes import Process
log = Path(sys.argv[1])
process = Process("part", ["/bin/sh", "-c", "echo ready; exec sleep 600"], dict(os.environ), log.parent, log)
process.start()
print(process.pid, flush=True)
time.sleep(600)
"""


def test_process_dies_with_a_starter_that_was_killed(tmp_path):
    log = tmp_path / "part.log"
    with subprocess.Popen([sys.executable, "-c", STARTER, str(log)], cwd=ROOT, stdout=subprocess.PIPE, text=True) as starter:
        started = tree(int(starter.stdout.readline()))
        await_log(log, "ready")
        assert len(started) == 1
        starter.kill()
    assert await_gone(started) == []


GUARDED = "from bridge.sandbox import leash; leash.leave_guard({starter}); print('ready', flush=True); import time; time.sleep(600)"


def test_guard_ends_a_process_where_the_system_does_not(tmp_path):
    with subprocess.Popen(["/bin/sleep", "600"]) as starter:
        command = [sys.executable, "-c", GUARDED.format(starter=starter.pid)]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as guarded:
            assert guarded.stdout.readline() == "ready\n"
            family = tree(guarded.pid)
            starter.kill()
            starter.wait()
            assert guarded.wait(5) == -signal.SIGTERM
    assert await_gone(family) == []


def test_leash_without_its_starter_starts_nothing():
    gone = subprocess.run([sys.executable, leash.__file__, "1", "/bin/echo", "started"], capture_output=True, check=False)
    assert (gone.returncode, gone.stdout) == (1, b"")


def test_both_ways_to_look_at_the_system_see_the_same_processes():
    own = tree(os.getpid())[0]
    shown = {one.pid: one.parent for one in _from_ps()}
    assert shown[own.pid] == own.parent == os.getppid()


def test_later_process_with_the_same_pid_is_another_one():
    own = tree(os.getpid())[0]
    assert alive([own, Sighting(own.pid, own.parent, "another time")]) == [own]


def test_port_is_free_and_outside_the_range_of_outgoing_connections():
    port = free_port()
    with socket.socket() as server:
        server.bind(("127.0.0.1", port))
        assert 20_000 <= port < 32_000

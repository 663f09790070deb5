"""`bin/demo`: everything from nothing, what happened in plain words, and nothing left behind."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from bridge.commands import demo
from bridge.sandbox import scenarios, story
from bridge.sandbox.processes import alive, tree
from bridge.sandbox.story import Scene

ROOT = Path(__file__).parents[2]
BARE = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "CALLBRIDGE_PYTHON": sys.executable}


def run(*arguments, **environment):
    command = [ROOT / "bin" / "demo", *arguments]
    return subprocess.run(command, cwd="/", env=BARE | environment, capture_output=True, text=True, timeout=100, check=False)


@pytest.mark.parametrize("script", ["demo", "test", "_venv"])
def test_script_is_bash_that_can_be_read(script):
    checked = subprocess.run(["bash", "-n", ROOT / "bin" / script], capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_interpreter_that_is_missing_is_said_in_one_line():
    answer = run("--check", CALLBRIDGE_PYTHON="", PYTHON="/no/such/python")
    assert answer.returncode == 2
    assert "PYTHON=/path/to/python3.11 bin/demo" in answer.stderr
    assert answer.stdout == ""


def test_check_plays_every_scene_and_says_so_in_one_line():
    before = set(ROOT.glob("var/demo/*"))
    answer = run("--check", SENTRY_DSN="https://key@sentry.example.com/1", HTTP_PROXY="http://127.0.0.1:9")
    assert answer.returncode == 0, answer.stderr
    (line,) = answer.stdout.splitlines()
    told = json.loads(line)
    assert told["ok"] is True
    assert "failed" not in told
    assert (told["scenes"], told["calls"], told["done"], told["needs_attention"]) == (len(story.SCENES), 12, 11, 1)
    assert (told["contacts"], told["notes"], told["lost_answers"]) == (8, 10, 1)
    assert (told["duplicates"], told["notes_twice"], told["lost"]) == (0, 0, 0)
    assert (told["requests_new_caller"], told["requests_known_caller"]) == (3, 2)
    assert told["deliveries"] > told["calls"]
    assert told["seconds"] > 0
    assert all(scene.title in answer.stderr for scene in story.SCENES)
    assert "\033" not in answer.stderr
    assert set(ROOT.glob("var/demo/*")) == before


def test_check_that_finds_something_wrong_ends_with_1_and_shows_the_logs(capsys):
    code = demo.check([Scene("A caller whom nobody wanted", scenarios.new_caller, ends=story.NEEDS_ATTENTION)])
    said = capsys.readouterr()
    told = json.loads(said.out)
    assert (code, told["ok"]) == (1, False)
    assert told["failed"][0] == "“A caller whom nobody wanted”: ended as done, not as needs_attention"
    assert "==> worker-1: " in said.err


@contextlib.contextmanager
def running_demo(folder):
    """A demo that is killed if the test fails before it ends."""
    command = [sys.executable, "-m", "bridge.commands.demo", "--data", str(folder)]
    with subprocess.Popen(command, cwd=ROOT, env=BARE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def end(process, number, awaited):
    """Send the signal when this line has come; what it said, and the processes that ran until then."""
    seen = ""
    for line in process.stdout:
        seen += line
        if awaited in line:
            break
    family = tree(process.pid)
    process.send_signal(number)
    seen += process.stdout.read()
    assert process.wait(40) == 0, seen
    return seen, family


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_every_process_and_leaves_the_data(tmp_path, number):
    with running_demo(tmp_path) as process:
        seen, family = end(process, number, "are up after")
    assert len(family) > 5
    assert alive(family) == []
    assert "the next bin/demo finds them" in seen
    assert stat.S_IMODE((tmp_path / "environment").stat().st_mode) == 0o600


def test_next_demo_finds_what_the_first_one_left(tmp_path):
    for awaited in ("A new caller", "Found from earlier runs:"):
        with running_demo(tmp_path) as process:
            seen, _ = end(process, signal.SIGINT, awaited)
    assert "in the ledger" in seen
    assert "0 contacts" not in seen


def test_second_demo_in_the_same_folder_is_refused(tmp_path):
    with demo._alone_in(tmp_path), pytest.raises(RuntimeError, match="bin/demo --data FOLDER"):
        demo.show(tmp_path)

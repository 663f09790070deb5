"""The stand-ins of the lists behave as the real ones do, traps included."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import requests

from bridge.providers.lists import LISTS
from bridge.sandbox.call_list_types import SandboxCall
from bridge.sandbox.call_lists import CallLists, write_state
from tests.support.builders import NOW

ROOT = Path(__file__).parents[2]
TWILIO = "/2010-04-01/Accounts/AC1/Calls.json"


@pytest.fixture
def world():
    with CallLists() as server:
        yield server


def ask(world, path, auth="Basic eDp5", **query):
    return requests.get(world.url + path, params=query, headers={"Authorization": auth}, timeout=5)


def a_call(number, **facts):
    return SandboxCall(**{"id": f"CA{number}", "caller": "+15550101234", "dialled": "+15550109999", "started": NOW + number} | facts)


def test_there_is_a_stand_in_for_every_list(world) -> None:
    assert set(json.loads(world.base_urls)) == set(LISTS)


def test_twilio_filters_by_whole_days_and_refuses_a_time(world) -> None:
    world.add("twilio", a_call(0))
    assert len(ask(world, TWILIO, **{"StartTime>": "2026-01-15", "StartTime<": "2026-01-15"}).json()["calls"]) == 1
    assert ask(world, TWILIO, **{"StartTime>": "2026-01-16"}).json()["calls"] == []
    assert ask(world, TWILIO, **{"StartTime>": "2026-01-15T10:00:00Z"}).status_code == 400


def test_next_page_is_a_path_that_keeps_the_filter(world) -> None:
    world.page_size = 2
    world.add("twilio", *[a_call(number) for number in range(3)])
    first = ask(world, TWILIO, **{"StartTime>": "2026-01-15"}).json()
    assert [row["sid"] for row in first["calls"]] == ["CA2", "CA1"]
    second = ask(world, first["next_page_uri"]).json()
    assert [row["sid"] for row in second["calls"]] == ["CA0"]
    assert second["next_page_uri"] is None
    assert "StartTime" in first["next_page_uri"]


def test_plivo_reads_and_writes_the_accounts_own_time(world) -> None:
    world.add("plivo", a_call(0, duration_s=0))
    path = "/v1/Account/MA1/Call/"
    local = {"limit": 20, "end_time__gte": "2026-01-15 09:04:00"}  # 15:04 in UTC
    (row,) = ask(world, path, **local).json()["objects"]
    assert row["initiation_time"] == "2026-01-15 09:04:05"
    assert ask(world, path, limit=20, end_time__gte="2026-01-15 15:04:00").json()["objects"] == []


def test_vonage_refuses_more_than_a_day(world) -> None:
    times = {"date_start": "2026-01-15T00:00:00Z", "date_end": "2026-01-16T00:00:01Z"}
    assert ask(world, "/v2/reports/records", direction="inbound", **times).status_code == 422


def test_wrong_kind_of_proof_is_refused_and_unknown_paths_are_not_there(world) -> None:
    assert ask(world, TWILIO, auth="Bearer x").status_code == 401
    assert ask(world, "/v3/a/ACC1/calls.json").status_code == 401
    assert ask(world, "/nothing").status_code == 404


def test_busy_and_broken_answers_come_as_often_as_told(world) -> None:
    world.busy, world.broken = 1, 1
    answers = [ask(world, TWILIO) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [429, 500, 200]
    assert answers[0].headers["Retry-After"] == "1"
    assert len(world.asked) == 3


def test_process_lists_what_stands_in_its_file_now(tmp_path) -> None:
    state = tmp_path / "calls.json"
    write_state(state, {"twilio": [a_call(0)]})
    command = [sys.executable, "-m", "bridge.sandbox.call_lists", "--state", str(state)]
    with subprocess.Popen(command, cwd=ROOT, env=os.environ, stdout=subprocess.PIPE, text=True) as process:
        try:
            url = process.stdout.readline().split()[-1]
            headers = {"Authorization": "Basic eDp5"}
            assert len(requests.get(url + TWILIO, headers=headers, timeout=5).json()["calls"]) == 1
            write_state(state, {"twilio": [a_call(0), a_call(1)]})
            os.utime(state, (NOW, NOW))
            assert len(requests.get(url + TWILIO, headers=headers, timeout=5).json()["calls"]) == 2
            process.send_signal(signal.SIGTERM)
            assert process.wait(10) == 0
        finally:
            process.kill()


def test_port_that_is_taken_is_said_in_one_line(world, capsys) -> None:
    from bridge.sandbox.call_lists import main

    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    try:
        assert main(["--port", str(world.port)]) == 1
    finally:
        signal.signal(signal.SIGTERM, before[0])
        signal.signal(signal.SIGINT, before[1])
    assert "Try another --port." in capsys.readouterr().err

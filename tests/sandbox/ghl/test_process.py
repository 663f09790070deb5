"""The stand-in as a server and as a process: many clients, a restart, a signal, a state file."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import requests

from bridge.sandbox.ghl import GhlStandIn
from tests.sandbox.ghl.conftest import MANY, PHONE, Api, eventually

ROOT = Path(__file__).parents[3]


def test_many_connections_at_once_are_all_answered(api, ghl):
    def create(number: int) -> int:
        client = Api(ghl)
        statuses = {client.create(f"+1202555{number:02}{one:02}").status_code for one in range(10)}
        client.session.close()
        return statuses == {201}

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(create, range(16)))
    assert len(ghl.truth.contacts_per_phone()) == 160


def test_stop_ends_connections_and_start_finds_the_same_contacts_on_the_same_port():
    stand_in = GhlStandIn(burst=MANY).start()
    api = Api(stand_in)
    contact_id = api.created()
    stand_in.stop()
    stand_in.stop()
    with pytest.raises(requests.ConnectionError):
        api.find()
    with stand_in:
        assert api.find()["id"] == contact_id
    api.session.close()


def test_stop_does_not_wait_for_held_answers_or_late_effects():
    stand_in = GhlStandIn().start()
    api = Api(stand_in)
    stand_in.add_fault("effect_after_reset", seconds=600, times=1)
    stand_in.add_fault("answer_held", seconds=600, nth=2)
    with pytest.raises(requests.ConnectionError):
        api.create()
    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(api.create)
        eventually(lambda: len(stand_in.truth.requests()) == 2)
        stand_in.stop()
        assert isinstance(held.exception(5), requests.ConnectionError)
    assert [one.effect for one in stand_in.truth.requests()] == [False, True]
    api.session.close()


def test_stop_ends_a_slow_drip():
    stand_in = GhlStandIn().start()
    api = Api(stand_in)
    stand_in.add_fault("slow_drip", seconds=600)
    answer = api.ask("GET", "/nowhere", stream=True)
    stand_in.stop()
    with pytest.raises(requests.exceptions.ChunkedEncodingError):
        answer.json()
    api.session.close()


def test_state_file_brings_contacts_and_notes_back(tmp_path):
    state = tmp_path / "var" / "ghl.json"
    with GhlStandIn(state_file=state, burst=MANY) as first:
        api = Api(first)
        contact_id, gone = api.created(tags=["vip"]), api.created("+12025550199")
        api.note(contact_id, "key-1")
        first.delete(gone)
        api.session.close()
    with GhlStandIn(state_file=state, search_lag_s=600, duplicate_lag_s=600) as second:
        api = Api(second)
        assert api.find()["tags"] == ["vip"]
        assert [hit["id"] for hit in api.search()] == [contact_id]
        assert api.find("+12025550199") is None
        assert second.truth.notes_with("key-1") == {contact_id: 1}
        api.session.close()


def test_state_is_written_while_it_runs(tmp_path, monkeypatch):
    monkeypatch.setattr("bridge.sandbox.ghl.standin.SAVE_EVERY_S", 0.02)
    state = tmp_path / "ghl.json"
    with GhlStandIn(state_file=state) as stand_in:
        contact = stand_in.add_contact(phone=PHONE)
        eventually(lambda: state.exists() and json.loads(state.read_text())["contacts"])
        assert [kept["id"] for kept in json.loads(state.read_text())["contacts"]] == [contact.id]


def test_state_file_that_is_none_is_named_in_the_error(tmp_path):
    state = tmp_path / "ghl.json"
    state.write_text("[]")
    with pytest.raises(ValueError, match=str(state)):
        GhlStandIn(state_file=state).start()


def test_unknown_setting_is_refused_at_construction():
    with pytest.raises(ValueError, match="allow_duplicates"):
        GhlStandIn(allow_duplicates=True)


def test_process_says_where_it_listens_and_ends_in_good_order_on_sigterm(tmp_path):
    state = tmp_path / "ghl.json"
    command = [sys.executable, "-m", "bridge.sandbox.ghl", "--location", "loc1", "--token", "pit-1", "--state", str(state)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        url = process.stdout.readline().split(" on ")[1].split()[0]
        headers = {"Authorization": "Bearer pit-1", "Version": "2021-07-28"}
        answer = requests.post(f"{url}/contacts/", json={"locationId": "loc1", "phone": PHONE}, headers=headers, timeout=5)
        process.send_signal(signal.SIGTERM)
        assert process.wait(5) == 0
    assert answer.status_code == 201
    assert json.loads(state.read_text())["contacts"][0]["fields"]["phone"] == PHONE


def test_process_that_finds_its_port_taken_says_what_to_change(ghl):
    command = [sys.executable, "-m", "bridge.sandbox.ghl", "--port", str(ghl.port)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=20, check=False)
    assert ended.returncode == 1
    assert "Try another --port" in ended.stderr

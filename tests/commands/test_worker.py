"""The worker command: it runs calls, keeps its sweeper, and stops cleanly."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import redis

from app import build_parts
from bridge.commands.worker import PRELOAD, _fresh, refresh_location
from bridge.errors import Permanent
from bridge.ledger import keys
from bridge.ledger.entry import State
from bridge.sandbox.ghl import GhlStandIn
from tests.support.builders import ENVIRONMENT, make_call, make_settings
from tests.support.crm import FakeCrm
from tests.support.house import House
from tests.work.processes import await_true

ROOT = Path(__file__).parents[2]


def test_a_call_is_run_and_the_command_ends_cleanly(connection: redis.Redis, redis_url: str, tmp_path: Path) -> None:
    house = House(connection)
    with GhlStandIn() as ghl, (tmp_path / "log").open("wb") as log:
        crm = {"GHL_BASE_URL": ghl.url, "GHL_TOKEN": ghl.world.token, "GHL_LOCATION_ID": ghl.world.location_id}
        settings = ENVIRONMENT | crm | {"REDIS_URL": redis_url, "WORKERS": "1", "SPOOL_PATH": str(tmp_path / "spool")}
        command = [sys.executable, "-m", "flask", "--app", "app", "worker"]
        house.accept(make_call())
        process = subprocess.Popen(command, cwd=ROOT, env=os.environ | settings, stdout=log, stderr=log)
        try:
            await_true(lambda: house.entry().state is State.DONE, "the call is done", within_s=30)
            await_true(lambda: connection.exists(keys.SWEEPER), "a sweeper holds the lease", within_s=30)
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0
        finally:
            process.kill()
            process.wait()
        assert len(ghl.truth.contacts()) == 1
    assert not connection.exists(keys.SWEEPER), "the next sweeper need not wait for the lease to run out"


def test_a_stop_does_not_wait_for_a_redis_that_is_away(tmp_path: Path) -> None:
    log = tmp_path / "log"
    settings = ENVIRONMENT | {"REDIS_URL": f"unix://{tmp_path}/none.sock", "WORKERS": "1", "SPOOL_PATH": str(tmp_path / "spool")}
    with log.open("wb") as out:
        command = [sys.executable, "-m", "flask", "--app", "app", "worker"]
        process = subprocess.Popen(command, cwd=ROOT, env=os.environ | settings, stdout=out, stderr=out)
        try:
            await_true(lambda: log.read_text().count("waiting for it") == 2, "worker and sweeper wait for Redis", within_s=30)
            began = time.monotonic()
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0
        finally:
            process.kill()
            process.wait()
    assert time.monotonic() - began < 3


def test_a_process_of_its_own_shares_nothing_with_its_parent(redis_url: str) -> None:
    parts = build_parts(make_settings(REDIS_URL=redis_url))
    fresh = _fresh(parts)
    assert fresh.patient
    assert fresh.connection is not parts.connection
    assert fresh.settings is parts.settings


def test_the_location_is_asked_for_before_a_call_needs_it(caplog) -> None:
    crm = FakeCrm()
    refresh_location(crm)
    assert caplog.text == ""

    def refuse(*, fresh: bool) -> None:
        raise Permanent("no access", cause="crm.403", hint="check GHL_TOKEN")

    crm.location = refuse
    refresh_location(crm)
    assert "the location could not be read: no access" in caplog.text


def test_what_is_preloaded_can_be_imported() -> None:
    code = f"import importlib; [importlib.import_module(name) for name in {PRELOAD!r}]"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env={"PATH": os.environ["PATH"]}, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()

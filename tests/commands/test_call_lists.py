"""How the parts of the backfill meet: budget, turns, and the alarm behind it."""

from __future__ import annotations

import threading
import time

import pytest

from app import build_parts
from bridge.commands import call_lists
from bridge.errors import WrongSettings
from bridge.ledger import keys
from bridge.sandbox.call_list_types import SandboxCall
from bridge.sandbox.call_lists import CallLists
from bridge.watch.standing import Book
from tests.support.builders import make_call, make_settings
from tests.support.house import House
from tests.work.processes import await_true


@pytest.fixture
def world():
    with CallLists() as server:
        yield server


def parts_of(redis_url, world, **environment):
    told = {"REDIS_URL": redis_url, "TWILIO_ACCOUNT_SID": "AC1", "BACKFILL_BASE_URLS": world.base_urls}
    return build_parts(make_settings(**told | environment))


def a_call(number=0):
    return SandboxCall(f"CA{number}", f"+1555010{number:04d}", "+15550109999", time.time() - 600)


def test_backfilled_calls_leave_live_ones_their_share_of_the_budget() -> None:
    """70 of 100 requests in 10 s, four for a call: 1.75 calls a second."""
    assert call_lists.pause_s(make_settings()) == pytest.approx(4 / 7)
    assert call_lists.pause_s(make_settings(GHL_BURST="50")) == pytest.approx(8 / 7)


def test_calls_that_were_missed_raise_the_alarm_behind_the_backfill(connection, redis_url, world) -> None:
    House(connection).accept(make_call(root_id="CA5"))  # the ledger is older than the calls
    world.add("twilio", a_call())
    parts = parts_of(redis_url, world, PUBLIC_URL="http://127.0.0.1:9")
    (found,) = call_lists.make_catch_up(parts).once()
    assert found.inserted == 1
    standing = Book(connection).standing("calls", ["silence.twilio"])["silence.twilio"]
    assert standing.count == 1
    parts.connection.close()


def test_thread_of_its_own_brings_calls_in_while_the_sweeper_sweeps(connection, redis_url, world) -> None:
    world.add("twilio", a_call())
    parts, stopping = parts_of(redis_url, world), threading.Event()
    call_lists.start_catch_up(parts, stopping)
    await_true(lambda: connection.exists(keys.entry("twilio-CA0")), "the call is in the ledger", within_s=30)
    stopping.set()
    await_true(lambda: not any(thread.name == "backfill" for thread in threading.enumerate()), "the thread has ended", within_s=30)
    assert parts.store.get("twilio-CA0").source == "backfill"
    parts.connection.close()


def test_backfill_that_is_switched_off_starts_no_thread(redis_url, world) -> None:
    call_lists.start_catch_up(parts_of(redis_url, world, BACKFILL_EVERY_S="0"), threading.Event())
    assert not any(thread.name == "backfill" for thread in threading.enumerate())


def test_wrong_setting_of_a_list_is_told_before_anything_starts(redis_url, world) -> None:
    wrong = {"PLIVO_AUTH_TOKEN": "t", "PLIVO_AUTH_ID": "MA1", "PLIVO_TIME_ZONE": "Nowhere"}
    with pytest.raises(WrongSettings, match="PLIVO_TIME_ZONE"):
        call_lists.configured(parts_of(redis_url, world, **wrong))

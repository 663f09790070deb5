"""`backfill --file`: a list of calls becomes what webhooks would have made of them."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from flask import Flask

from app import build_parts
from bridge.call import CallerKind, Status
from bridge.commands import backfill
from bridge.ledger.entry import State
from tests.support.builders import NOW, PHONE, make_settings
from tests.support.house import House


def line(**told):
    known = {"provider": "twilio", "call_id": "CA1", "from": PHONE, "to": "+15550109999", "status": "completed"}
    return json.dumps(known | {"started_at": "2026-01-15T15:00:00Z", "duration_seconds": 42} | told)


def read(**told):
    return backfill.read(line(**told), region="US")


@pytest.fixture
def house(connection):
    return House(connection)


@pytest.fixture
def run(redis_url, connection):
    app = Flask("backfill")
    app.extensions["callbridge"] = build_parts(make_settings(REDIS_URL=redis_url))

    def invoke(text, *arguments):
        with app.app_context():
            return CliRunner().invoke(backfill.command, ["--file", "-", *arguments], input=text)

    yield invoke
    app.extensions["callbridge"].connection.close()


def test_listed_call_has_the_key_that_its_webhooks_have():
    event = read()
    assert event.call.key == "twilio-CA1"
    assert event.source == "backfill"
    assert event.call.caller.e164 == PHONE
    assert event.call.duration_s == 42
    assert event.call.started_at.isoformat() == "2026-01-15T15:00:00+00:00"


def test_call_of_a_subaccount_has_a_key_of_its_own():
    assert read(account="AC2").call.key != read().call.key


@pytest.mark.parametrize(
    ("told", "status"),
    [
        ("no-answer", Status.NO_ANSWER),
        ("In Progress", Status.IN_PROGRESS),
        ("cancelled", Status.CANCELED),
        ("odd", Status.UNKNOWN),
        (None, Status.UNKNOWN),
    ],
)
def test_statuses_are_read_in_any_spelling(told, status):
    assert read(status=told).call.status is status


def test_withheld_caller_stays_withheld():
    assert read(**{"from": "anonymous"}).call.caller.kind is CallerKind.WITHHELD


def test_calls_that_are_not_inbound_make_no_lead():
    assert read(direction="outbound-api") is None
    assert read(direction="Inbound") is not None


@pytest.mark.parametrize("text", ["not JSON", "[]", "{}", line(call_id=""), line(provider=None)])
def test_line_that_names_no_call_is_refused(text):
    with pytest.raises(backfill.Unreadable):
        backfill.read(text, region="US")


def test_list_can_be_given_again_and_again(house):
    lines = [line(), line(call_id="CA2"), "", line(direction="outbound")]
    assert backfill.take(lines, house.acceptor, region="US") == ({"new": 2, "not inbound": 1}, [])
    assert backfill.take(lines, house.acceptor, region="US") == ({"repeat": 2, "not inbound": 1}, [])


def test_one_bad_line_does_not_stop_the_others(house):
    taken, faults = backfill.take(["{", line()], house.acceptor, region="US")
    assert taken == {"new": 1}
    assert len(faults) == 1
    assert faults[0].startswith("line 1: ")


def test_call_from_before_the_ledger_becomes_one_lead_with_one_note(house):
    """Its birth is later than the call, so earlier work on it may be forgotten: the CRM is asked before anything is written."""
    backfill.take([line(started_at=str(int(NOW - 40 * 86_400)))], house.acceptor, region="US")
    house.run("twilio-CA1")
    entry = house.entry("twilio-CA1")
    assert entry.state is State.DONE
    assert entry.source == "backfill"


def test_command_says_what_it_took_and_ends_zero(run):
    done = run(line() + "\n" + line(call_id="CA2") + "\n", "--json")
    assert done.exit_code == 0
    assert json.loads(done.output) == {"ok": True, "calls": 2, "new": 2, "faults": []}
    assert run(line()).output == "1 calls: 1 repeat\n"


def test_command_ends_one_where_a_line_is_wrong_and_shows_nothing_of_it(run):
    done = run('{"from": "+15550101234"}')
    assert done.exit_code == 1
    assert "line 1" in done.output
    assert "5550101234" not in done.output

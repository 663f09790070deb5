"""`backfill --file`: a list of calls becomes what webhooks would have made of them."""

from __future__ import annotations

import io
import json
import sys
import time
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner
from flask import Flask

from app import build_parts
from bridge.call import CallerKind, Status
from bridge.commands import backfill
from bridge.ledger.entry import State
from bridge.sandbox.call_list_types import Answer, SandboxCall
from tests.commands.backfilled import commands
from tests.intake.list_cases import CASES, listers
from tests.support.builders import NOW, PHONE, make_call, make_settings
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


@pytest.mark.parametrize("told", ["Twilio", " TWILIO "])
def test_phone_system_is_known_in_any_spelling_so_that_the_key_is_that_of_its_webhooks(told):
    assert read(provider=told).call.key == "twilio-CA1"


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


@pytest.mark.parametrize("text", ["not JSON", "[]", "{}", line(call_id=""), line(provider=None), line(provider="somebody")])
def test_line_that_names_no_call_is_refused(text):
    with pytest.raises(backfill.Unreadable):
        backfill.read(text, region="US")


def test_list_can_be_given_again_and_again(house):
    lines = [line(), line(call_id="CA2"), "", line(direction="outbound")]
    assert backfill.take(lines, house.store, house.acceptor, region="US") == ({"new": 2, "not inbound": 1}, [])
    assert backfill.take(lines, house.store, house.acceptor, region="US") == ({"repeat": 2, "not inbound": 1}, [])


@pytest.mark.parametrize("spelt", [{"to": "main line"}, {"from": "5550101299"}, {"from": "201", "to": "sales"}, {"duration_seconds": 99}])
def test_known_call_that_a_file_spells_in_another_way_is_a_repeat_and_no_question(house, spelt):
    house.accept(make_call())
    house.run()
    asked = len(house.crm.requests)
    assert backfill.take([line(**spelt)], house.store, house.acceptor, region="US") == ({"repeat": 1}, [])
    assert (house.entry().state, house.jobs(), len(house.crm.requests)) == (State.DONE, [], asked)


def test_file_names_the_caller_of_a_call_that_nobody_had_named_one_for(house):
    house.accept(make_call(caller=None))
    assert backfill.take([line()], house.store, house.acceptor, region="US") == ({"news": 1}, [])
    assert house.entry().facts.caller.e164 == PHONE


def test_one_bad_line_does_not_stop_the_others(house):
    taken, faults = backfill.take(["{", line()], house.store, house.acceptor, region="US")
    assert taken == {"new": 1}
    assert len(faults) == 1
    assert faults[0].startswith("line 1: ")


def test_call_from_before_the_ledger_becomes_one_lead_with_one_note(house):
    """Its birth is later than the call, so earlier work on it may be forgotten: the CRM is asked before anything is written."""
    backfill.take([line(started_at=str(int(NOW - 40 * 86_400)))], house.store, house.acceptor, region="US")
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


# ---- From the phone systems' own lists


@pytest.fixture
def deployment(redis_url):
    with commands(redis_url) as made:
        yield made


def listed(number, **facts):
    told = {"id": f"CA{number}", "caller": PHONE, "dialled": "+15550109999", "started": time.time() - 600}
    return SandboxCall(**told | facts)


def test_listed_calls_are_brought_in_with_counts_and_reasons(deployment):
    run, world = deployment
    world.add("twilio", listed(1), listed(2), listed(3, direction="outbound"), listed(4, started=time.time() - 5))
    done = run(backfill.command, "--since", "2h", "--json")
    told = json.loads(done.output)
    assert done.exit_code == 0
    assert told["lists"] == [
        {
            "provider": "twilio",
            "account": "",
            "found": 3,
            "inserted": 2,
            "updated": 0,
            "known": 0,
            "too_young": 1,
            "ignored": {"outbound call": 1},
            "fault": None,
        }
    ]
    again = run(backfill.command, "--since", "2h")
    assert "twilio: 3 calls listed: 0 brought in, 2 known, 1 so young" in again.output
    assert "1 ignored: outbound call" in again.output


def test_dry_run_changes_nothing(deployment, connection):
    run, world = deployment
    world.add("twilio", listed(1))
    assert "1 would be brought in" in run(backfill.command, "--since", "1d", "--dry-run").output
    assert not connection.keys("cb:entry:*")


def test_list_that_fails_ends_one_and_says_what_to_check(deployment):
    run, world = deployment
    world.page_size = 1
    world.add("twilio", listed(1))
    world.answer = lambda asked: Answer(401, {})
    done = run(backfill.command, "--since", "2h")
    assert done.exit_code == 1
    assert "NOT READ TO ITS END" in done.output
    assert "Check TWILIO_ACCOUNT_SID and TWILIO_AUTH_TOKEN." in done.output


def test_time_may_be_a_span_or_an_instant(deployment):
    run, world = deployment
    world.add("twilio", listed(1))
    assert run(backfill.command, "--since", "5m").output.startswith("twilio: 0 calls listed")
    earlier = datetime.fromtimestamp(time.time() - 900, UTC).isoformat()
    assert run(backfill.command, "--since", earlier).output.startswith("twilio: 1 calls listed")
    assert run(backfill.command, "--since", "lately").exit_code == 2


def test_provider_that_cannot_be_listed_is_named_with_its_setting(redis_url):
    with commands(redis_url, TWILIO_ACCOUNT_SID="") as (run, _):
        done = run(backfill.command, "--since", "2h", "--provider", "twilio")
        assert done.exit_code == 1
        assert "set TWILIO_ACCOUNT_SID" in done.output


def test_one_source_has_to_be_named(deployment):
    run, _ = deployment
    assert run(backfill.command).exit_code == 2
    assert run(backfill.command, "--since", "2h", "--file", "-").exit_code == 2


def test_calls_of_a_file_wait_for_their_turn_as_well(run, connection):
    run(line() + "\n" + line(call_id="CA2") + "\n")
    assert connection.llen("rq:queue:calls") == 0
    assert connection.zcard("cb:index:due") == 2


def test_bar_is_drawn_on_a_terminal_alone(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    (lister,) = listers(CASES[0])
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with backfill.Bar(lister, is_shown=True) as bar:
        bar.show("listed", 120, 0)
        bar.show("brought", 60, 120)
    assert "twilio  120 calls listed" in terminal.getvalue()
    assert f"[{'#' * 15}{'.' * 15}] 60/120" in terminal.getvalue()
    monkeypatch.setattr("sys.stderr", io.StringIO())
    with backfill.Bar(lister, is_shown=True) as bar:
        bar.show("listed", 1, 0)
    assert sys.stderr.getvalue() == ""

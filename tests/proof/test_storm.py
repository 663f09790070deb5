"""The storm itself, and that it can tell a good bridge from a bad one: each kind of fault is put before it and has to be seen."""

from __future__ import annotations

import http.server
import subprocess
import sys
import threading
import time
from dataclasses import replace

import pytest

from bridge.providers import registry
from bridge.sandbox.deployment import ROOT
from bridge.sandbox.phone import Delivery, TwilioPhone
from bridge.sandbox.proof import drill, storm, traffic, truth_table
from bridge.sandbox.proof.chaos import Kill
from bridge.sandbox.proof.storm import COMPRESSION, INDEX_LAG_S, Storm, compressed
from bridge.sandbox.proof.traffic import WITHHELD, Order, PlannedCall, Recorded, Sender, Wave
from bridge.sandbox.proof.truth_table import Evidence, judge
from bridge.settings import load
from tests.naive.deployment import NaiveDeployment
from tests.support.builders import ENVIRONMENT

SID = f"CA{1:032x}"
CALL = PlannedCall(0, SID, "+15550100001", 0.0, Order.AS_IT_HAPPENED, Recorded.NOT, 1, 0, has_leg=False, rival=None)
RIVALS = replace(CALL, rival="+15550110001")
NOBODY = replace(CALL, caller=WITHHELD)


# ---- The whole thing


@pytest.mark.timeout(240)
def test_storm_of_300_calls_loses_nothing_and_doubles_nothing(tmp_path):
    """Two webs, two worker processes, a kill every second and a half; the location allows duplicates, so nothing but the bridge helps."""
    result = storm.run(Storm(300, seed=1, per_s=14, disturb_every_s=1.5, patience_s=150), tmp_path)
    told = f"{result.as_document()}\n" + "\n".join(result.judgement.faults)
    assert result.ok, told
    assert result.kills + result.redis_restarts >= 3, told
    assert result.lost_answers > 0, told
    assert result.came_to_rest, told
    assert result.unanswered == 0, told
    assert result.judgement.counts.needs_attention == 0, told


@pytest.mark.timeout(240)
def test_empty_redis_costs_no_call_and_makes_no_twin_once_it_is_filled_again(tmp_path):
    result = drill.run(Storm(60, seed=7, per_s=12, patience_s=150), tmp_path)
    assert result.ok, f"{result.as_document()}\n" + "\n".join(result.judgement.faults)
    assert result.forgotten > 0
    assert result.backfill["calls"] == 60


def test_the_same_storm_finds_twins_in_a_bridge_from_a_tutorial(tmp_path):
    """A storm that every bridge stands would prove nothing."""
    result = storm.run(Storm(60, seed=3, per_s=30, disturb_every_s=3600, patience_s=20), tmp_path, make=NaiveDeployment)
    assert not result.ok
    assert result.judgement.counts.duplicates > 0
    assert result.judgement.counts.notes_twice > 0


# ---- The truth table


def row(state="done", contact_id="c1", **told):
    known = {"call_key": f"twilio-{SID}", "state": state, "contact_id": contact_id, "cause": None, "cause_word": None, "message": None}
    return known | {"waiting_for": None, "attempts": []} | told


def contact(number=1, phone=CALL.caller, *, alive=True):
    return {"id": f"c{number}", "alive": alive, "fields": {"phone": phone}}


def note(contact_id="c1", *, deleted=False):
    return {"body": f"Inbound call\nRef: twilio-{SID}", "contact_id": contact_id, "deleted": deleted}


def judged(call=CALL, rows=(), contacts=(), notes=(), acknowledged=frozenset({SID})):
    return judge(Evidence((call,), acknowledged, truth_table.by_sid(rows), contacts, notes))


def test_lead_with_its_note_is_well():
    found = judged(rows=[row()], contacts=[contact()], notes=[note()])
    assert found.counts.ok
    assert found.faults == ()
    assert found.counts.contacts == 1


def test_two_living_contacts_of_a_caller_are_duplicates():
    assert judged(rows=[row()], contacts=[contact(1), contact(2)], notes=[note()]).counts.duplicates == 1
    assert judged(rows=[row()], contacts=[contact(1), contact(2, alive=False)], notes=[note()]).counts.ok


def test_two_living_notes_of_a_call_are_one_too_many():
    assert judged(rows=[row()], contacts=[contact()], notes=[note(), note()]).counts.notes_twice == 1
    assert judged(rows=[row()], contacts=[contact()], notes=[note(), note(deleted=True)]).counts.ok


def test_acknowledged_call_that_nobody_knows_is_lost():
    assert judged().counts.lost == 1
    assert judged(acknowledged=frozenset()).counts.lost == 0


def test_done_without_its_contact_or_its_note_is_a_wrong_state():
    assert judged(rows=[row()], notes=[note()]).counts.wrong_state == 1
    assert judged(rows=[row()], contacts=[contact(alive=False)], notes=[note()]).counts.wrong_state == 1
    assert judged(rows=[row(contact_id="c9")], contacts=[contact()], notes=[note("c9")]).counts.wrong_state == 1
    assert judged(rows=[row()], contacts=[contact()]).counts.wrong_state == 1


@pytest.mark.parametrize("state", ["accepted", "running"])
def test_call_that_is_never_ended_is_a_wrong_state(state):
    assert judged(rows=[row(state)], contacts=[contact()], notes=[note()]).counts.wrong_state == 1


def test_question_counts_only_where_the_crm_could_not_have_answered_it():
    unanswerable = judged(rows=[row("needs_attention", cause="uncertain")])
    assert (unanswerable.counts.needs_attention, unanswerable.counts.wrong_state) == (1, 0)
    assert judged(rows=[row("needs_attention", cause="uncertain")], contacts=[contact()]).counts.wrong_state == 1
    assert judged(rows=[row("needs_attention", cause="exhausted")]).counts.wrong_state == 1


def test_conflict_is_right_only_where_it_was_provoked():
    asked = [row("needs_attention", cause="conflict")]
    assert judged(RIVALS, asked).counts.conflicts == 1
    assert judged(RIVALS, asked).counts.ok
    assert judged(CALL, asked).counts.wrong_state == 1
    assert judged(RIVALS, [row()], [contact()], [note()]).counts.wrong_state == 1


def test_withheld_caller_is_done_without_a_contact():
    assert judged(NOBODY, [row(contact_id=None)]).counts.ok
    assert judged(NOBODY, [row()], [contact()], [note()]).counts.wrong_state == 1
    assert judged(NOBODY).counts.lost == 1


def test_no_fault_names_a_number():
    found = judged(rows=[row()], contacts=[contact(1), contact(2)], notes=[note(), note()])
    assert found.faults
    assert CALL.caller not in " ".join(found.faults)


def test_recovery_is_counted_from_the_kill_to_the_end_of_the_attempt_that_made_up_for_it():
    def at(seconds):
        return f"2026-01-01T00:00:{seconds:02d}.000Z"

    def attempt(began, ended, outcome):
        return {"began_at": at(began), "ended_at": at(ended), "outcome": outcome}

    zero = truth_table._seconds(at(0))
    attempts = [attempt(1, 5, "died"), attempt(8, 9, "again"), attempt(10, 12, "done"), attempt(20, 30, "done")]
    assert truth_table.slowest_recovery_s([row(attempts=attempts)], [Kill(zero + 3, "work horse killed")]) == 9


# ---- The phone side


def test_same_seed_makes_the_same_calls():
    assert traffic.plan(200, 5, 12) == traffic.plan(200, 5, 12)
    assert traffic.plan(200, 5, 12) != traffic.plan(200, 6, 12)


def test_plan_holds_every_kind_of_trouble():
    calls = traffic.plan(2000, 1, 12).calls
    assert {call.order for call in calls} == set(Order)
    assert {call.recorded for call in calls} == set(Recorded)
    assert {1, 20} <= {call.copies for call in calls}
    assert any(call.rival for call in calls)
    assert any(call.has_leg for call in calls)
    assert any(call.caller == WITHHELD for call in calls)
    assert len({call.caller for call in calls}) < len(calls) * 0.9


def test_a_quarter_of_the_calls_comes_at_once():
    times = [call.at_s for call in traffic.plan(2000, 1, 10).calls]
    busiest = max(sum(begin <= at < begin + traffic.BURST_S for at in times) for begin in times)
    assert busiest >= traffic.BURST_CALLS


def test_callers_whom_the_crm_knows_ring_when_its_index_shows_them():
    planned = traffic.plan(600, 2, 12)
    assert planned.known
    assert all(call.at_s >= traffic.KNOWN_AFTER_S for call in planned.calls if call.caller in planned.known)


@pytest.mark.parametrize("order", Order)
def test_copies_of_a_delivery_go_out_at_the_same_instant(order):
    planned = replace(CALL, order=order, copies=4, recorded=Recorded.LATE, rival="+15550110001")
    waves = traffic.waves(TwilioPhone("http://127.0.0.1:1", "token"), planned, 1_768_489_445.0)
    assert sorted(len(wave.deliveries) for wave in waves) == [1, 1, 1, 1, 1, 4]
    assert waves[-1].after_s - waves[-2].after_s == pytest.approx(traffic.LATE_S)


@pytest.fixture
def forgetful_server():
    """Takes a delivery only when it comes for the third time."""
    asked: list[bytes] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            asked.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(204 if len(asked) >= 3 else 503)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    server.server_close()


def test_delivery_is_sent_until_it_is_taken(forgetful_server):
    url, asked = forgetful_server
    with Sender([url], threads=1, pause_s=0.01) as sender:
        sender.schedule(SID, Wave(0.0, (Delivery("POST", f"{url}/webhooks/twilio", {}, b"told"),)), time.monotonic())
        deadline = time.monotonic() + 10
        while sender.waiting and time.monotonic() < deadline:
            time.sleep(0.01)
    assert asked == [b"told"] * 3
    assert (sender.sent, sender.sent_again, sender.acknowledged) == (3, 2, {SID})


# ---- Time


def test_compressed_settings_keep_what_has_to_outlast_what():
    settings = load(ENVIRONMENT | compressed(), registry.SETTINGS)
    assert sum(settings.settle_schedule_s) > INDEX_LAG_S / COMPRESSION
    assert settings.attempt_lease_s > settings.request_timeout_s + 1


def test_skewed_program_sees_a_wrong_clock_everywhere(tmp_path):
    program = tmp_path / "tell"
    program.write_text(
        "import time\nfrom datetime import datetime, UTC\n"
        "assert isinstance(datetime.fromisoformat('2026-01-01'), datetime)\nprint(time.time(), datetime.now(UTC).timestamp())\n"
    )
    program.chmod(0o755)
    command = [sys.executable, "-m", "bridge.sandbox.proof.skewed", "300", str(program)]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    assert all(200 < float(seen) - time.time() < 301 for seen in told)

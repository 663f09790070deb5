"""K13, observability and operator actions: what failed is seen once, and nothing that is pressed twice happens twice."""

from __future__ import annotations

import threading

import pytest
from rq import Queue
from rq.serializers import JSONSerializer

from bridge.ledger import by_hand, keys
from bridge.ledger.entry import State
from bridge.ledger.store import Change
from bridge.sandbox.proof.points import CrashedError, Side
from bridge.watch.guard import IN_A_ROW, StormGuard
from bridge.work import queues
from bridge.work.sweep import Sweeper
from tests.cases.support import ADA, AT_CREATE, AT_SEARCH, CREATE, NOTE, twilio_key
from tests.support.storms import make_older

HALF_AN_HOUR = 1800.0


def many(bridge, count):
    return [bridge.phones.call(f"+1202555{100 + number:04}") for number in range(count)]


def test_b127_death_of_a_worker_is_raised_by_the_job_that_reports_it(bridge):
    """Three deaths in a row park a call; no process is left to say so, so its job is put once more and raises."""
    call = bridge.phones.call()
    bridge.post(bridge.phones.ended(call))
    run_job = bridge.rig.run_job

    def run(call_key):
        points = bridge.rig.points
        points.at, points.side, points.act = len(points.names) + 2, Side.BEFORE, points.crash
        run_job(call_key)

    bridge.rig.run_job = run
    bridge.rig.rest()
    assert bridge.failures() == ["worker.died"]
    assert bridge.entry(call).unreported is False


def test_b130_crm_that_is_down_for_half_an_hour_alarms_nobody_and_costs_no_call(make_bridge):
    """The default budget is spent after 38 minutes in the mean, and by some calls sooner: how long it lasts is a setting."""
    bridge = make_bridge(MAX_ATTEMPTS="40")
    fault = bridge.fault("error_before", status=500)
    calls = many(bridge, 5)
    bridge.post(*map(bridge.phones.ended, calls))
    bridge.run_until(bridge.rig.clock.now() + HALF_AN_HOUR)
    assert bridge.failures() == []
    assert bridge.counted("again") >= 5
    bridge.rig.engine.faults.remove(fault)
    bridge.rig.rest()
    assert len(bridge.contacts()) == len(bridge.notes()) == 5
    assert bridge.failures() == []


def test_b130_exhausted_plan_lists_each_call_under_one_cause(make_bridge):
    """500 whose body says 402: tried within the budget, then each is a question, and all of them can be put back."""
    bridge = make_bridge(MAX_ATTEMPTS="3")
    bridge.fault("plain_text", status=500, text='{"statusCode": 402, "message": "plan exhausted"}')
    calls = many(bridge, 20)
    bridge.take(*map(bridge.phones.ended, calls))
    assert {bridge.entry(call).trouble.word for call in calls} == {"crm.5xx"}
    assert bridge.counted("parked") == 20
    bridge.mend()
    bridge.replay(*calls)
    assert len(bridge.contacts()) == len(bridge.notes()) == 20


def test_b130_a_day_of_one_cause_is_one_event_an_hour_after_the_first_five(redis_url, connection):
    """The first few are told one by one, since at ordinary rates each failure has its event; from then on the rest is counted."""
    guard, cause = StormGuard(redis_url), "callbridge crm.5xx"
    verdicts = []
    for _ in range(300):
        verdicts.append(guard.admit(cause))
        make_older(connection, cause, 86_400 / 300)
    passed = sum(verdict.passes for verdict in verdicts)
    assert IN_A_ROW <= passed <= IN_A_ROW + 24
    told = sum(verdict.withheld for verdict in verdicts)
    assert passed + told + int(connection.get(f"{keys.storm(cause)}:withheld") or 0) == 300, "each is told of, or counted"


def test_b131_question_is_found_among_others_without_any_alert(make_bridge):
    """Sentry is the second place where a failure shows; the ledger is the first, and it has no quota."""
    bridge = make_bridge(MAX_ATTEMPTS="1")
    bridge.fault("error_before", times=20, **AT_SEARCH)
    flood = many(bridge, 20)
    bridge.take(*map(bridge.phones.ended, flood))
    bridge.rig.engine.configure({"token_state": "revoked"})
    alone = bridge.phones.call("+12025550199")
    bridge.take(bridge.phones.ended(alone))
    parked = bridge.rig.process.store.page(State.NEEDS_ATTENTION, after=None, limit=100)
    assert len(parked) == 21
    [found] = [entry for entry in parked if entry.trouble.word == "crm.401_token"]
    assert (found.call_key, found.owner) == (twilio_key(alone), "anna")
    assert found.trouble.due_at - found.trouble.at <= 8 * 3600
    assert bridge.counted("parked") == 21


def test_b133_overlapping_sweeps_and_replays_send_each_call_once(make_crew):
    crew = make_crew(workers=3, world={"latency_s": 0.02}, RETRY_BASE_S="0.5", RETRY_CAP_S="1")
    crew.ghl.add_fault("error_before", times=20, **AT_SEARCH)
    calls = many(crew, 20)
    crew.post(*map(crew.phones.ended, calls))
    stop = threading.Event()
    others = [threading.Thread(target=sweep_until, args=(crew, stop)) for _ in range(3)]
    for thread in others:
        thread.start()
    crew.rest()
    stop.set()
    for thread in others:
        thread.join()
    assert crew.failed == []
    assert (crew.asked(CREATE), crew.asked(NOTE)) == (20, 20)
    for call in calls:
        crew.assert_one_lead(call, phone=call.caller)


def sweep_until(crew, stop):
    """A sweeper that does not ask whether it holds the lease, as after a pause that outlasted it."""
    parts = crew.parts()
    sweeper = Sweeper(parts.connection, parts.store)
    while not stop.wait(0.02):
        sweeper.sweep()
    parts.connection.close()


def test_b134_stale_list_shows_that_the_call_has_moved_on(bridge):
    fault = bridge.fault("plain_text", status=400, text='{"message": "no"}', **AT_CREATE)
    call = bridge.phones.call()
    bridge.take(bridge.phones.ended(call))
    seen = by_hand.mark(bridge.entry(call))
    bridge.rig.engine.faults.remove(fault)
    bridge.replay(call)
    bridge.assert_one_lead(call)
    assert by_hand.mark(bridge.entry(call)) != seen


def test_b134_done_call_that_is_queued_again_behind_the_ledgers_back_sends_nothing(bridge):
    """As RQ's own requeue would do it, or a hand in Redis."""
    call = bridge.phones.call()
    bridge.take(bridge.phones.ended(call))
    before = bridge.asked()
    queue = Queue(queues.QUEUE, connection=bridge.connection, serializer=JSONSerializer)
    queue.enqueue_call(queues.JOB, args=(twilio_key(call),), job_id=twilio_key(call))
    bridge.rig.rest()
    assert (bridge.asked(), bridge.state(call), bridge.entry(call).attempt) == (before, "done", 1)


def test_b134_done_call_that_is_replayed_all_the_same_sends_nothing(bridge):
    call = bridge.phones.call()
    bridge.take(bridge.phones.ended(call))
    before = bridge.asked()
    store = bridge.rig.process.store
    store.change(twilio_key(call), lambda entry, moment: Change(by_hand.replay(entry, moment.now, start_at=moment.now)))
    bridge.rig.rest()
    bridge.assert_one_lead(call, phone=ADA)
    assert bridge.asked() == before


@pytest.mark.parametrize("side", [Side.BEFORE, Side.AFTER])
def test_b134_entry_and_job_are_written_together_or_not_at_all(bridge, side):
    call = bridge.phones.call()
    points = bridge.rig.points
    points.at, points.side, points.act = len(points.names) + 1, side, points.crash
    with pytest.raises(CrashedError):
        bridge.post(bridge.phones.ended(call))
    bridge.restart()
    is_written = side is Side.AFTER
    assert len(bridge.entries()) == bridge.connection.llen("rq:queue:calls") == int(is_written)
    bridge.take(bridge.phones.ended(call))
    bridge.assert_one_lead(call)

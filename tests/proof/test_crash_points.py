"""Every crash point of every world, without sampling: at rest each call is done, with one contact and one note."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
import redis

from bridge.call import Call, Caller, CallerKind, Status
from bridge.ledger.claims import Claims
from bridge.sandbox.ghl.faults import Fault
from bridge.sandbox.ghl.world import OwnCheck, World
from bridge.sandbox.proof import rig as rig_module
from bridge.sandbox.proof.crash import HARDEST, NOT_PROMISED, SCENARIOS, How, Prover, Reply, Report, Scenario, Who
from bridge.sandbox.proof.points import Points, WatchedRedis
from bridge.sandbox.proof.rig import Rig, event, rig_settings
from bridge.settings import UncertainCreate
from bridge.work.attempt import Work
from handlers import find_or_create_lead, steps


def assert_holds(prover: Prover, scenario: Scenario, capsys: pytest.CaptureFixture[str]) -> None:
    report = prover.prove(scenario)
    with capsys.disabled():
        print(f"\n{report.scenario}: {len(report.points)} effects, {report.runs} runs, {len(report.faults)} faults")  # noqa: T201 - the count is part of the proof
    assert not report.faults, "\n".join(report.faults[:10])
    assert report.runs + len(report.left_out) == 1 + stops(report), "each stop once in each way: something was skipped"
    assert set(report.left_out) <= {name for name in report.points if name.endswith(NOT_PROMISED)}


def stops(report: Report) -> int:
    """Before each effect and after the last, in each way; how a horse ends makes no difference where there is none."""
    every = len(report.points) + 1
    of_horses = sum(not name.startswith(("bridge.intake.", "bridge.work.sweep.")) for name in report.points) + 1
    of_way = {How.HORSE: every, How.DYNO: of_horses, How.PAUSE: every if report.scenario.who is Who.RACING else 0, How.FREEZE: every}
    return sum(of_way[way] for way in report.ways)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_a_crash_at_any_effect_loses_nothing_and_doubles_nothing(scenario: Scenario, redis_url: str, capsys: pytest.CaptureFixture[str]):
    assert_holds(Prover(redis_url, steps.planner, steps.STEPS), scenario, capsys)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("scenario", HARDEST + SCENARIOS, ids=str)
def test_not_even_where_answers_are_lost_while_the_index_lags_or_a_process_freezes(
    scenario: Scenario, redis_url: str, capsys: pytest.CaptureFixture[str]
):
    ways = tuple(How) if scenario in HARDEST else (How.FREEZE,)
    assert_holds(Prover(redis_url, steps.planner, steps.STEPS, ways), scenario, capsys)


def test_every_command_that_redis_executed_was_a_point(redis_url: str):
    """A write that went past the instrumentation would be a crash point that nobody tried."""
    server = redis.Redis.from_url(redis_url)
    prover = Prover(redis_url, steps.planner, steps.STEPS)
    server.config_resetstat()
    rig = prover._run(Scenario(Who.NEW, allows_duplicates=True, reply=Reply.LOST), Points(), How.HORSE)
    executed = {name.removeprefix("cmdstat_").upper(): stat["calls"] for name, stat in server.info("commandstats").items()}
    counted = {name: rig.points.commands.count(name) for name in set(rig.points.commands)}
    inside_scripts = {"HSET", "HDEL", "HINCRBY", "EXPIRE", "SET", "ZADD", "ZREM", "DEL", "INCR", "PEXPIRE", "ZREMRANGEBYSCORE"}
    missed = {
        name: (executed[name], counted.get(name, 0))
        for name in executed
        if name in {"EVAL", "EVALSHA", "RPUSH", "LTRIM", "LREM", "SADD", "PERSIST"} and executed[name] != counted.get(name, 0)
    }
    rig.close()
    assert not missed, (
        f"executed and counted differ: {missed} (writes inside scripts, such as {sorted(inside_scripts)[:3]}, count as theirs)"
    )
    assert counted["EXEC"] > 10


# --- the proof must be able to fail: leave a rule out, and it does


CALL = Call(
    provider="twilio", account="", root_id="CA0", caller=Caller("+12025550143", CallerKind.PSTN, "+12025550143"), status=Status.COMPLETED
)
HARD = Scenario(Who.NEW, allows_duplicates=True, reply=Reply.LOST_AND_LAG)
RACE = Scenario(Who.RACING, allows_duplicates=True, reply=Reply.LOST_AND_LAG)


def broken_by(monkeypatch, redis_url, scenario, settings=None) -> list[str]:
    prover = Prover(redis_url, steps.planner, steps.STEPS, until_first_fault=True)
    return (replace(prover, settings=settings) if settings else prover).prove(scenario).faults


def test_without_settling_there_are_twins(monkeypatch, redis_url):
    monkeypatch.setattr(find_or_create_lead, "look_again_later", lambda *_: None)
    assert any("2 contacts" in fault for fault in broken_by(monkeypatch, redis_url, HARD))


def test_without_remembering_the_intent_there_are_twins(monkeypatch, redis_url):
    monkeypatch.setattr(Claims, "announce", lambda self, claim, *, timeout_s: self.renew(claim))
    monkeypatch.setattr(Claims, "lost", lambda self, claim: None)
    assert any("2 contacts" in fault for fault in broken_by(monkeypatch, redis_url, HARD))


def test_without_announcing_the_note_there_are_two_notes(monkeypatch, redis_url):
    monkeypatch.setattr(Work, "send", lambda self, step, request, **_: request())
    assert any("2 notes" in fault for fault in broken_by(monkeypatch, redis_url, HARD))


def test_a_schedule_shorter_than_the_index_lag_makes_twins(monkeypatch, redis_url):
    impatient = rig_settings(settle_schedule_s=(2.0, 5.0))
    assert any("2 contacts" in fault for fault in broken_by(monkeypatch, redis_url, HARD, impatient))


def test_without_the_claim_racing_calls_make_twins(monkeypatch, redis_url):
    """Each attempt gets a claim of its own: nobody waits for anybody."""
    acquire = Claims.acquire
    monkeypatch.setattr(Claims, "acquire", lambda self, location, who, *, owner: acquire(self, location, who + owner, owner=owner))
    assert any("contacts" in fault for fault in broken_by(monkeypatch, redis_url, RACE))


def test_without_checking_the_lease_a_process_that_wakes_makes_a_twin(monkeypatch, redis_url):
    """Others have worked while it was frozen, and the index does not show it yet: only the look at its lease stops it."""
    lagging = Scenario(Who.NEW, allows_duplicates=True, reply=Reply.LAG)
    prover = Prover(redis_url, steps.planner, steps.STEPS, (How.FREEZE,))
    assert not prover.prove(lagging).faults
    monkeypatch.setattr(Work, "before_request", lambda self, timeout_s: None)
    assert any("2 contacts" in fault for fault in prover.prove(lagging).faults)


@pytest.mark.parametrize(("policy", "contacts"), [(UncertainCreate.UPSERT, 2), (UncertainCreate.ASK, 1)])
def test_a_request_applied_long_after_its_time_out_is_the_border_and_asking_closes_it(redis_url, policy, contacts):
    """The one world in which the rules break: the network keeps a create for minutes, where duplicates are allowed."""
    world = World(allow_duplicate_contact=True, search_lag_s=60, duplicate_lag_s=60, own_check=OwnCheck.LAGGING, burst=10**6)
    rig = Rig(redis_url, steps.planner, steps.STEPS, world, rig_settings(uncertain_create=policy), late_s=110)
    rig.engine.faults.add(Fault.model_validate({"kind": "request_lost", "method": "POST", "path": "/contacts/upsert", "times": 1}))
    rig.deliver(event(CALL, "status"))
    rig.rest()
    rig.clock.at = max([rig.clock.at, *(at for at, _ in rig.late)])
    rig.apply_late()
    living = [contact for contact in rig.engine.truth.contacts() if contact.alive]
    rig.close()
    assert len(living) == contacts


def test_a_watched_client_counts_what_it_writes(redis_url):
    points = Points()
    client = WatchedRedis.watching(redis_url, points)
    client.set("a", random.random())
    client.get("a")
    with client.pipeline() as pipe:
        pipe.get("a")
        pipe.set("b", 1)
        pipe.execute()
    client.close()
    assert points.commands == ["SET", "SET", "EXEC"]
    assert rig_module.START > 0

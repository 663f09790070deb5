"""Every crash point of every world, without sampling: at rest each call is done, with one contact and one note."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
import redis

from bridge.ledger.claims import Claims
from bridge.sandbox.proof import rig as rig_module
from bridge.sandbox.proof.crash import NOT_PROMISED, SCENARIOS, Prover, Reply, Scenario, Who
from bridge.sandbox.proof.points import Points, WatchedRedis
from bridge.sandbox.proof.rig import rig_settings
from bridge.work.attempt import Work
from handlers import find_or_create_lead, steps


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_a_crash_at_any_effect_loses_nothing_and_doubles_nothing(scenario: Scenario, redis_url: str, capsys: pytest.CaptureFixture[str]):
    report = Prover(redis_url, steps.planner, steps.STEPS).prove(scenario)
    with capsys.disabled():
        print(f"\n{report.scenario}: {len(report.points)} effects, {report.runs} runs, {len(report.faults)} faults")  # noqa: T201 - the count is part of the proof
    assert not report.faults, "\n".join(report.faults[:10])
    of_horses = sum(not name.startswith(("bridge.intake.", "bridge.work.sweep.")) for name in report.points)
    ways = 3 if scenario.who is Who.RACING else 2
    stops = ways * (len(report.points) + 1) + of_horses + 1
    assert report.runs + len(report.left_out) == 1 + stops, "each stop once in each way: something was skipped"
    assert set(report.left_out) <= {name for name in report.points if name.endswith(NOT_PROMISED)}


def test_every_command_that_redis_executed_was_a_point(redis_url: str):
    """A write that went past the instrumentation would be a crash point that nobody tried."""
    server = redis.Redis.from_url(redis_url)
    prover = Prover(redis_url, steps.planner, steps.STEPS)
    server.config_resetstat()
    rig = prover._run(Scenario(Who.NEW, allows_duplicates=True, reply=Reply.LOST), Points(), rig_how())
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


def rig_how():
    from bridge.sandbox.proof.crash import How

    return How.HORSE


# --- the proof must be able to fail: leave a rule out, and it does


HARD = Scenario(Who.NEW, allows_duplicates=True, reply=Reply.LOST_AND_LAG)
RACE = Scenario(Who.RACING, allows_duplicates=True, reply=Reply.LOST_AND_LAG)


def broken_by(monkeypatch, redis_url, scenario, settings=None) -> list[str]:
    prover = Prover(redis_url, steps.planner, steps.STEPS)
    return (replace(prover, settings=settings) if settings else prover).prove(scenario).faults


def test_without_settling_there_are_twins(monkeypatch, redis_url):
    monkeypatch.setattr(find_or_create_lead, "look_again_later", lambda *_: None)
    assert any("2 contacts" in fault for fault in broken_by(monkeypatch, redis_url, HARD))


def test_without_remembering_the_intent_there_are_twins(monkeypatch, redis_url):
    monkeypatch.setattr(Claims, "announce", lambda self, claim, *, timeout_s: self.renew(claim))
    monkeypatch.setattr(Claims, "lost", lambda self, claim: None)
    assert any("2 contacts" in fault for fault in broken_by(monkeypatch, redis_url, HARD))


def test_without_announcing_the_note_there_are_two_notes(monkeypatch, redis_url):
    monkeypatch.setattr(Work, "send", lambda self, step, request: request())
    assert any("2 notes" in fault for fault in broken_by(monkeypatch, redis_url, HARD))


def test_a_schedule_shorter_than_the_index_lag_makes_twins(monkeypatch, redis_url):
    impatient = rig_settings(settle_schedule_s=(2.0, 5.0))
    assert any("2 contacts" in fault for fault in broken_by(monkeypatch, redis_url, HARD, impatient))


def test_without_the_claim_racing_calls_make_twins(monkeypatch, redis_url):
    """Each attempt gets a claim of its own: nobody waits for anybody."""
    acquire = Claims.acquire
    monkeypatch.setattr(Claims, "acquire", lambda self, location, who, *, owner: acquire(self, location, who + owner, owner=owner))
    assert any("contacts" in fault for fault in broken_by(monkeypatch, redis_url, RACE))


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

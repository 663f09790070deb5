"""`prove`: what it shows, and how it ends. The storm itself is tried in tests/proof."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from bridge.commands import prove
from bridge.sandbox.proof import drill as drills
from bridge.sandbox.proof import storm as storms
from bridge.sandbox.proof.drill import Drill, Recovery
from bridge.sandbox.proof.storm import Result, Storm
from bridge.sandbox.proof.truth_table import Counts, Judgement

PROMISED = {"calls", "deliveries", "contacts", "duplicates", "lost", "notes_twice", "needs_attention", "wrong_state", "kills"}
PROMISED |= {"redis_restarts", "lost_answers", "seconds", "seed"}


def counts(**told):
    zero = {"contacts": 9, "duplicates": 0, "lost": 0, "notes_twice": 0, "needs_attention": 0, "conflicts": 1, "wrong_state": 0}
    return Counts(**zero | told)


def result(storm, faults=(), **told):
    return Result(
        storm=storm,
        judgement=Judgement(counts(**told), tuple(faults)),
        deliveries=1234,
        sent_again=5,
        unanswered=0,
        came_to_rest=True,
        kills=3,
        redis_restarts=1,
        acts={"web killed": 3},
        lost_answers=7,
        requests=100,
        slowest_recovery_s=4.5,
        seconds=61.5,
    )


@pytest.fixture
def run(monkeypatch):
    """The command over a storm that is over as soon as it begins; `asked` is what it was asked for."""
    asked = []

    def invoke(*arguments, faults=(), **told):
        def storm_is_over(storm, _folder, *, progress):
            asked.append(storm)
            progress(storm.calls, storm.calls)
            return result(storm, faults, **told)

        def drill_is_over(storm, _folder, *, progress):
            progress(storm.calls, storm.calls)
            return Drill(storm, Judgement(counts(**told), tuple(faults)), 4, {"ok": True, "calls": storm.calls}, 12.0)

        monkeypatch.setattr(storms, "run", storm_is_over)
        monkeypatch.setattr(drills, "run", drill_is_over)
        monkeypatch.setattr(drills, "recover", lambda _folder: [Recovery("work horse killed", told.get("took", 9.0), 60.0)])
        return CliRunner().invoke(prove.command, arguments)

    invoke.asked = asked
    return invoke


def test_document_holds_every_promised_figure_and_ends_zero(run):
    done = run("--calls", "20", "--seed", "7", "--json")
    document = json.loads(done.stdout)
    assert set(document) >= PROMISED
    assert (document["calls"], document["seed"], document["ok"]) == (20, 7, True)
    assert done.exit_code == 0


@pytest.mark.parametrize("fault", ["duplicates", "lost", "notes_twice", "wrong_state"])
def test_one_fault_of_any_kind_ends_one(run, fault):
    done = run("--json", faults=["CA1: lost"], **{fault: 1})
    assert done.exit_code == 1
    assert "WRONG  CA1: lost" in done.stderr


def test_questions_that_only_a_person_can_answer_are_no_fault(run):
    assert run(needs_attention=3).exit_code == 0


def test_table_names_each_figure_on_a_line_of_its_own(run):
    shown = run("--calls", "20").stdout.splitlines()
    assert any(line.split() == ["duplicates", "0"] for line in shown)
    assert any(line.split() == ["deliveries", "1,234"] for line in shown)


def test_only_the_first_faults_are_told_one_by_one(run):
    told = run(faults=[f"CA{number}: lost" for number in range(30)], lost=30).stderr
    assert told.count("WRONG") == prove.FAULTS_SHOWN + 1
    assert "and 10 more" in told


def test_location_is_the_harder_one_unless_told(run):
    run()
    run("--location", "refuses")
    assert run.asked == [Storm(300, 1), Storm(300, 1, allows_duplicates=False)]


def test_drill_tells_what_was_forgotten(run):
    done = run("--drill", "--json")
    assert json.loads(done.stdout)["forgotten"] == 4
    assert done.exit_code == 0


@pytest.mark.parametrize(("took", "code"), [(9.0, 0), (61.0, 1)])
def test_recovery_ends_zero_only_within_its_goal(run, took, code):
    done = run("--recovery", "--json", took=took)
    assert done.exit_code == code
    assert json.loads(done.stdout)["recoveries"][0]["slowest_s"] == took


def test_drill_and_recovery_exclude_each_other(run):
    done = run("--drill", "--recovery")
    assert done.exit_code == 2
    assert "not both" in done.stderr

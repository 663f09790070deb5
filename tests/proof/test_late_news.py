"""Every crash point of an update that comes late: at rest there is one note, with the news in it and with all that staff wrote."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from bridge.call import Call, Caller, CallerKind, Recording, Status
from bridge.ledger.entry import State
from bridge.sandbox.ghl.faults import Fault
from bridge.sandbox.ghl.world import World
from bridge.sandbox.proof.points import Points, Side
from bridge.sandbox.proof.rig import Rig, event
from handlers import steps

CALL = Call(
    provider="twilio", account="", root_id="CA0", caller=Caller("+12025550143", CallerKind.PSTN, "+12025550143"), status=Status.COMPLETED
)
NEWS = replace(CALL, duration_s=61, recordings=(Recording("RE1", "https://example.com/RE1", 3),))
NOTES = "/contacts/{contact_id}/notes"
NOTE = "/contacts/{contact_id}/notes/{note_id}"
STAFF = "called back, wants Tuesday"


def change_and_tell(rig: Rig, points: Points, *, edit: str, reported: bool, lost: str = "") -> None:
    """The note is changed by `edit`; from then on `points` count. News comes to a new process, and everything comes to rest."""
    [note] = rig.engine.truth.notes()
    rig.engine.book.keep_note(replace(note, body=note.body + edit))
    if lost:
        rig.engine.faults.add(Fault.model_validate({"kind": "answer_lost", "method": lost, "path": NOTE, "times": 1}))
    rig.points = points
    points.act = points.crash
    rig.restart()
    rig.deliver(event(NEWS, "recording"))
    rig.run_jobs(horse_reported=reported)
    rig.rest(horse_reported=reported)


@contextmanager
def late_news(redis_url: str, points: Points, *, edit: str, lost: str, reported: bool) -> Iterator[Rig]:
    """A call whose note was written, and then changed by `edit`; the news comes and everything comes to rest."""
    rig = Rig(redis_url, steps.planner, steps.STEPS, World(burst=10**6, daily=10**9))
    rig.deliver(event(CALL, "status"))
    rig.rest()
    change_and_tell(rig, points, edit=edit, reported=reported, lost=lost)
    yield rig
    rig.close()


@pytest.mark.parametrize("lost", ["", "GET", "PUT"])
@pytest.mark.parametrize("edit", ["", f"\n{STAFF}"], ids=["as written", "changed by staff"])
@pytest.mark.parametrize("reported", [True, False], ids=["horse", "dyno"])
def test_a_crash_at_any_effect_of_an_update_costs_no_word_and_makes_no_second_note(redis_url, edit, lost, reported) -> None:
    with late_news(redis_url, Points(), edit=edit, lost=lost, reported=reported) as calm:
        names = calm.points.names
    assert any(name.endswith("PUT /contacts/…/notes/…") for name in names), names
    for number in range(1, len(names) + 1):
        with late_news(redis_url, Points(number, Side.BEFORE), edit=edit, lost=lost, reported=reported) as rig:
            [note], [entry] = [note for note in rig.engine.truth.notes() if not note.deleted], rig.entries()
        where = f"before effect {number} ({names[number - 1]})"
        assert entry.state is State.DONE, where
        assert edit in note.body, where
        assert note.body.count("Recording: https://example.com/RE1") == 1, where
        assert note.body.count("Outcome: ") == (2 if edit else 1), where


@contextmanager
def lost_note(redis_url: str, points: Points, *, edit: str, reported: bool) -> Iterator[Rig]:
    """The first sending of a note got no answer, then it was changed by `edit`; news comes, and everything comes to rest."""
    rig = Rig(redis_url, steps.planner, steps.STEPS, World(burst=10**6, daily=10**9))
    rig.engine.faults.add(Fault.model_validate({"kind": "answer_lost", "method": "POST", "path": NOTES, "times": 1}))
    rig.deliver(event(CALL, "status"))
    rig.run_jobs(horse_reported=True)
    [entry] = rig.entries()
    assert "note_call" in entry.intents
    change_and_tell(rig, points, edit=edit, reported=reported)
    yield rig
    rig.close()


@pytest.mark.parametrize("edit", ["", f"\n{STAFF}"], ids=["as written", "changed by staff"])
@pytest.mark.parametrize("reported", [True, False], ids=["horse", "dyno"])
def test_a_crash_while_a_lost_note_is_found_again_costs_no_word_and_makes_no_second_note(redis_url, edit, reported) -> None:
    with lost_note(redis_url, Points(), edit=edit, reported=reported) as calm:
        names = calm.points.names
    assert any(name.endswith("PUT /contacts/…/notes/…") for name in names), names
    for number in range(1, len(names) + 1):
        with lost_note(redis_url, Points(number, Side.BEFORE), edit=edit, reported=reported) as rig:
            [note], [entry] = [note for note in rig.engine.truth.notes() if not note.deleted], rig.entries()
        where = f"before effect {number} ({names[number - 1]})"
        assert entry.state is State.DONE, where
        assert edit in note.body, where
        assert note.body.count("Recording: https://example.com/RE1") == 1, where
        assert note.body.count("Outcome: ") == (2 if edit else 1), where

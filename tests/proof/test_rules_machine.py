"""The rules of find-or-create, driven at random against a model of what must be true.

Calls come in, bring news, are run, crash, are swept and replayed, in any order, on a real Redis and a virtual clock, in the worlds of the
design's model: a CRM whose own duplicate check sees what the index does not show yet (`sharp`) or not (`lagging`), and requests that are
applied in time (`timely`) or long after their time-out (`late`).
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from unittest import mock

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from bridge.call import Call, Caller, CallerKind, Recording, Status
from bridge.ledger import moves
from bridge.ledger.claims import Claims
from bridge.ledger.entry import State
from bridge.ledger.store import Change
from bridge.sandbox.ghl.faults import Fault
from bridge.sandbox.ghl.world import OwnCheck, World
from bridge.sandbox.proof.points import Points, Side
from bridge.sandbox.proof.rig import Rig, event, rig_settings
from bridge.settings import UncertainCreate
from handlers import find_or_create_lead, steps

CALLERS = ("+12025550143", "+12025550144")
WRITES = ("/contacts/", "/contacts/upsert", "/contacts/{contact_id}/notes", "/contacts/{contact_id}/tags")
BUDGET = settings(
    max_examples=10,
    stateful_step_count=20,
    deadline=None,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),  # a failure names the steps that led to it; shrinking them would take minutes
    suppress_health_check=list(HealthCheck),
    print_blob=False,
)


class Machine(RuleBasedStateMachine):
    """The model is small: which calls were accepted, from whom, and that each caller is to have one contact, each call one note."""

    url = ""
    world = World(search_lag_s=60, duplicate_lag_s=60, own_check=OwnCheck.LAGGING, allow_duplicate_contact=True, burst=10**6, daily=10**9)
    settings_of_rig = rig_settings()
    late_s = 0.0

    def __init__(self) -> None:
        super().__init__()
        self.rig = Rig(self.url, steps.planner, steps.STEPS, self.world, self.settings_of_rig)
        self.rig.late_s = self.late_s
        self.accepted: dict[str, Call] = {}

    @rule(caller=st.sampled_from(CALLERS))
    def a_call_comes_in(self, caller: str) -> None:
        call = Call(provider="twilio", account="", root_id=f"CA{len(self.accepted)}", caller=Caller(caller, CallerKind.PSTN, caller))
        self.accepted[call.key] = call
        self.rig.deliver(event(replace(call, status=Status.RINGING), "voice"))

    @precondition(lambda self: self.accepted)
    @rule(data=st.data(), status=st.sampled_from((Status.RINGING, Status.IN_PROGRESS, Status.COMPLETED, Status.NO_ANSWER)))
    def news_come(self, data: st.DataObject, status: Status) -> None:
        call = data.draw(st.sampled_from(sorted(self.accepted.values(), key=lambda one: one.key)))
        self.rig.deliver(event(replace(call, status=status), "status"))

    @precondition(lambda self: self.accepted)
    @rule(data=st.data())
    def a_recording_comes(self, data: st.DataObject) -> None:
        call = data.draw(st.sampled_from(sorted(self.accepted.values(), key=lambda one: one.key)))
        self.rig.deliver(event(replace(call, caller=None, recordings=(Recording("RE1", "https://example.com/RE1", 3),)), "recording"))

    @rule()
    def jobs_run(self) -> None:
        self.rig.run_jobs()

    @rule(after=st.integers(1, 30), side=st.sampled_from(Side), told=st.booleans())
    def jobs_run_into_a_crash(self, after: int, side: Side, told: bool) -> None:
        self.use(Points(after, side))
        self.rig.points.act = self.rig.points.crash
        self.rig.run_jobs(horse_reported=told)
        self.use(Points())

    @precondition(lambda self: len(self.accepted) > 1)
    @rule(after=st.integers(1, 30), frozen_s=st.sampled_from((0.0, 20.0, 40.0, 100.0)))
    def one_worker_stands_still_while_others_work(self, after: int, frozen_s: float) -> None:
        def act() -> None:
            if self.rig.points.names[-1].endswith(("POST /contacts", "POST /contacts/upsert", "/notes")) and frozen_s:
                return  # the border that docs/guarantees.md names
            self.rig.clock.sleep(frozen_s)
            self.rig.meanwhile(lambda: (self.rig.sweep(), self.rig.run_jobs()))

        self.use(Points(after, Side.BEFORE))
        self.rig.points.act = act
        self.rig.run_jobs()
        self.use(Points())

    @rule(seconds=st.sampled_from((0.5, 3.0, 10.0, 40.0, 130.0)))
    def time_passes(self, seconds: float) -> None:
        self.rig.clock.sleep(seconds)
        self.rig.sweep()

    @rule(
        path=st.sampled_from(WRITES),
        kind=st.sampled_from(("answer_lost", "request_lost", "error_after", "error_before", "refused_but_done")),
    )
    def the_next_write_goes_wrong(self, path: str, kind: str) -> None:
        self.rig.engine.faults.add(Fault.model_validate({"kind": kind, "method": "POST", "path": path, "times": 1}))

    @precondition(lambda self: self.accepted)
    @rule(data=st.data())
    def a_person_replays(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.accepted)))

        def decide(entry, moment):
            parked = entry is not None and entry.state is State.NEEDS_ATTENTION
            return Change(moves.replay(entry, moment.now)) if parked else None

        self.rig.process.store.change(key, decide)

    @invariant()
    def nobody_has_a_twin(self) -> None:
        assert not self.rig.engine.truth.duplicates(), "2 contacts"

    def teardown(self) -> None:
        try:
            self.use(Points())
            self.rig.engine.faults.clear()
            self.rig.rest()
            self.nobody_has_a_twin()
            entries = {entry.call_key: entry for entry in self.rig.entries()}
            assert set(entries) == set(self.accepted), "a call was lost"
            for key, entry in entries.items():
                self.check_at_rest(key, entry)
        finally:
            self.rig.close()

    def check_at_rest(self, key, entry) -> None:
        if entry.state is State.NEEDS_ATTENTION:
            assert self.may_ask(entry), f"{key} was parked: {entry.trouble}"
            return
        assert entry.state is State.DONE
        contacts = [contact.id for contact in self.rig.engine.truth.contacts(self.accepted[key].caller.e164) if contact.alive]
        assert contacts == [entry.contact_id]
        assert sum(self.rig.engine.truth.notes_with(key).values()) == 1, "not one note"

    def may_ask(self, entry) -> bool:
        """Only a 422 on a note is refused for good by a rule of the design; and whoever is told to ask, asks."""
        return entry.trouble.word in {"crm.invalid", "settle.ask", "crm.unprocessable", "crm.refused", "crm.422"} or entry.deaths >= 3

    def use(self, points: Points) -> None:
        self.rig.points = points
        self.rig.restart()


def machine(redis_url: str, **changes: object) -> type[Machine]:
    return type("MachineInThisWorld", (Machine,), {"url": redis_url, **changes})


WORLDS = {
    "sharp CRM, duplicates refused": {"world": Machine.world.changed(own_check=OwnCheck.SHARP, allow_duplicate_contact=False)},
    "lagging CRM, duplicates refused": {"world": Machine.world.changed(allow_duplicate_contact=False)},
    "sharp CRM, duplicates allowed": {"world": Machine.world.changed(own_check=OwnCheck.SHARP)},
    "lagging CRM, duplicates allowed": {},
    "lagging CRM, late requests, ask": {
        "late_s": 400.0,
        "settings_of_rig": rig_settings(uncertain_create=UncertainCreate.ASK),
    },
}


def assert_holds(world: type[Machine], examples: int = BUDGET.max_examples) -> None:
    """Every invariant after every step, and everything at rest at the end."""
    run_state_machine_as_test(world, settings=settings(BUDGET, max_examples=examples))


@pytest.mark.parametrize("world", WORLDS)
def test_the_rules_hold_in_each_world(world: str, redis_url: str):
    assert_holds(machine(redis_url, **WORLDS[world]))


LEFT_OUT = {
    "settle": [mock.patch.object(find_or_create_lead, "look_again_later", return_value=None)],
    "remember": [
        mock.patch.object(Claims, "announce", lambda self, claim, *, timeout_s: self.renew(claim)),
        mock.patch.object(Claims, "lost", return_value=None),
    ],
}


@pytest.mark.parametrize("rule_name", LEFT_OUT)
def test_the_machine_breaks_without(rule_name: str, redis_url: str):
    with ExitStack() as stack:
        for patch in LEFT_OUT[rule_name]:
            stack.enter_context(patch)
        with pytest.raises(AssertionError):
            assert_holds(machine(redis_url), 300)

"""Every crash point, exhaustively: for each effect on the road of a call, a crash just before and just after it, in every world.

One run of a scenario counts its effects; then the scenario is run once for each stop: crashed there, restarted, run to rest. No sampling.
A stop lies between two effects: the instant just after effect 7 and the one just before effect 8 are the same for all that a crash leaves
behind, so each is run once and stands for both. What has to be true at rest is in `faults_of`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from itertools import product

from bridge.call import Call, Caller, CallerKind, Status
from bridge.ledger.entry import State
from bridge.sandbox.ghl.faults import Fault
from bridge.sandbox.ghl.world import OwnCheck, World
from bridge.sandbox.proof.points import Points, Side
from bridge.sandbox.proof.rig import START, Rig, event, rig_settings
from bridge.settings import Settings
from bridge.work.attempt import Planner, Step

PHONE = "+12025550143"

# The one border (docs/guarantees.md): a process frozen for longer than its lease between the check of the lease and the send.
NOT_PROMISED = ("POST /contacts", "POST /contacts/upsert", "POST /contacts/…/notes")
FROZEN_S = 600.0
_WITHOUT_HORSE = ("bridge.intake.", "bridge.work.sweep.")
SETTLE_S = (10.0, 72.0)  # as long as the product's own schedule, in one look that may find nothing and a last one


class Who(StrEnum):
    """Who calls."""

    NEW = "new caller"
    KNOWN = "known caller"  # the CRM has the contact, the ledger does not know it
    RACING = "two racing calls"  # of one new caller; the second runs where the first is stopped


class Reply(StrEnum):
    """What becomes of the CRM's answers and of its index."""

    KEPT = "reply kept"
    LOST = "reply lost"  # the first answer to each kind of write is lost after its effect
    LAG = "index lag"  # both searches and the CRM's own duplicate check see a contact 60 s late
    LOST_AND_LAG = "reply lost, index lag"


class How(StrEnum):
    """How the process ends at the point."""

    HORSE = "the work horse is killed, its parent tells the ledger"
    DYNO = "the whole machine is lost, the lease has to run out"
    PAUSE = "it is only paused, and the other call runs meanwhile"
    FREEZE = "it is frozen until its leases have run out and others have done all the work, and then goes on"


@dataclass(frozen=True)
class Scenario:
    who: Who
    allows_duplicates: bool
    reply: Reply
    rules: str = "as designed"

    def __str__(self) -> str:
        return f"{self.who}, duplicates {'allowed' if self.allows_duplicates else 'refused'}, {self.reply}"


SCENARIOS = tuple(Scenario(*parts) for parts in product(Who, (False, True), (Reply.KEPT, Reply.LOST, Reply.LAG)))
HARDEST = tuple(Scenario(*parts) for parts in product(Who, (False, True), (Reply.LOST_AND_LAG,)))
DEATHS = (How.HORSE, How.DYNO, How.PAUSE)


@dataclass
class Report:
    """What a scenario's runs came to."""

    scenario: Scenario
    ways: tuple[How, ...] = ()
    points: list[str] = field(default_factory=list)
    runs: int = 0
    left_out: list[str] = field(default_factory=list)  # frozen at the one moment that docs/guarantees.md names
    faults: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Prover:
    """Runs scenarios on the Redis at `url` with the product's own planner and steps."""

    url: str
    planner: Callable[[Settings], Planner]
    steps: Sequence[Step]
    ways: tuple[How, ...] = DEATHS
    until_first_fault: bool = False
    settings: Settings = field(default_factory=lambda: rig_settings(settle_schedule_s=SETTLE_S))

    def prove(self, scenario: Scenario, progress: Callable[[int], None] = lambda _: None) -> Report:
        report = Report(scenario, self.ways)
        self._run(
            scenario, Points(), How.HORSE
        ).close()  # Redis learns the Lua scripts, so that all runs from here on have the same effects
        calm = self._run(scenario, Points(), How.HORSE)
        report.points = calm.points.names
        report.faults += [f"{scenario}, undisturbed: {fault}" for fault in faults_of(calm)]
        report.runs = 1
        calm.close()
        for number, side, how in self._stops(report):
            name = report.points[number - 1]
            if how is How.FREEZE and side is Side.BEFORE and name.endswith(NOT_PROMISED):
                report.left_out.append(name)
                continue
            report.faults += [
                f"{scenario}; {how} {side} effect {number} ({name}): {fault}" for fault in self._try(scenario, number, side, how)
            ]
            report.runs += 1
            progress(report.runs)
            if self.until_first_fault and report.faults:
                break
        return report

    def _stops(self, report: Report) -> Iterator[tuple[int, Side, How]]:
        """Before the first effect, between each and the next, and after the last; in each way that applies there.

        How a work horse ends makes a difference only to what it does itself: the web and the sweeper have none.
        """
        names, last = report.points, len(report.points)
        for way in self.ways:
            if way is How.PAUSE and report.scenario.who is not Who.RACING:
                continue
            for number in range(1, last + 1):
                if way is not How.DYNO or not names[number - 1].startswith(_WITHOUT_HORSE):
                    yield number, Side.BEFORE, way
            yield last, Side.AFTER, way

    def _try(self, scenario: Scenario, number: int, side: Side, how: How) -> list[str]:
        rig: Rig | None = None
        try:
            rig = self._run(scenario, Points(number, side), how)
            return faults_of(rig)
        except AssertionError as error:
            return [str(error)]
        finally:
            if rig is not None:
                rig.close()

    def _run(self, scenario: Scenario, points: Points, how: How) -> Rig:
        rig = Rig(self.url, self.planner, self.steps, _world(scenario), self.settings, points)
        _prepare(rig, scenario)
        calls = _calls(2 if scenario.who is Who.RACING else 1)
        points.act = _act(rig, how, calls)
        reported = how is not How.DYNO
        for status, what in ((Status.RINGING, "voice"), (Status.COMPLETED, "status")):
            for call in calls:
                rig.deliver(event(_at(call, status), what))
            rig.run_jobs(horse_reported=reported)
        rig.rest(horse_reported=reported)
        return rig


def faults_of(rig: Rig) -> list[str]:
    """What is wrong at rest: each call is done with the one contact of its caller, and one note."""
    found = []
    contacts = [contact for contact in rig.engine.truth.contacts(PHONE) if contact.alive]
    if len(contacts) != 1:
        found.append(f"{len(contacts)} contacts")
    for entry in rig.entries():
        if entry.state is not State.DONE:
            found.append(f"{entry.call_key} is {entry.state}: {entry.trouble.message if entry.trouble else entry.waiting_for}")
        elif entry.contact_id not in {contact.id for contact in contacts}:
            found.append(f"{entry.call_key} is done with a contact that is not there")
        notes = sum(rig.engine.truth.notes_with(entry.call_key).values())
        if notes != 1:
            found.append(f"{notes} notes of {entry.call_key}")
    if rig.raised:
        found.append(f"reached the failed registry: {[f'{key}: {error.cause}' for key, error in rig.raised]}")
    return found


def _world(scenario: Scenario) -> World:
    lag = 60.0 if scenario.reply in (Reply.LAG, Reply.LOST_AND_LAG) else 0.0
    return World(
        allow_duplicate_contact=scenario.allows_duplicates,
        search_lag_s=lag,
        duplicate_lag_s=lag,
        own_check=OwnCheck.LAGGING,
        burst=10**6,
        daily=10**9,
    )


def _prepare(rig: Rig, scenario: Scenario) -> None:
    if scenario.who is Who.KNOWN:
        rig.engine.book.add({"phone": PHONE, "firstName": "Ada"})
        rig.clock.sleep(3600)
    if scenario.reply in (Reply.LOST, Reply.LOST_AND_LAG):
        for path in ("/contacts/", "/contacts/upsert", "/contacts/{contact_id}/notes", "/contacts/{contact_id}/tags"):
            rig.engine.faults.add(Fault.model_validate({"kind": "answer_lost", "method": "POST", "path": path, "times": 1}))


def _calls(count: int) -> list[Call]:
    caller = Caller(PHONE, CallerKind.PSTN, PHONE)
    return [Call(provider="twilio", account="", root_id=f"CA{number}", caller=caller, dialled="+15550109999") for number in range(count)]


def _at(call: Call, status: Status) -> Call:
    if not status.is_final:
        return replace(call, status=status)
    return replace(call, status=status, started_at=datetime.fromtimestamp(START + 7200, UTC), duration_s=40)


def _act(rig: Rig, how: How, calls: list[Call]) -> Callable[[], None]:
    """What happens at the stop."""

    def crash() -> None:
        if len(calls) > 1:
            rig.meanwhile(lambda: rig.run_job(calls[1].key))
        rig.points.crash()

    def pause() -> None:
        rig.meanwhile(lambda: rig.run_job(calls[1].key))

    def freeze() -> None:
        rig.clock.sleep(FROZEN_S)
        rig.meanwhile(rig.rest)

    return {How.PAUSE: pause, How.FREEZE: freeze}.get(how, crash)

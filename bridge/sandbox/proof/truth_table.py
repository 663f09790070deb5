"""What a storm came to: the ledger's word on each call held against what is really in the CRM. Pure.

Only the stand-in knows what really happened, so a call that asks a person although the answer stands in the CRM is as wrong as one that is
shown as done and is not there.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from bridge.ledger.entry import Cause, State
from bridge.sandbox.proof.chaos import Kill
from bridge.sandbox.proof.traffic import WITHHELD, PlannedCall

_SID = re.compile(r"CA[0-9a-f]{32}")

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything that is known at the end. Rows of calls as the API shows them, of contacts and notes as the stand-in does."""

    planned: Sequence[PlannedCall]
    acknowledged: AbstractSet[str]  # ids of calls about which a delivery was answered 2xx
    rows: Mapping[str, Row]  # by the phone system's id
    contacts: Sequence[Row]
    notes: Sequence[Row]


@dataclass(frozen=True, slots=True)
class Counts:
    """Of callers, calls and questions. All is well where `duplicates`, `lost`, `notes_twice` and `wrong_state` are 0."""

    contacts: int
    duplicates: int  # callers who have two contacts or more
    lost: int  # acknowledged calls that ended neither as a lead with its note nor as a question
    notes_twice: int  # calls with two notes or more
    needs_attention: int  # questions that nobody but a person can answer
    conflicts: int  # questions about deliveries that contradicted each other, each of them provoked
    wrong_state: int

    @property
    def ok(self) -> bool:
        return not (self.duplicates or self.lost or self.notes_twice or self.wrong_state)


@dataclass(frozen=True, slots=True)
class Judgement:
    counts: Counts
    faults: tuple[str, ...]  # one line each, by call id; no numbers of callers


def judge(evidence: Evidence) -> Judgement:
    view = _View(evidence)
    twins = [phone for phone, ids in view.living.items() if len(ids) > 1]
    twice = [sid for sid, count in view.notes.items() if count > 1]
    lost = [call.sid for call in evidence.planned if call.sid in evidence.acknowledged and view.is_lost(call)]
    wrong = {call.sid: why for call in evidence.planned if (why := view.wrong(call))}
    asked = [row for row in evidence.rows.values() if row["state"] == State.NEEDS_ATTENTION]
    conflicts = sum(row["cause"] == Cause.CONFLICT for row in asked)
    counts = Counts(
        contacts=sum(len(ids) for ids in view.living.values()),
        duplicates=len(twins),
        lost=len(lost),
        notes_twice=len(twice),
        needs_attention=len(asked) - conflicts,
        conflicts=conflicts,
        wrong_state=len(wrong),
    )
    callers = {call.caller: call.sid for call in evidence.planned}
    told = [
        *(f"{callers.get(phone, 'a stranger')}: its caller has {len(view.living[phone])} contacts" for phone in twins),
        *(f"{sid}: lost" for sid in lost),
        *(f"{sid}: {view.notes[sid]} notes" for sid in twice),
        *(f"{sid}: {why}" for sid, why in wrong.items()),
    ]
    return Judgement(counts, tuple(told))


class _View:
    """The evidence, indexed."""

    def __init__(self, evidence: Evidence) -> None:
        self.rows = evidence.rows
        self.living: dict[str, set[str]] = defaultdict(set)
        for contact in evidence.contacts:
            if contact["alive"]:
                self.living[str(contact["fields"].get("phone"))].add(contact["id"])
        self.notes = Counter(sid for note in evidence.notes if not note["deleted"] for sid in set(_SID.findall(note["body"])))

    def is_lost(self, call: PlannedCall) -> bool:
        row = self.rows.get(call.sid)
        if row is not None and row["state"] == State.NEEDS_ATTENTION:
            return False
        if call.caller == WITHHELD and call.rival is None:
            return row is None
        return not self.notes[call.sid] or not self._contacts(call)

    def wrong(self, call: PlannedCall) -> str | None:
        """Why the state in which a call is shown is not the truth."""
        row = self.rows.get(call.sid)
        if row is None:
            return None  # lost, which is counted by itself
        match row["state"]:
            case State.DONE:
                return self._wrong_done(call, row)
            case State.NEEDS_ATTENTION:
                return self._wrong_question(call, row)
        return f"is still {row['state']}: {row['waiting_for'] or 'nobody runs it'}"

    def _wrong_done(self, call: PlannedCall, row: Row) -> str | None:
        if call.rival is not None:
            return "done, though its deliveries contradict each other"
        if call.caller == WITHHELD:
            return "done with a contact, though nobody knows who called" if row["contact_id"] else None
        if row["contact_id"] not in self._contacts(call):
            return "done with a contact that is not the caller's"
        return None if self.notes[call.sid] else "done without its note"

    def _wrong_question(self, call: PlannedCall, row: Row) -> str | None:
        if row["cause"] == Cause.CONFLICT:
            return None if call.rival is not None else "a conflict that nobody provoked"
        if row["cause"] == Cause.UNCERTAIN and not self._contacts(call):
            return None  # a create was lost on its way or not: from outside the two look the same
        return f"asks a person ({row['cause_word']}: {row['message']}), though the truth could be found"

    def _contacts(self, call: PlannedCall) -> set[str]:
        return self.living.get(call.caller, set()) | (self.living.get(call.rival, set()) if call.rival else set())


def by_sid(rows: Iterable[Row]) -> dict[str, Row]:
    """Calls of the API by the phone system's id, which stands in each call key."""
    return {found[0]: row for row in rows if (found := _SID.search(row["call_key"]))}


def slowest_recovery_s(rows: Iterable[Row], kills: Sequence[Kill]) -> float:
    """The longest time from a kill to the end of the attempt that made up for the one it broke off; 0 where none was broken off."""
    return max((took for row in rows for took in _recoveries(row, kills)), default=0.0)


def _recoveries(row: Row, kills: Sequence[Kill]) -> list[float]:
    found, killed_at = [], None
    for attempt in row["attempts"]:
        began, ended = _seconds(attempt["began_at"]), _seconds(attempt["ended_at"])
        if attempt["outcome"] == "died":
            during = [kill.at for kill in kills if began <= kill.at <= ended]
            killed_at = killed_at or min(during, default=None)
        elif killed_at is not None and attempt["outcome"] in {"done", "parked"}:
            found.append(ended - killed_at)
            killed_at = None
    return found


def _seconds(instant: str | None) -> float:
    return datetime.fromisoformat(instant).timestamp() if instant else 0.0


def as_document(counts: Counts) -> dict[str, int]:
    return asdict(counts)

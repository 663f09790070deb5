"""What one request may say of a call: present.py with its time, its zone, and what may be read. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, tzinfo

from bridge.call import Call
from bridge.console import present, quiet
from bridge.ledger.entry import Cause, Entry


@dataclass(frozen=True, slots=True)
class Words:
    """Templates call it `say`. `clear` is for a reveal alone."""

    now: float
    zone: tzinfo
    clear: bool = False
    reads_crm: bool = False  # what GoHighLevel said, in its own words

    def cause(self, cause: Cause) -> str:
        return present.CAUSES[cause]

    def caller(self, entry: Entry) -> str:
        return present.caller(entry, clear=self.clear)

    def heading(self, entry: Entry) -> str:
        """`Call from +…43`, or `Call, number withheld`."""
        known = entry.facts.caller
        return f"Call from {self.caller(entry)}" if known and known.e164 else f"Call, {self.caller(entry)}"

    def contradiction(self, entry: Entry, other: Call) -> str:
        """What another delivery of the same call names: `another caller, +…44 and not +…43`."""
        return present.contradiction(entry.facts, other, clear=self.clear)

    def dialled(self, entry: Entry) -> str:
        return present.dialled(entry, clear=self.clear)

    def sentence(self, entry: Entry) -> str:
        return present.sentence(entry, self.now, self.zone)

    def message(self, entry: Entry, told: str | None = None) -> str:
        """Why a call needs attention, or what else was told of it, with as much of the CRM's words as may be read."""
        message = told if told is not None else entry.trouble.message if entry.trouble else ""
        read = message if self.clear else quiet.nameless(message, entry) if self.reads_crm else quiet.ours(message)
        return present.quoted(read)

    def story(self, entry: Entry, line: present.Line) -> present.Told:
        read = {**line, "message": self.message(entry, line["message"])} if line.get("message") else line
        return present.story(read, self.now, self.zone)

    def next(self, entry: Entry) -> str:
        return present.next_step(entry, self.now, self.zone)

    @property
    def clock(self) -> str:
        """Whose times a page shows, in a sentence."""
        return "Times are in UTC." if self.zone is UTC else f"Times are those of {str(self.zone).replace('_', ' ')}."

    def moment(self, at: float | None, *, seconds: bool = False) -> str:
        return present.moment(at, self.now, self.zone, seconds=seconds)

    def age(self, at: float) -> str:
        return present.span(self.now - at)

    def left(self, at: float) -> str:
        """`in 3 h`, or `5 min overdue`."""
        return f"in {present.span(at - self.now)}" if at >= self.now else f"{present.span(self.now - at)} overdue"

    def due(self, at: float) -> str:
        """`due in 3 h`, or `5 min overdue`."""
        return f"due {self.left(at)}" if at >= self.now else self.left(at)

    def is_past(self, at: float) -> bool:
        return at < self.now


def facts(entry: Entry, say: Words) -> list[tuple[str, str]]:
    """What is known of the call, as pairs; what was not told is left out."""
    call = entry.facts
    where = ", ".join(part for part in (call.city, call.state, call.country) if part)
    told = [
        ("Caller", say.caller(entry)),
        ("Name", call.caller_name or "" if say.clear else "masked" if call.caller_name else ""),
        ("From", where if say.clear else ""),
        ("Number called", say.dialled(entry)),
        ("Came in", say.moment(entry.accepted_at, seconds=True)),
        ("Call", present.ended(entry)),
        ("Phone system", call.provider),
        ("Pressed or said", _inputs(entry, say)),
        ("Recordings", str(len(call.recordings) or "")),
        ("Call key", entry.call_key),
        ("Location", entry.location_id),
        ("Owner", entry.owner),
    ]
    return [(name, value) for name, value in told if value]


def _inputs(entry: Entry, say: Words) -> str:
    """Keys pressed may be an account number or a card's, and what was said may be a name: masked with the rest."""
    values = [entered.value or "nothing" for entered in entry.facts.inputs]
    return ", ".join(values) if say.clear else (present.count(len(values), "entry", "entries") + ", masked" if values else "")

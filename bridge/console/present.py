"""Entries and trail lines as sentences. Pure: the pages show what stands here, and the texts are tested without a browser.

Numbers and names are masked unless the caller says `clear`, which only a reveal does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Any
from urllib.parse import quote
from zoneinfo import ZoneInfo

from bridge.call import Call, Caller, CallerKind, Status
from bridge.ledger.by_hand import REPLAY
from bridge.ledger.entry import Cause, Entry, State
from bridge.watch.masking import mask

CAUSES = {
    Cause.PERMANENT: "it was refused, and no retry mends that",
    Cause.EXHAUSTED: "every try of the budget has failed",
    Cause.UNCERTAIN: "a contact may exist already",
    Cause.CONFLICT: "two of its deliveries contradict each other",
    Cause.STALE: "nobody has told who called, or something speaks against a replay",
}
STEPS = {
    "find_or_create_lead": "find or create the lead",
    "tag_lead": "tag the lead",
    "note_call": "write the call's note",
}
_WAITS = {
    "redis": "Redis could not be reached",
    "worker.died": "its worker died",
    "worker.shutdown": "its worker was told to stop",
    "worker.timeout": "it took too long",
    "claim.busy": "another call of the same caller is at work",
    "crm.429": "GoHighLevel asked us to slow down",
    "crm.budget": "the request budget of GoHighLevel is spent for the moment",
    "crm.daily_limit": "the day's request budget of GoHighLevel is spent",
    "crm.timeout": "GoHighLevel did not answer in time",
    "crm.5xx": "GoHighLevel had a fault",
    "crm.connect": "GoHighLevel could not be reached",
    "settle.create": "the answer to an earlier create was lost; we look whether it took effect",
    "settle.note": "the answer to an earlier note was lost; we look whether it took effect",
    "settle.contact": "the new contact does not show everywhere in the CRM yet; we wait for it",
    REPLAY: "it is being replayed, and live calls go first",
}
_NOBODY = {
    CallerKind.WITHHELD: "number withheld",
    CallerKind.EMPTY: "no number sent",
    CallerKind.SIP: "a SIP address",
    CallerKind.CLIENT: "a soft phone",
    CallerKind.UNPARSED: "no telephone number",
}
_ENDED = {
    Status.UNKNOWN: "how it went is not known",
    Status.RINGING: "ringing",
    Status.IN_PROGRESS: "going on",
    Status.CANCELED: "the caller hung up before an answer",
    Status.FAILED: "could not be connected",
    Status.BUSY: "busy",
    Status.NO_ANSWER: "not answered",
    Status.COMPLETED: "answered, and over",
}


# --- times and numbers


def zone_of(name: str | None) -> tzinfo:
    """The location's time zone; UTC where it is not known."""
    try:
        return ZoneInfo(name) if name else UTC
    except (KeyError, ValueError, OSError):
        return UTC


def span(seconds: float) -> str:
    """`40 s`, `12 min`, `3 h 20 min`, `5 days`."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    minutes, hours = whole // 60, whole // 3600
    if hours < 1:
        return f"{minutes} min"
    if hours < 48:
        return f"{hours} h {minutes % 60} min" if minutes % 60 else f"{hours} h"
    return f"{hours // 24} days"


def moment(at: float | None, now: float, zone: tzinfo, *, seconds: bool = False) -> str:
    """`14:05` today, `28 Nov, 14:05` on another day."""
    if at is None:
        return ""
    there, today = datetime.fromtimestamp(at, zone), datetime.fromtimestamp(now, zone)
    clock = f"{there:%H:%M:%S}" if seconds else f"{there:%H:%M}"
    if there.date() == today.date():
        return clock
    year = f" {there.year}" if there.year != today.year else ""
    return f"{there.day} {there:%b}{year}, {clock}"


def quoted(text: str) -> str:
    """Names of requests and settings stand between backticks in our messages, as in our docs."""
    return re.sub(r"`([^`]*)`", r"“\1”", text)


def count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


# --- a call


def caller(entry: Entry, *, clear: bool = False) -> str:
    """Who rings: the last digits, or why there are none."""
    return _who(entry.facts.caller, clear=clear)


def _who(known: Caller | None, *, clear: bool) -> str:
    if known is None:
        return "caller not told yet"
    if known.e164 is None:
        return f"{_NOBODY[known.kind]} ({known.raw})" if clear and known.raw.strip() else _NOBODY[known.kind]
    return known.e164 if clear else mask(known.e164)


def dialled(entry: Entry, *, clear: bool = False) -> str:
    number = entry.facts.dialled or ""
    return number if clear else mask(number)


def contradiction(known: Call, other: Call, *, clear: bool = False) -> str:
    """What another delivery of the same call names that contradicts what is known: `another caller, +…44`."""
    parts = []
    if known.caller and other.caller and known.caller != other.caller:
        parts.append(f"another caller, {_who(other.caller, clear=clear)}")
    if known.dialled and other.dialled and known.dialled != other.dialled:
        parts.append(f"another number called, {other.dialled if clear else mask(other.dialled)}")
    return " and ".join(parts) or "something else"


def ended(entry: Entry) -> str:
    duration = entry.facts.duration_s
    return _ENDED[entry.facts.status] + (f", after {span(duration)}" if duration is not None else "")


def sentence(entry: Entry, now: float, zone: tzinfo) -> str:
    """How it stands with a call, in one sentence."""
    if entry.state is State.RUNNING:
        return f"A worker is at it: attempt {entry.attempt}, since {moment(entry.attempts[-1].began_at, now, zone, seconds=True)}."
    if entry.state is State.NEEDS_ATTENTION and entry.trouble is not None:
        return f"Needs attention: {CAUSES[entry.trouble.cause]}."
    if entry.state is State.DONE:
        return _done(entry)
    if entry.next_try_at is not None:
        when = f"at {moment(entry.next_try_at, now, zone, seconds=True)}" if entry.next_try_at > now else "any moment"
        return f"Accepted; goes on {when}, because {waits(entry.waiting_for)}."
    return "Accepted, and waits for a worker."


def _done(entry: Entry) -> str:
    if entry.closed_by:
        return f"Closed by hand by {entry.closed_by}."
    if entry.contact_id is None:
        return f"Done without a lead: {entry.reason or 'there was nothing to bring'}."
    return "Done: a new lead was made." if entry.contact_created else "Done: the call is with its contact."


def waits(word: str | None) -> str:
    """Why something is not done yet: an error's word, or a sentence of a step."""
    return _WAITS.get(word or "", word or "it waits for its turn")


def next_step(entry: Entry, now: float, zone: tzinfo) -> str:
    """What happens next, and when."""
    if entry.trouble is not None:
        return entry.trouble.hint
    if entry.state is State.DONE:
        return "Nothing, unless the phone system tells more about this call."
    if entry.state is State.RUNNING:
        return "The attempt ends, or its lease does; then the call goes on by itself."
    if entry.next_try_at is not None:
        return f"The next try, at {moment(entry.next_try_at, now, zone, seconds=True)}, by itself."
    return "A worker takes it, within seconds where one is free."


def step(name: str | None) -> str:
    return STEPS.get(name or "", (name or "").replace("_", " "))


def contact_url(entry: Entry) -> str | None:
    """The contact's page in GoHighLevel, https://app.gohighlevel.com/v2/location/<location>/contacts/detail/<contact>."""
    if entry.contact_id is None:
        return None
    return f"https://app.gohighlevel.com/v2/location/{quote(entry.location_id, safe='')}/contacts/detail/{quote(entry.contact_id, safe='')}"


# --- its story


@dataclass(frozen=True, slots=True)
class Told:
    """One thing that happened. `kind` picks its mark: in, work, good, wait, bad, person."""

    at: float
    text: str
    kind: str
    detail: str = ""


Line = Mapping[str, Any]


def story(line: Line, now: float, zone: tzinfo) -> Told:
    """A line of the trail as a sentence. One that a newer release wrote is shown by its word."""
    teller = _STORY.get(line["what"])
    if teller is None:
        return Told(line["at"], str(line["what"]).capitalize() + ".", "work")
    kind, tell = teller
    text, detail = tell(line, now, zone)
    return Told(line["at"], text, kind if line.get("outcome") != "again" else "wait", detail)


def _event(text: str) -> Callable[[Line, float, tzinfo], tuple[str, str]]:
    def tell(line: Line, _now: float, _zone: tzinfo) -> tuple[str, str]:
        came = {
            "spool": " It had waited in the spool while Redis was away.",
            "backfill": " It was fetched from the phone system's own list.",
        }
        status = f" The phone system says “{line['status']}”." if line.get("status") else ""
        return f"{text} ({line.get('event') or 'call'}).{status}{came.get(line.get('source', ''), '')}", ""

    return tell


def _ended_attempt(line: Line, now: float, zone: tzinfo) -> tuple[str, str]:
    number, at = line.get("attempt"), moment(line.get("next_try_at"), now, zone, seconds=True)
    if line.get("outcome") == "done":
        waiting = f" It goes on at {at}: {waits(line.get('why'))}." if at else ""
        return f"Attempt {number} brought everything that was known.{waiting}", ""
    during = f" at “{step(line['step'])}”" if line.get("step") else ""
    again = f" Again at {at}." if at else ""
    return f"Attempt {number} was broken off{during}: {waits(line.get('cause'))}.{again}", _traced(line)


def _parked(line: Line, _now: float, _zone: tzinfo) -> tuple[str, str]:
    during = f" at “{step(line['step'])}”" if line.get("step") else ""
    return f"It came to need attention{during}: {str(line.get('message') or line.get('cause') or '').rstrip('.')}.", _traced(
        line, told=True
    )


def _traced(line: Line, *, told: bool = False) -> str:
    """For whoever asks the vendor's support. `told`: the message stands in the sentence already."""
    parts = (line.get("cause"), None if told else line.get("message"), f"trace {line['trace_id']}" if line.get("trace_id") else None)
    return " · ".join(str(part) for part in parts if part)


def _lead(line: Line, _now: float, _zone: tzinfo) -> tuple[str, str]:
    how = {
        "created": "A new contact was created",
        "adopted": "GoHighLevel had the contact already, and it was used",
        "found": "The caller's contact was found",
        "known": "The caller's contact was known from an earlier call",
        "anonymous contact": "The call goes to the contact that collects calls without a number",
    }
    return f"{how.get(str(line.get('how')), 'The contact was settled')}.", f"contact {line.get('contact_id')}" + _trace(line)


def _trace(line: Line) -> str:
    return f" · trace {line['trace_id']}" if line.get("trace_id") else ""


def _plain(text: str, detail: str = "") -> Callable[[Line, float, tzinfo], tuple[str, str]]:
    """A sentence with the line's own facts in its braces."""

    def tell(line: Line, _now: float, _zone: tzinfo) -> tuple[str, str]:
        facts = _Facts(line)
        return text.format_map(facts), detail.format_map(facts) + _trace(line)

    return tell


def _by(text: str) -> Callable[[Line, float, tzinfo], tuple[str, str]]:
    """What a person did, with the reason where one was typed."""

    def tell(line: Line, _now: float, _zone: tzinfo) -> tuple[str, str]:
        again = f" It starts over at “{step(line['step'])}”." if line.get("step") else ""
        reason = f" Reason: {line['reason']}" if line.get("reason") else ""
        among = ", as one of many" if line.get("bulk") else ""
        return f"{text.format_map(_Facts(line))}{among}.{again}{reason}", ""

    return tell


class _Facts(dict[str, Any]):
    def __missing__(self, key: str) -> str:
        return "?"


_STORY: Mapping[str, tuple[str, Callable[[Line, float, tzinfo], tuple[str, str]]]] = {
    "event new": ("in", _event("The call came in")),
    "event news": ("in", _event("The phone system told more")),
    "event repeat": ("in", _event("The same was told again")),
    "event conflict": ("bad", _event("A delivery contradicted what was known")),
    "reopened": ("in", _plain("The call was opened again, to bring what is new.")),
    "attempt began": ("work", _plain("Attempt {attempt} began.")),
    "attempt ended": ("good", _ended_attempt),
    "needs attention": ("bad", _parked),
    "worker died": ("bad", _plain("The worker died during attempt {attempt}; the call was put back.")),
    "job lost, put again": ("wait", _plain("Its job was lost, and put again.")),
    "contact gone": (
        "wait",
        _plain("The contact was deleted or merged in GoHighLevel; the caller is looked up anew.", "contact {contact_id}"),
    ),
    "second contact": (
        "wait",
        _plain("GoHighLevel holds the caller twice, the number in two spellings. Nothing was merged.", "the other contact: {contact_id}"),
    ),
    "lead": ("good", _lead),
    "tagged": ("good", _plain("The lead was tagged.")),
    "note written": ("good", _plain("The call's note was written.", "note {note_id}")),
    "note updated": ("good", _plain("The call's note was brought up to date.", "note {note_id}")),
    "replayed": ("person", _by("{by} put the call back")),
    "adopted": ("person", _by("{by} said which contact is the call's: {contact_id}")),
    "closed": ("person", _by("{by} closed it by hand")),
    "assigned": ("person", _by("{by} gave it to {to}")),
    "revealed": ("person", _by("{by} looked at the number and the raw events")),
}

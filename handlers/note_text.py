"""The text of a call's note. Pure: the same facts give the same text, whatever the machine's clock, locale or zone.

What callers said and what their phones claim is foreign text: it is made inert, so that no CRM page runs it, no template fills it in
and no line of it can pass for one of ours.
"""

from __future__ import annotations

import hashlib
import html
import re
import unicodedata
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from bridge.call import Call, Caller, CallerKind, Status

CUT = "… [cut: the note's limit is reached]"
KEY_LINE = "Callbridge call "

# What an editor or the CRM makes of a text. Any other tag counts as words: somebody may have typed it.
_BLOCK = re.compile(r"</?(?:p|br|div|li|ul|ol|h[1-6]|tr|blockquote|pre)(?=[\s/>])[^<>]*>", re.IGNORECASE)
_BREAK = re.compile(rf"[\r\n]|{_BLOCK.pattern}", re.IGNORECASE)
_DRESS = re.compile(r"</?(?:a|b|strong|i|em|u|s|span|font|small|code)(?=[\s/>])[^<>]*>", re.IGNORECASE)
_UNSEEN = re.compile("[\u00ad\u200b-\u200f\u2060\ufeff]")

_STATUS = {
    Status.UNKNOWN: "no end was reported",
    Status.RINGING: "ringing; no end was reported",
    Status.IN_PROGRESS: "answered; no end was reported",
    Status.CANCELED: "the caller hung up before an answer",
    Status.FAILED: "could not be connected",
    Status.BUSY: "busy",
    Status.NO_ANSWER: "no answer",
    Status.COMPLETED: "completed",
}


def render(facts: Call, *, zone: str | None, limit: int | None, second: str | None = None) -> str:
    """The note. Times in `zone` (an IANA name) and in UTC. Cut to `limit` characters with a visible mark; the key line always stays.

    `second` is the id of another contact with the caller's number: who reads the note is who can merge the two.
    """
    key_line = KEY_LINE + facts.key
    lines = [line for line in _lines(facts, zone) if line]
    if second:
        lines.insert(2, f"Another contact has this number, in another spelling: {inert(second)}")
    text = "\n".join(lines)
    if limit is not None and len(text) + 1 + len(key_line) > limit:
        text = text[: max(0, limit - len(key_line) - len(CUT) - 2)].rstrip() + "\n" + CUT
    return f"{text}\n{key_line}"


def words_digest(body: str) -> str:
    """The words of a note, in short: the same after a CRM has made paragraphs of its lines, escaped it or moved its blanks."""
    return hashlib.sha256("".join("".join(_plain_lines(body)).split()).encode("utf-8", "replace")).hexdigest()[:16]


def holds_all(rendered: str, body: str) -> bool:
    """Whether `rendered` has every line of the note `body`, so that nothing is lost where it takes the note's place."""
    return set(_plain_lines(body)) <= set(_plain_lines(rendered))


def extend(body: str, rendered: str) -> str:
    """A note that may say more than we know, with those of our lines that it lacks."""
    has = set(_plain_lines(body))
    missing = [line for line in rendered.split("\n") if not has.issuperset(_plain_lines(line))]
    if not missing:
        return body
    if _BLOCK.search(body):  # an editor's text: there a line break alone does not show
        return body + "".join(f"<p>{html.escape(line, quote=False)}</p>" for line in missing)
    return "\n".join([body, *missing])


def inert(text: str) -> str:
    """Foreign text on one line: no control characters, no markup, no template braces."""
    flat = "".join(" " if unicodedata.category(char) in {"Cc", "Cf", "Zl", "Zp"} else char for char in text)
    flat = flat.encode("utf-8", "replace").decode().replace("<", "\u2039").replace(">", "\u203a")
    flat = re.sub(r"\{(?=\{)|\}(?=\})", r"\g<0> ", flat)  # one by one: of three braces two would stay together
    return re.sub(r"\s+", " ", flat).strip()


def _lines(facts: Call, zone: str | None) -> list[str | None]:
    return [
        "Inbound call",
        _caller(facts),
        f"Called: {inert(facts.dialled)}" if facts.dialled else None,
        f"Forwarded from: {inert(facts.forwarded_from)}" if facts.forwarded_from else None,
        _when(facts, zone),
        _outcome(facts),
        *(_entered(entered.kind, entered.value) for entered in facts.inputs),
        *(f"Transferred to: {inert(leg.to or leg.id)} ({_STATUS[leg.status]}{_lasting(leg.duration_s)})" for leg in facts.legs),
        *(f"Recording: {inert(recording.url)}{_lasting(recording.duration_s)}" for recording in facts.recordings),
        *(f"Message: {inert(transcript.text)}" for transcript in facts.transcripts if transcript.text),
    ]


def _caller(facts: Call) -> str | None:
    if facts.caller is None:
        return None
    place = ", ".join(inert(part) for part in (facts.city, facts.state, facts.country) if part)
    parts = [_number(facts.caller), inert(facts.caller_name or ""), place]
    return "From: " + " · ".join(part for part in parts if part)


def _number(caller: Caller) -> str:
    if caller.kind is not CallerKind.PSTN or caller.e164 is None:
        return f"{caller.kind.value} ({inert(caller.raw)})" if caller.raw.strip() else "no number"
    extension = f" ext. {caller.extension}" if caller.extension else ""
    rewritten = "" if _digits(caller.e164) in _digits(caller.raw) else f" (sent as {inert(caller.raw)})"
    return caller.e164 + extension + rewritten


def _digits(text: str) -> str:
    return re.sub(r"\D", "", text)


def _when(facts: Call, zone: str | None) -> str | None:
    began = facts.started_at or facts.answered_at or facts.ended_at
    if began is None:
        return None
    word = "Began" if facts.started_at else "Answered" if facts.answered_at else "Ended"
    utc = began.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    local = _local(began, zone)
    return f"{word}: {local} · {utc}" if local else f"{word}: {utc}"


def _local(instant: datetime, zone: str | None) -> str | None:
    """As a person there would write it. A zone that this machine does not know is left out; the UTC instant stands beside it."""
    if not zone:
        return None
    try:
        there = instant.astimezone(ZoneInfo(zone))
    except (KeyError, ValueError, OSError):
        return None
    return f"{there:%b} {there.day}, {there.year}, {there.hour % 12 or 12}:{there:%M} {'AM' if there.hour < 12 else 'PM'} ({zone})"


def _outcome(facts: Call) -> str:
    known = _STATUS[facts.status]
    raw = f" (the phone system says “{inert(facts.raw_status)}”)" if facts.status is Status.UNKNOWN and facts.raw_status else ""
    return f"Outcome: {known}{raw}{_lasting(facts.duration_s)}"


def _entered(kind: str, value: str) -> str:
    word = "Pressed" if kind == "digits" else "Said"
    return f"{word}: {inert(value) or 'nothing'}"


def _lasting(seconds: int | None) -> str:
    if seconds is None:
        return ""
    minutes, rest = divmod(seconds, 60)
    return f", {minutes} min {rest} s" if minutes else f", {rest} s"


def _plain_lines(body: str) -> list[str]:
    """The lines of a text as a reader sees them: no markup, no entities, no blanks but single ones, no empty lines."""
    return [line for line in map(_plain, _BREAK.split(body)) if line]


def _plain(line: str) -> str:
    """Escaped once more or once less, a line is the same."""
    shown = html.unescape(re.sub(r"&(?:amp;)+", "&", _DRESS.sub("", line)))
    return " ".join(_UNSEEN.sub("", unicodedata.normalize("NFC", shown)).split())

"""The one shape of a call. Adapters make it, the ledger merges it, the steps read it.

Every field says whether it is normalized, raw, or may be missing. `None` means "this event does not tell"; an empty string
means "was asked, nothing came". All instants are aware datetimes in UTC.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from datetime import datetime
from enum import StrEnum
from typing import TypeVar


class Status(StrEnum):
    """How far a call is, from low to high rank; the last five are final and never left again."""

    UNKNOWN = "unknown"  # not told, or a word that we do not know: `raw_status` keeps it
    RINGING = "ringing"  # not answered yet
    IN_PROGRESS = "in_progress"  # the IVR, or a person behind it, talks with the caller
    CANCELED = "canceled"  # the caller gave up before an answer
    FAILED = "failed"  # could not be connected
    BUSY = "busy"
    NO_ANSWER = "no_answer"
    COMPLETED = "completed"  # was answered and has ended

    @property
    def is_final(self) -> bool:
        return _RANK[self] >= _RANK[Status.CANCELED]


_RANK = {status: rank for rank, status in enumerate(Status)}


class Direction(StrEnum):
    INBOUND = "inbound"
    OUTBOUND = "outbound"  # placed by the business or its API: never makes a lead
    INTERNAL = "internal"  # between two extensions: never makes a lead


class CallerKind(StrEnum):
    """What the caller's id is worth. Only PSTN callers have an identity that two calls can share."""

    PSTN = "pstn"  # a telephone number in E.164
    WITHHELD = "withheld"  # "anonymous", "Restricted", the keypad spelling +266696687, …
    EMPTY = "empty"  # the field was there and blank
    SIP = "sip"  # a SIP address whose user part is no telephone number
    CLIENT = "client"  # a soft phone: client:alice
    UNPARSED = "unparsed"  # text that is no possible number


@dataclass(frozen=True, slots=True)
class Caller:
    """Who rings. `raw` is the provider's word; `e164` is set for PSTN callers alone, in the one spelling that claims are keyed by."""

    raw: str
    kind: CallerKind
    e164: str | None = None
    extension: str | None = None


@dataclass(frozen=True, slots=True)
class Input:
    """What a caller pressed or said at one prompt. `value` is "" when the prompt ended with nothing."""

    kind: str  # "digits" or "speech"
    value: str
    prompt: str = ""  # which prompt, as far as the provider tells: the last part of the webhook's URL
    delivery: str | None = None  # the provider's id of this delivery; tells the same key pressed twice from a repeat


@dataclass(frozen=True, slots=True)
class Recording:
    id: str
    url: str
    duration_s: int | None = None


@dataclass(frozen=True, slots=True)
class Transcript:
    id: str
    text: str


@dataclass(frozen=True, slots=True)
class Leg:
    """A further leg of the same visit: a transfer, or the agent whom the IVR dialled."""

    id: str
    to: str | None = None
    status: Status = Status.UNKNOWN
    duration_s: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What is known of one caller's visit to the IVR: from a single event, or merged from all of them."""

    provider: str
    account: str  # the scope in which `root_id` is unique, as proven by the signature; "" for the deployment's own account
    root_id: str  # the provider's id of the whole visit
    direction: Direction = Direction.INBOUND
    caller: Caller | None = None  # None: this event does not name the caller (recordings, child legs)
    dialled: str | None = None  # E.164 where it parses, else the provider's word
    status: Status = Status.UNKNOWN
    raw_status: str | None = None  # the provider's word for `status`
    caller_name: str | None = None
    city: str | None = None
    state: str | None = None
    postcode: str | None = None
    country: str | None = None  # ISO 3166-1 alpha-2, as told
    forwarded_from: str | None = None
    started_at: datetime | None = None
    answered_at: datetime | None = None
    ended_at: datetime | None = None
    duration_s: int | None = None
    inputs: tuple[Input, ...] = ()
    recordings: tuple[Recording, ...] = ()
    transcripts: tuple[Transcript, ...] = ()
    legs: tuple[Leg, ...] = ()

    @property
    def key(self) -> str:
        return call_key(self.provider, self.account, self.root_id)

    @property
    def is_over(self) -> bool:
        return self.status.is_final


_Ordered = TypeVar("_Ordered", datetime, int)
_Part = TypeVar("_Part", Recording, Transcript, Leg)


def call_key(provider: str, account: str, root_id: str) -> str:
    """Our key of a call: letters, digits, `_` and `-` only, since it is the RQ job id too (RQ refuses anything else).

    Stable for ever: entries, notes in the CRM and queued jobs carry it. A part of letters and digits stays readable;
    any other is replaced by `_` and its digest, so two different ids never share a key.
    """
    return "-".join(_key_part(part) for part in (provider, account, root_id) if part)


def carries(text: str, key: str) -> bool:
    """Whether a note belongs to the call of this key: it holds exactly this one, not one that merely begins with it."""
    return re.search(rf"(?<![A-Za-z0-9_-]){re.escape(key)}(?![A-Za-z0-9_-])", text) is not None


def _key_part(part: str) -> str:
    if re.fullmatch(r"[A-Za-z0-9]{1,64}", part):
        return part
    return "_" + hashlib.sha256(part.encode("utf-8", "surrogatepass")).hexdigest()[:40]


def contradicts(known: Call, news: Call) -> bool:
    """Whether `news` names another caller or another dialled number than `known`. What one of them does not tell is no contradiction."""
    return _differs(_identity(known.caller), _identity(news.caller)) or _differs(known.dialled, news.dialled)


def _identity(caller: Caller | None) -> str | None:
    """What two events must agree on. A withheld or blank caller id names nobody, so a number that comes later is news."""
    if caller is None or caller.kind in (CallerKind.WITHHELD, CallerKind.EMPTY):
        return None
    return caller.e164 or caller.raw.strip().casefold()


def _better(known: Caller | None, news: Caller | None) -> Caller | None:
    """A number outranks everything else, and anything a blank id; among equals the first telling stays."""
    if known is None or news is None:
        return known or news
    return max(known, news, key=_worth)


def _worth(caller: Caller) -> int:
    if caller.e164 is not None:
        return 2
    return 0 if caller.kind is CallerKind.EMPTY else 1


def _differs(known: str | None, news: str | None) -> bool:
    return bool(known) and bool(news) and known != news


def merge(known: Call, news: Call) -> Call:
    """What is known after `news`: nothing is lost, final statuses stick, and a repeat changes nothing.

    Order does not matter for what matters: the highest status wins, times keep their widest span, lists keep every member.
    A plain text that two events tell differently keeps the first telling.
    """
    raise_status = _RANK[news.status] > _RANK[known.status]
    told = {
        field.name: getattr(news, field.name)
        for field in fields(Call)
        if getattr(known, field.name) in (None, "") and getattr(news, field.name) not in (None, "")
    }
    return replace(
        known,
        **told
        | {
            "account": known.account,
            "caller": _better(known.caller, news.caller),
            "status": news.status if raise_status else known.status,
            "raw_status": _raw_status(known, news),
            "started_at": _least(known.started_at, news.started_at),
            "answered_at": _least(known.answered_at, news.answered_at),
            "ended_at": _most(known.ended_at, news.ended_at),
            "duration_s": _most(known.duration_s, news.duration_s),
            "inputs": _with_inputs(known.inputs, news.inputs),
            "recordings": _by_id(known.recordings, news.recordings, _merge_recording),
            "transcripts": _by_id(known.transcripts, news.transcripts, _merge_transcript),
            "legs": _by_id(known.legs, news.legs, _merge_leg),
        },
    )


def _raw_status(known: Call, news: Call) -> str | None:
    """The word for the status that wins, never the word for another one."""
    if news.status is known.status:
        return known.raw_status or news.raw_status
    return max(known, news, key=lambda call: _RANK[call.status]).raw_status


def _least(a: _Ordered | None, b: _Ordered | None) -> _Ordered | None:
    return min((x for x in (a, b) if x is not None), default=None)


def _most(a: _Ordered | None, b: _Ordered | None) -> _Ordered | None:
    return max((x for x in (a, b) if x is not None), default=None)


def _with_inputs(known: tuple[Input, ...], news: tuple[Input, ...]) -> tuple[Input, ...]:
    return known + tuple(entered for entered in news if entered not in known)


def _by_id(known: tuple[_Part, ...], news: tuple[_Part, ...], both: Callable[[_Part, _Part], _Part]) -> tuple[_Part, ...]:
    """Union by id, in order of id, so that the result does not depend on which event came first."""
    merged = {part.id: part for part in known}
    for part in news:
        merged[part.id] = both(merged[part.id], part) if part.id in merged else part
    return tuple(merged[part_id] for part_id in sorted(merged))


def _merge_recording(known: Recording, news: Recording) -> Recording:
    return Recording(known.id, known.url or news.url, _most(known.duration_s, news.duration_s))


def _merge_transcript(known: Transcript, news: Transcript) -> Transcript:
    return known if known.text else news


def _merge_leg(known: Leg, news: Leg) -> Leg:
    status = max(known.status, news.status, key=_RANK.__getitem__)
    return Leg(known.id, known.to or news.to, status, _most(known.duration_s, news.duration_s))

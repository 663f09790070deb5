"""What a request to GoHighLevel came to: one pure function from an outcome to a result, or to an error that says what happens next.

The outcome of one and the same status depends on what was asked. A read changed nothing, an idempotent write can be sent again,
and a create whose effect is open must be looked for before anything else: no idempotency key exists in the API.

Source of the bodies: https://github.com/GoHighLevel/highlevel-api-docs (its issues are cited as #N), for what its OpenAPI files leave out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from enum import StrEnum

from bridge.crm.causes import HINTS, Cause
from bridge.errors import Gone, Permanent, StepFailed, Transient, Uncertain
from bridge.watch.masking import mask

BURST_WAIT_S = 10.0  # the vendor's burst window, for a 429 that tells no time of its own
DAILY_WAIT_S = 900.0  # nobody tells when the vendor's day ends: ask once a quarter of an hour
LONGEST_WAIT_S = 86_400.0
LONGEST_BURST_WAIT_S = 3_600.0  # a burst is over in ten seconds: an answer that asks for days more is odd, and the call is tried again
SAID_MAX_CHARS = 200
_READ_CHARS = 4000

_VERSION = "not available in api version"  # #304
_DUPLICATE = "duplicat"  # "This location does not allow duplicated contacts."
_SCOPE = ("scope", "iam service")  # #217, #74
_INVALID = ("invalid", "must ", "should ", "valid phone", "calling code", "too long", "too short")


class Kind(StrEnum):
    """What sending a request twice would do."""

    READ = "read"  # nothing
    IDEMPOTENT_WRITE = "idempotent write"  # the same as sending it once
    CREATE = "create"  # perhaps a second contact or note


class Broken(StrEnum):
    """An exchange without a whole answer. Only after NOT_SENT is it certain that the CRM got nothing."""

    NOT_SENT = "no connection"
    TIMEOUT = "no whole answer in time"
    RESET = "the connection broke"
    TOO_LARGE = "an answer above the size limit"


@dataclass(frozen=True, slots=True)
class Request:
    """One request, as far as judging its outcome needs it. `name` is shown to people: no ids or numbers in it."""

    name: str
    kind: Kind
    scope: str  # the scope that the token needs for it
    on_contact: bool = False  # the path names a contact, so "not found" means that this contact is gone


@dataclass(frozen=True, slots=True)
class Response:
    """Status line and headers came. `broken` says why the body is not whole, if it is not."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)  # names in lower case
    body: bytes = b""
    broken: Broken | None = None


@dataclass(frozen=True, slots=True)
class Success:
    """A 2xx with a JSON object; or, with `existing_id`, a create that was refused because that contact is there already."""

    data: Mapping[str, object]
    trace_id: str | None = None
    existing_id: str | None = None


Outcome = Response | Broken


def judge(request: Request, outcome: Outcome) -> Success | StepFailed:
    """The verdict on one exchange, by the table in docs/errors.md. Returns the error instead of raising it; touches nothing."""
    if isinstance(outcome, Broken):
        return _judge_broken(request, outcome)
    if 200 <= outcome.status < 300:
        return _judge_success(request, outcome)
    if outcome.status == 429:
        return _judge_rate_limit(request, outcome)
    if outcome.status == 425:
        return _error(Transient, Cause.NOT_NOW, request, outcome)
    # By RFC 9110 a 408 says that the request never came whole. But the error bodies are those of NestJS, where a handler that takes too
    # long is answered 408 and goes on with its work: https://docs.nestjs.com/interceptors#more-operators
    if outcome.status == 408 or outcome.status >= 500:
        return _open(request, Cause.NOT_NOW if outcome.status == 408 else Cause.SERVER, outcome)
    return _judge_refusal(request, outcome)


def unreadable(request: Request, trace_id: str | None, lack: str) -> StepFailed:
    """The error for a 2xx that lacks what it promised: a create without an id may still have created something."""
    verdict = Uncertain if request.kind is Kind.CREATE else Transient
    message = f"GoHighLevel's answer to `{request.name}` has {lack}"
    return verdict(message, cause=Cause.UNREADABLE, hint=HINTS[Cause.UNREADABLE], trace_id=trace_id)


def another_phone(request: Request, trace_id: str | None) -> StepFailed:
    """The error for a create whose answer names another number: what it names may be somebody else."""
    message = f"GoHighLevel's answer to `{request.name}` names another phone number than the one sent"
    return Uncertain(message, cause=Cause.OTHER_PHONE, hint=HINTS[Cause.OTHER_PHONE], trace_id=trace_id)


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """`Retry-After` in seconds, at most a day; None where it is missing or unreadable.

    It is a number or an HTTP date (https://www.rfc-editor.org/rfc/rfc9110#section-10.2.3); a date is counted from the answer's own
    `Date`, since the two clocks may differ.
    """
    value = headers.get("retry-after", "").strip()
    if value.isascii() and value.replace(".", "", 1).isdigit():
        return min(float(value), LONGEST_WAIT_S)
    try:
        wait_s = (parsedate_to_datetime(value) - parsedate_to_datetime(headers.get("date", ""))).total_seconds()
    except (ValueError, TypeError):  # no date, or one of the two without a time zone
        return None
    return min(max(wait_s, 0.0), LONGEST_WAIT_S)


def rate_limit_wait_s(headers: Mapping[str, str]) -> float:
    """How long a 429 asks to wait: a day's quota, `Retry-After`, the vendor's burst interval, or ten seconds."""
    asked = retry_after_s(headers)
    if is_daily_limit(headers):
        return max(DAILY_WAIT_S, asked or 0.0)
    if asked:  # a 0 would make every process ask again at once
        return min(asked, LONGEST_BURST_WAIT_S)
    interval_ms = whole_number(headers, "x-ratelimit-interval-milliseconds")
    return min(interval_ms / 1000, LONGEST_BURST_WAIT_S) if interval_ms else BURST_WAIT_S


def is_daily_limit(headers: Mapping[str, str]) -> bool:
    """Burst and daily quota answer with the same 429; only this header tells them apart."""
    return whole_number(headers, "x-ratelimit-daily-remaining") == 0


def whole_number(headers: Mapping[str, str], name: str) -> int | None:
    """A header's value as a count from 0, or None where it is missing or no such number. A negative count is 0."""
    value = headers.get(name, "").strip()
    digits = value.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 12):
        return None
    return max(int(value), 0)


def _judge_broken(request: Request, broken: Broken) -> StepFailed:
    if broken is Broken.NOT_SENT:
        return _error(Transient, Cause.CONNECT, request, broken)
    return _open(request, Cause.TIMEOUT if broken is Broken.TIMEOUT else Cause.RESET, broken)


def _judge_success(request: Request, response: Response) -> Success | StepFailed:
    if response.broken is Broken.TOO_LARGE and request.kind is Kind.READ:
        return _error(Permanent, Cause.TOO_LARGE, request, response)  # asked again, it is no smaller
    if response.broken in {Broken.TIMEOUT, Broken.RESET}:
        return _judge_broken(request, response.broken)
    data = _json_object(response.body)
    if data is None:
        return _open(request, Cause.UNREADABLE, response)
    return Success(data, trace_id=_trace_id(data))


def _judge_rate_limit(request: Request, response: Response) -> StepFailed:
    cause = Cause.DAILY_LIMIT if is_daily_limit(response.headers) else Cause.RATE_LIMIT
    return _error(Transient, cause, request, response, retry_in=rate_limit_wait_s(response.headers))


def _judge_refusal(request: Request, response: Response) -> Success | StepFailed:
    """3xx and 4xx, without those that ask to come again."""
    if response.status in {400, 409} and request.kind is Kind.CREATE and not request.on_contact:
        verdict = _judge_duplicate(request, response)
        if verdict:
            return verdict
    if _is_gone(request, response):
        return _error(Gone, Cause.GONE, request, response)
    cause = _cause_of_refusal(response)
    # A 422 for a contact has been seen to create it all the same (#64). For notes nothing of the kind is known, and
    # looking for a note that was refused for its text would only delay the moment when a person sees the refusal.
    if response.status == 422 and request.kind is Kind.CREATE and not request.on_contact:
        return _error(Uncertain, cause, request, response)
    return _error(Permanent, cause, request, response)


def _judge_duplicate(request: Request, response: Response) -> Success | StepFailed | None:
    """A refused create: the contact that is there already, an error to look for it, or None for any other refusal."""
    if response.broken:
        return _error(Uncertain, Cause.DUPLICATE_UNNAMED, request, response)  # the id may have stood in the part that is lost
    data = _json_object(response.body) or {}
    if _DUPLICATE not in _said(response.body).lower() and response.status != 409:
        return None
    meta = data.get("meta")
    meta = meta if isinstance(meta, dict) else {}
    contact_id = meta.get("contactId")
    # We send a phone number and nothing else to match by, so a match by another field would be somebody else's contact.
    if isinstance(contact_id, str) and contact_id and meta.get("matchingField") in {None, "", "phone"}:
        return Success(data, trace_id=_trace_id(data), existing_id=contact_id)
    return _error(Uncertain, Cause.DUPLICATE_UNNAMED, request, response)


def _is_gone(request: Request, response: Response) -> bool:
    """Whether the contact or note in the path does not exist: 404, 410, or GoHighLevel's 400 "Contact with id … not found"."""
    said = _said(response.body).lower()
    if not request.on_contact:
        return False
    if response.status in {400, 422}:
        return "not found" in said and ("contact" in said or "note" in said)
    return response.status == 410 or (response.status == 404 and not said.startswith("cannot "))  # "Cannot POST /…": a wrong address


def _cause_of_refusal(response: Response) -> Cause:
    said = _said(response.body).lower()
    status = response.status
    if status < 400:
        return Cause.REDIRECT
    if status == 401:
        return Cause.SCOPE if any(word in said for word in _SCOPE) else Cause.TOKEN
    if status == 400 and _VERSION in said:
        return Cause.VERSION
    if status == 400 and any(word in said for word in _INVALID):
        return Cause.INVALID
    return {400: Cause.BAD_REQUEST, 403: Cause.FORBIDDEN, 404: Cause.NOT_FOUND, 422: Cause.UNPROCESSABLE}.get(status, Cause.STATUS)


def _open(request: Request, cause: Cause, outcome: Outcome) -> StepFailed:
    """The error where the effect of a create is not known; the rest may simply be sent again."""
    return _error(Uncertain if request.kind is Kind.CREATE else Transient, cause, request, outcome)


def _error(verdict: type[StepFailed], cause: Cause, request: Request, outcome: Outcome, *, retry_in: float | None = None) -> StepFailed:
    hint = HINTS[cause].format(scope=request.scope)
    if isinstance(outcome, Broken):
        return verdict(f"`{request.name}` at GoHighLevel: {outcome}", cause=cause, hint=hint)
    said = outcome.broken or mask(_said(outcome.body)[:_READ_CHARS])[:SAID_MAX_CHARS] or "an empty body"
    message = f"GoHighLevel answered {outcome.status} to `{request.name}`"
    if retry_in is None and verdict in {Transient, Uncertain}:
        retry_in = retry_after_s(outcome.headers) or None  # a 0 leaves it to our own backoff
    return verdict(message, cause=cause, hint=hint, trace_id=_trace_id(_json_object(outcome.body) or {}), retry_in=retry_in, said=said)


def _json_object(body: bytes) -> dict[str, object] | None:
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):  # no JSON, no UTF-8, a number of a million digits, or brackets without end
        return None
    return data if isinstance(data, dict) else None


def _trace_id(data: Mapping[str, object]) -> str | None:
    value = data.get("traceId")
    return value[:100] if isinstance(value, str) and value else None


def _said(body: bytes) -> str:
    """The reason in a body, on one line: `message` as text, list or object, v3's `error.message`, else the plain body."""
    data = _json_object(body)
    if data is None:
        return " ".join(body[:_READ_CHARS].decode("utf-8", "replace").split())
    error = data.get("error")
    reason = data.get("message") or (error.get("message") if isinstance(error, dict) else error) or ""
    parts = reason if isinstance(reason, list) else [reason]
    return " ".join("; ".join(part if isinstance(part, str) else json.dumps(part) for part in parts).split())

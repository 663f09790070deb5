"""The parameters of form requests, and the names that Twilio coined for them and others (Telnyx's TeXML, SignalWire's cXML) have kept.

Names: https://www.twilio.com/docs/voice/twiml#request-parameters ·
https://developers.telnyx.com/api-reference/callbacks/texml-call-completed ·
https://developer.signalwire.com/compatibility-api/cxml/voice/
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Self

from bridge import numbers
from bridge.call import Call, Caller, CallerKind, Direction, Input, Leg, Recording, Status, Transcript
from bridge.errors import Refused
from bridge.providers import documents, reading
from bridge.providers.base import Answer, Heard, Ignored, Kind, WebhookRequest
from bridge.providers.instructions import Answers

STATUSES: Mapping[str, Status] = {
    "queued": Status.RINGING,
    "initiated": Status.RINGING,
    "ringing": Status.RINGING,
    "in-progress": Status.IN_PROGRESS,
    # The name of Twilio's callback event and a status of its <Dial>; SignalWire sends it beside in-progress:
    "answered": Status.IN_PROGRESS,  # https://github.com/signalwire/docs-legacy/issues/804
    "canceled": Status.CANCELED,
    "cancelled": Status.CANCELED,
    "failed": Status.FAILED,
    "busy": Status.BUSY,
    "no-answer": Status.NO_ANSWER,
    "completed": Status.COMPLETED,
}
DIRECTIONS: Mapping[str, Direction] = {
    "inbound": Direction.INBOUND,
    "incoming": Direction.INBOUND,
    "outbound": Direction.OUTBOUND,
    "outgoing": Direction.OUTBOUND,
    "outbound-api": Direction.OUTBOUND,
    "outbound-dial": Direction.OUTBOUND,
    # Twilio's Elastic SIP Trunking counts from the telephone network: what originates there comes in to the business.
    "trunking-originating": Direction.INBOUND,
    "trunking-terminating": Direction.OUTBOUND,
}
# Requests with one of these report something; call instructions in their answer are not read.
_NEWS = ("CallbackSource", "RecordingStatus", "StatusCallbackEvent", "TranscriptionSid", "TranscriptionStatus", "UnstableSpeechResult")

_MOST = 5000  # parameters; the longest genuine requests have some sixty


class Fields:
    """The parameters of a form body or, on GET, of the query: storable text by name, repeats and blanks kept."""

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        self.pairs = tuple(pairs)
        self._values: dict[str, list[str]] = {}
        for name, value in self.pairs:
            self._values.setdefault(self._known_as(name), []).append(value)

    @classmethod
    def of(cls, request: WebhookRequest) -> Self:
        encoded = query_of(request) if is_get(request) else request.body
        return cls((reading.text_of(name), reading.text_of(value)) for name, value in reading.form_fields(encoded))

    @staticmethod
    def _known_as(name: str) -> str:
        """What spellings of one name have in common."""
        return name

    def all(self, name: str) -> tuple[str, ...]:
        return tuple(self._values.get(self._known_as(name), ()))

    def first(self, *names: str) -> str | None:
        """The value under the first of `names` that was sent, as sent; None where none of them was."""
        return next((self.all(name)[0] for name in names if self.all(name)), None)

    def told(self, *names: str) -> str | None:
        """The first value with something in it, without spaces around it."""
        return next((value.strip() for name in names for value in self.all(name) if value.strip()), None)


def parameters(encoded: bytes) -> list[tuple[bytes, bytes]]:
    """Names and values as a signature covers them.

    Raises Refused where there are more than any phone system sends: sorting and hashing them would cost us time, and a stranger nothing.
    """
    if encoded.count(b"&") >= _MOST:
        raise Refused(f"More than {_MOST} parameters; no phone system sends so many.", reason="too many parameters")
    return reading.form_fields(encoded)


def is_get(request: WebhookRequest) -> bool:
    return request.method.upper() in {"GET", "HEAD"}


def query_of(request: WebhookRequest) -> bytes:
    return request.query.encode("utf-8", "replace")


def content_type(request: WebhookRequest) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().casefold()


def is_form(request: WebhookRequest) -> bool:
    """Whether the parameters stand in a form or, on GET, in the query. A body of no told type is taken for a form."""
    return is_get(request) or content_type(request) in {"", "application/x-www-form-urlencoded"}


def next_url(request: WebhookRequest | None) -> str | None:
    """The `next` parameter in the webhook's own URL, which the owner of the IVR wrote there: where the caller goes on."""
    query = reading.form_fields(query_of(request)) if request else []
    return next((reading.text_of(value) for name, value in query if name == b"next"), None)


def direction(told: str | None, caller: Caller | None, own_numbers: Sequence[str], region: str | None) -> Direction:
    """As told; where it is not, a call from one of OWN_NUMBERS is the business's own, and any other came in."""
    known = DIRECTIONS.get((told or "").casefold())
    if known is not None:
        return known
    is_own = caller is not None and numbers.is_own(caller, own_numbers, region=region)
    return Direction.OUTBOUND if is_own else Direction.INBOUND


def display_name(text: str | None) -> str | None:
    """A caller's name, where the text is one: phone systems repeat the number there, or write a word such as `anonymous`."""
    is_name = text and re.search(r"[^\W\d_]", text) and numbers.identify(text, region=None).kind is CallerKind.UNPARSED
    return text if is_name else None


def inputs(entered: Iterable[tuple[str, str]], prompt: str, delivery_id: str | None) -> tuple[Input, ...]:
    """What was pressed and said, in order. Blanks stand for "was asked, nothing came", and only where nothing else came."""
    told = [(kind, value.strip()) for kind, value in entered]
    answered = [(kind, value) for kind, value in told if value]
    return tuple(Input(kind, value, prompt, delivery_id) for kind, value in answered or told[:1])


# ---- Twilio's names


def kind(fields: Fields) -> Kind:
    """Whether a caller waits for call instructions. In doubt yes: without them the line is closed, and a callback is not hurt by them."""
    told_status = fields.told("CallStatus")
    is_news = (
        any(fields.told(name) for name in _NEWS)
        or status(told_status).is_final
        or bool(fields.told("RecordingSid") and not told_status)  # the action of <Record> tells its status, and waits
    )
    return Kind.NEWS if is_news else Kind.VOICE


def status(raw: str | None) -> Status:
    return STATUSES.get((raw or "").casefold().replace("_", "-"), Status.UNKNOWN)


def hear(
    fields: Fields,
    prompt: str,
    *,
    provider: str,
    account: str,
    region: str | None,
    own_numbers: Sequence[str],
    kind: Kind,
    delivery_id: str | None = None,
) -> Heard | Ignored:
    """One request about one call; a child leg, which has a parent, becomes a leg of its parent's call."""
    call_id = fields.told("CallSid")
    if not call_id:
        return Ignored("no call id", kind)
    known = Call(provider=provider, account=account, root_id=fields.told("ParentCallSid") or call_id)
    call = _call(fields, known, call_id, region=region, own_numbers=own_numbers)
    if call.root_id == call_id:  # on a leg somebody else presses: the agent
        call = replace(call, inputs=inputs(_entered(fields), prompt, delivery_id))
    if call.direction is Direction.OUTBOUND:
        return Ignored("outbound call", kind, call=call)
    # Recordings and transcripts of calls that you place come without a direction, and look like those of a call that came in.
    is_guess = not fields.told("Direction")
    return Heard(call, kind, delivery_id, reading.canonical(prompt, fields.pairs), is_guess)


def answer(answers: Answers, request: WebhookRequest | None, fields: Fields) -> Answer:
    """XML for a caller who waits. text/plain would be read aloud, and no content type is Twilio's error 11200."""
    is_leg = fields.told("ParentCallSid") not in {None, fields.told("CallSid")}
    return Answer(200, "text/xml; charset=utf-8", answers.to(next_url(request), _told_again(fields), is_leg=is_leg))


def _call(fields: Fields, known: Call, call_id: str, *, region: str | None, own_numbers: Sequence[str]) -> Call:
    """`known` (provider, account and root id) with what a request says; a call id that is not the root's is a leg of it."""
    found = replace(known, recordings=_recordings(fields), transcripts=_transcripts(fields), legs=_legs(fields, known, call_id))
    if known.root_id != call_id:
        return found  # on a leg somebody else rings
    raw_from = fields.first("From", "Caller")
    caller = None if raw_from is None else numbers.identify(raw_from, region=region)
    return _with_status(
        replace(
            found,
            direction=direction(fields.told("Direction"), caller, own_numbers, region),
            caller=caller,
            dialled=numbers.dialled(fields.first("To", "Called"), region),
            caller_name=display_name(fields.told("CallerName")),
            city=fields.told("FromCity", "CallerCity"),
            state=fields.told("FromState", "CallerState"),
            postcode=fields.told("FromZip", "CallerZip"),
            country=fields.told("FromCountry", "CallerCountry"),
            forwarded_from=numbers.dialled(fields.told("ForwardedFrom"), region),
        ),
        fields,
    )


def _told_again(fields: Fields) -> dict[str, str]:
    """What tells a further request of a call from its first, for the query of the URL where the caller goes on."""
    told = {name: fields.first(name) for name in ("Digits", "SpeechResult", "DialCallStatus", "RecordingUrl")}
    return {name: value for name, value in told.items() if value is not None}


def _with_status(found: Call, fields: Fields) -> Call:
    raw = fields.told("CallStatus")
    at = reading.instant(fields.told("Timestamp"))
    reached = status(raw)
    return replace(
        found,
        status=reached,
        raw_status=raw,
        started_at=at if reached is Status.RINGING else None,
        answered_at=at if reached is Status.IN_PROGRESS else None,
        ended_at=at if reached.is_final else None,
        duration_s=reading.seconds(fields.told("CallDuration")),  # seconds; Twilio's Duration beside it is minutes
    )


def _entered(fields: Fields) -> list[tuple[str, str]]:
    """<Record> reports a hung up receiver as the digits `hangup`; `Speech` is how flows of Studio name what was said."""
    digits = [("digits", value) for value in fields.all("Digits") if value != "hangup"]
    return digits + [("speech", value) for value in (*fields.all("SpeechResult"), *fields.all("Speech"))]


def _recordings(fields: Fields) -> tuple[Recording, ...]:
    url = documents.web_address(fields.told("RecordingUrl"))
    recording_id = fields.told("RecordingSid") or (url or "").rpartition("/")[2]
    is_there = (fields.told("RecordingStatus") or "completed").casefold() == "completed"
    if not (is_there and recording_id and url):
        return ()
    return (Recording(recording_id, url, reading.seconds(fields.told("RecordingDuration"))),)


def _transcripts(fields: Fields) -> tuple[Transcript, ...]:
    text = fields.told("TranscriptionText")
    transcript_id = fields.told("TranscriptionSid", "RecordingSid")
    return (Transcript(transcript_id, text),) if text and transcript_id else ()


def _legs(fields: Fields, known: Call, call_id: str) -> tuple[Leg, ...]:
    """The child leg that a request is about, and the one that a <Dial> ended with."""
    legs = []
    if call_id != known.root_id:
        reached, duration = status(fields.told("CallStatus")), reading.seconds(fields.told("CallDuration"))
        legs.append(Leg(call_id, fields.told("To", "Called"), reached, duration))
    if dialled_id := fields.told("DialCallSid"):
        legs.append(Leg(dialled_id, None, status(fields.told("DialCallStatus")), reading.seconds(fields.told("DialCallDuration"))))
    return tuple(legs)

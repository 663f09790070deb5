"""Bandwidth: voice webhooks of a Voice application, and the callbacks named in BXML.

https://dev.bandwidth.com/docs/voice/webhooks · https://dev.bandwidth.com/docs/voice/bxml

A call is identified by `callId`; the far end of a <Transfer> has an id of its own and names the visit as `parentCallId`. Nothing is
signed: user and password of the application come with each request (Basic authentication), and that is all the proof there is.
Retries: one, where no connection was made, for events that wait for nothing; the others go to their fallback URL, where one is set. It
waits 15 s: for call instructions (BXML) while the caller is on the line, for any 2xx otherwise.

Known to get wrong: a callback that wants BXML and gets none ends the call (`callback-error`); what was told of a call is kept for 7 days
alone; durations are ISO 8601 (`PT20.056S`); new causes and event types appear unannounced.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from xml.sax.saxutils import escape

from bridge import numbers
from bridge.call import Call, Direction, Input, Leg, Recording, Status
from bridge.errors import Refused, WrongSettings
from bridge.providers import documents, forms, instructions, reading, shared_secrets
from bridge.providers.base import Answer, Heard, Ignored, Kind, Sender, WebhookRequest
from bridge.settings import Faults, ProviderSetting, Settings

# Why a call ended (https://dev.bandwidth.com/docs/voice/webhooks/disconnect).
CAUSES: Mapping[str, Status] = {
    "hangup": Status.COMPLETED,  # unless it was never answered: see _status
    "busy": Status.BUSY,
    "timeout": Status.NO_ANSWER,
    "cancel": Status.CANCELED,
    "rejected": Status.BUSY,
    **dict.fromkeys(
        ("callback-error", "invalid-bxml", "application-error", "account-limit", "node-capacity-exceeded", "error", "unknown"),
        Status.FAILED,
    ),
}
# How far a call is at least when an event comes.
STATUS_OF_EVENT: Mapping[str, Status] = {
    "initiate": Status.RINGING,
    **dict.fromkeys(
        ("answer", "gather", "dtmf", "redirect", "recordcomplete", "transferanswer", "transfercomplete", "bridgecomplete"),
        Status.IN_PROGRESS,
    ),
}
# Reports: what they get in answer is not read. Every other event may have a caller who waits for BXML.
_NEWS = frozenset({
    "disconnect", "dtmf", "recordingavailable", "transcriptionavailable", "machinedetectioncomplete", "transferdisconnect",
    "conferencecompleted", "conferencerecordingavailable", "mediastreamstarted", "mediastreamrejected", "mediastreamstopped",
    "realtimetranscriptionstarted", "realtimetranscriptionavailable", "realtimetranscriptionrejected", "realtimetranscriptionstopped",
})  # fmt: skip
DIRECTIONS: Mapping[str, Direction] = {"inbound": Direction.INBOUND, "outbound": Direction.OUTBOUND}

USER = ProviderSetting("BANDWIDTH_USER", "User name that you made up for the callbacks of the Voice application.", free=True)
PASSWORD = ProviderSetting(
    "BANDWIDTH_PASSWORD",
    "Password that you made up beside it, also `username` and `password` in BXML; several, while you rotate, separated by spaces.",
    secret=True,
    switches_on=True,
    free=True,
)
NEXT_URL = ProviderSetting("BANDWIDTH_NEXT_URL", "BXML URL of your IVR: callers are redirected to it once the call is kept.", free=True)

_SAY = f"<SpeakSentence>{instructions.SENTENCE}</SpeakSentence>"


class Bandwidth:
    """The adapter. Raises WrongSettings where one of its settings cannot be used."""

    name = "bandwidth"
    settings = (USER, PASSWORD, NEXT_URL)

    def __init__(self, settings: Settings) -> None:
        self._region = settings.default_region
        self._public_url = settings.public_url
        user, passwords, faults = settings.value(USER.name), tuple[str, ...](), Faults()
        if not user or ":" in user:
            faults.append(f"{USER.name}: the user name that goes with {PASSWORD.name}, without a colon")
        with faults:
            passwords = shared_secrets.listed(settings, PASSWORD.name)
        with faults:
            self._next_url = _next_url(settings)
        faults.tell()
        self._credentials = tuple(base64.b64encode(f"{user}:{password}".encode()).decode() for password in passwords)

    def verify(self, request: WebhookRequest) -> Sender:
        """Whoever knows user and password is Bandwidth."""
        scheme, _, given = request.headers.get("authorization", "").strip().partition(" ")
        if not given or scheme.casefold() != "basic":
            raise Refused("Basic authentication is missing.", reason="token missing", status=401)
        shared_secrets.prove(given.strip(), self._credentials, what="User and password", setting=f"{USER.name} and {PASSWORD.name}")
        return Sender()

    def parse(self, request: WebhookRequest, sender: Sender) -> Heard | Ignored:
        """One event of one call; the far end of a transfer becomes a leg of the call that it belongs to."""
        event = reading.json_object(request.body)
        if event is None:
            return Ignored("the body is no JSON object", Kind.VOICE)
        kind = _kind(event)
        call_id = reading.told(event.get("callId"))
        if not call_id:
            return Ignored("no call id", kind)
        root_id = reading.told(event.get("parentCallId")) or call_id
        call = Call(provider=self.name, account=sender.account, root_id=root_id, recordings=_recordings(event))
        if root_id != call_id:
            leg = Leg(call_id, reading.told(event.get("transferTo")) or reading.told(event.get("to")), _status(event))
            return Heard(replace(call, legs=(leg,)), kind, None, reading.canonical(request.what, event))
        call = self._with_facts_of_root(call, event, request.what)
        if call.direction is not Direction.INBOUND:
            return Ignored(f"{call.direction} call", kind, call=call)
        return Heard(call, kind, None, reading.canonical(request.what, event))

    def warnings(self) -> tuple[str, ...]:
        """What the password is worth, and what callers hear."""
        worth = f"Bandwidth signs nothing: {PASSWORD.name} comes with each request, so allow its addresses alone where you can."
        silent = f"{NEXT_URL.name} is not set: callers hear one sentence, no IVR."
        return (worth,) if self._next_url else (worth, silent)

    def answer(self, kind: Kind, request: WebhookRequest | None = None) -> Answer:
        """BXML while a caller waits for it: a redirect to the IVR with what was entered, or one sentence.

        An IVR of the owner's own names in a callback's URL, as `next`, where its caller goes on; else it is BANDWIDTH_NEXT_URL.
        """
        if kind is not Kind.VOICE:
            return Answer(204)
        event = (reading.json_object(request.body) if request else None) or {}
        named = forms.next_url(request)
        next_url = named if named and instructions.is_elsewhere(named, self._public_url) else self._next_url
        verbs = _redirect(next_url, event) if next_url else _SAY
        if documents.is_told(event, "parentCallId") or _event_type(event) == "transferanswer":
            verbs = ""  # whom a <Transfer> rang: nothing to hear lets the two talk
        return Answer(200, "application/xml", f'<?xml version="1.0" encoding="UTF-8"?><Response>{verbs}</Response>'.encode())

    def _with_facts_of_root(self, call: Call, event: Mapping[str, Any], what: str) -> Call:
        raw_from = reading.word(event.get("from"))
        status = _status(event)
        answered_at = reading.instant(event.get("answerTime"))
        is_about_call = _event_type(event) not in _NEWS - {"disconnect", "dtmf"}  # a recording has a start and an end of its own
        ended_at = reading.instant(event.get("endTime")) if is_about_call else None
        return replace(
            call,
            direction=DIRECTIONS.get((reading.told(event.get("direction")) or "").casefold(), Direction.INBOUND),
            caller=None if raw_from is None else numbers.identify(raw_from, region=self._region),
            dialled=numbers.dialled(reading.word(event.get("to")), self._region),
            status=status,
            raw_status=reading.told(event.get("cause")) or reading.told(event.get("eventType")),
            forwarded_from=numbers.dialled(reading.told(documents.part(event, "diversion").get("origTo")), self._region),
            started_at=reading.instant(event.get("startTime")) if is_about_call else None,
            answered_at=answered_at,
            ended_at=ended_at,
            duration_s=int((ended_at - answered_at).total_seconds()) if ended_at and answered_at and ended_at > answered_at else None,
            inputs=_inputs(event, what),
        )


def _next_url(settings: Settings) -> str:
    url = settings.value(NEXT_URL.name).strip()
    if url and not instructions.is_elsewhere(url, settings.public_url):
        raise WrongSettings([f"{NEXT_URL.name}: the https URL of your IVR; a webhook of this bridge would redirect for ever"])
    return url


def _redirect(url: str, event: Mapping[str, Any]) -> str:
    """To the IVR, with what came along in the query: a <Redirect> alone would drop it."""
    told = {name: reading.word(event.get(name)) for name in ("digits", "terminatingDigit", "recordingId", "cause")}
    go_on = instructions.with_query(url, {name: value for name, value in told.items() if value is not None})
    return f'<Redirect redirectUrl="{escape(go_on, {chr(34): "&quot;"})}"/>'


def _event_type(event: Mapping[str, Any]) -> str:
    return (reading.told(event.get("eventType")) or "").casefold()


def _kind(event: Mapping[str, Any]) -> Kind:
    """In doubt a caller waits: an answer without BXML ends the call, and BXML hurts no report."""
    return Kind.NEWS if _event_type(event) in _NEWS else Kind.VOICE


def _status(event: Mapping[str, Any]) -> Status:
    kind = _event_type(event)
    if kind not in {"disconnect", "transferdisconnect"}:
        return STATUS_OF_EVENT.get(kind, Status.UNKNOWN)
    status = CAUSES.get((reading.told(event.get("cause")) or "").casefold(), Status.UNKNOWN)
    was_answered = documents.is_told(event, "answerTime")
    return Status.CANCELED if status is Status.COMPLETED and kind == "disconnect" and not was_answered else status


def _inputs(event: Mapping[str, Any], prompt: str) -> tuple[Input, ...]:
    """What was pressed; "" where a <Gather> ended with nothing. The time of the event tells the same key pressed twice from a repeat."""
    digits = reading.word(event.get("digits" if _event_type(event) != "dtmf" else "digit"))
    return () if digits is None else (Input("digits", digits, prompt, reading.told(event.get("eventTime"))),)


def _recordings(event: Mapping[str, Any]) -> tuple[Recording, ...]:
    url, recording_id = documents.web_address(event.get("mediaUrl")), reading.told(event.get("recordingId"))
    is_there = (reading.told(event.get("status")) or "complete").casefold() != "error"
    if not (url and recording_id and is_there and _event_type(event) == "recordingavailable"):
        return ()
    return (Recording(recording_id, url, _seconds(event.get("duration"))),)


def _seconds(value: object) -> int | None:
    """Whole seconds of an ISO 8601 duration such as PT1M20.056S."""
    match = re.fullmatch(r"PT(?:([0-9]{1,4})H)?(?:([0-9]{1,6})M)?(?:([0-9]{1,8})(?:\.[0-9]+)?S)?", reading.told(value) or "")
    return sum(int(part or 0) * unit for part, unit in zip(match.groups(), (3600, 60, 1), strict=True)) if match else None

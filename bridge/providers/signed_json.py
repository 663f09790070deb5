"""Any phone system that can sign JSON: a relay script, an AGI, a Lambda (docs/providers/generic.md has the recipes).

A call is identified by `data.call_id`, within `data.account` where several systems share one secret; a leg names its visit as
`data.parent_call_id`. Signature, times and retries: Standard Webhooks 1.0.0
(https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md): `webhook-id` is the same for each retry,
`webhook-timestamp` may be 300 s away. Any 2xx will do, so the answer is 204; nothing here waits with a caller on the line.

Events of Amazon Connect are understood as they are when a Lambda forwards them signed; contact events name no caller.
https://docs.aws.amazon.com/lambda/latest/dg/services-connect.html · https://docs.aws.amazon.com/connect/latest/adminguide/contact-events.html
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from bridge import numbers
from bridge.call import Call, Caller, CallerKind, Direction, Input, Leg, Recording, Status, Transcript
from bridge.errors import WrongSettings
from bridge.providers import documents, forms, reading, signatures
from bridge.providers.base import Answer, Heard, Ignored, Kind, Sender, WebhookRequest
from bridge.settings import ProviderSetting, Settings

STATUSES: Mapping[str, Status] = {
    "ringing": Status.RINGING,
    "started": Status.RINGING,
    "in_progress": Status.IN_PROGRESS,
    "answered": Status.IN_PROGRESS,
    "completed": Status.COMPLETED,
    "ended": Status.COMPLETED,
    "canceled": Status.CANCELED,
    "cancelled": Status.CANCELED,
    "failed": Status.FAILED,
    "busy": Status.BUSY,
    "no_answer": Status.NO_ANSWER,
}
# How far a call is at least, where the event has no status of its own.
STATUS_OF_TYPE: Mapping[str, Status] = {
    "call.started": Status.RINGING,
    "call.input": Status.IN_PROGRESS,
    "call.ended": Status.COMPLETED,
}
DIRECTIONS: Mapping[str, Direction] = {**forms.DIRECTIONS, "internal": Direction.INTERNAL}
# Amazon Connect's initiation methods; a transferred contact keeps the customer who rang.
CONNECT_DIRECTIONS: Mapping[str, str] = {
    "INBOUND": "inbound",
    "TRANSFER": "inbound",
    "QUEUE_TRANSFER": "inbound",
    "OUTBOUND": "outbound",
    "API": "outbound",
    "CALLBACK": "outbound",
}
CONNECT_STATUSES: Mapping[str, str] = {
    "INITIATED": "ringing",
    "CONNECTED_TO_SYSTEM": "in_progress",
    "QUEUED": "in_progress",
    "CONNECTED_TO_AGENT": "in_progress",
    "DISCONNECTED": "completed",
}

SECRET = ProviderSetting(
    "GENERIC_SECRET",
    "Signing secrets (whsec_ and base64 of 24 bytes or more) of your phone system; several, while you rotate, separated by spaces.",
    secret=True,
    switches_on=True,
    several=True,
)


class SignedJson:
    """The adapter. Raises WrongSettings where GENERIC_SECRET holds no usable secret."""

    name = "generic"
    settings = (SECRET,)

    def __init__(self, settings: Settings) -> None:
        self._region = settings.default_region
        self._own_numbers = settings.own_numbers
        self._keys = _keys(settings.words(SECRET.name))

    def verify(self, request: WebhookRequest) -> Sender:
        signatures.verify_standard(request.headers, request.body, self._keys, now=request.now, setting=SECRET.name)
        return Sender()

    def parse(self, request: WebhookRequest, sender: Sender) -> Heard | Ignored:
        """One event of one call. A type that we do not know is later news as long as it names a call."""
        payload = reading.json_object(request.body)
        if payload is None:
            return Ignored("the body is no JSON object")
        contact = _from_connect(payload)
        if contact and reading.told(contact["channel"]) not in {None, "VOICE"}:  # chats and tasks; elsewhere `channel` may be anything
            return Ignored("not a voice contact", is_understood=True)
        data = contact or payload.get("data")
        if not isinstance(data, dict):
            return Ignored("no data object")
        call_id = reading.told(data.get("call_id"))
        if not call_id:
            return Ignored("no call id")
        delivery_id = request.headers.get("webhook-id") or None
        root_id = reading.told(data.get("parent_call_id")) or call_id
        call = Call(
            provider=self.name,
            account=reading.told(data.get("account")) or sender.account,
            root_id=root_id,
            inputs=_inputs(data, request.what, delivery_id),
            recordings=_recordings(data),
            transcripts=_transcripts(data),
            legs=() if root_id == call_id else (_leg(call_id, payload, data),),
        )
        if root_id == call_id:
            call = self._with_facts_of_root(call, payload, data)
        if call.direction is not Direction.INBOUND:
            return Ignored(f"{call.direction} call", call=call)
        is_guess = reading.told(data.get("direction")) is None
        return Heard(call, Kind.NEWS, delivery_id, reading.canonical(request.what, payload), is_guess)

    def warnings(self) -> tuple[str, ...]:
        return ()

    def answer(self, kind: Kind, request: WebhookRequest | None = None) -> Answer:
        del kind, request
        return Answer(204)

    def _with_facts_of_root(self, call: Call, payload: Mapping[str, Any], data: Mapping[str, Any]) -> Call:
        raw_from = reading.word(data.get("from"))
        caller = None if raw_from is None else numbers.identify(raw_from, region=self._region)
        raw_to = reading.word(data.get("to"))
        return replace(
            call,
            direction=self._direction(data, caller, raw_to),
            caller=caller,
            dialled=numbers.dialled(raw_to, self._region),
            status=_status(payload, data),
            raw_status=reading.told(data.get("status")),
            caller_name=forms.display_name(reading.told(data.get("caller_name"))),
            city=reading.told(data.get("city")),
            state=reading.told(data.get("state")),
            postcode=reading.told(data.get("postcode")),
            country=reading.told(data.get("country")),
            forwarded_from=numbers.dialled(reading.word(data.get("forwarded_from")), self._region),
            started_at=reading.instant(data.get("started_at")),
            answered_at=reading.instant(data.get("answered_at")),
            ended_at=reading.instant(data.get("ended_at")),
            duration_s=reading.seconds(data.get("duration_seconds")),
        )

    def _direction(self, data: Mapping[str, Any], caller: Caller | None, raw_to: str | None) -> Direction:
        """As told; else by who rings whom: one of OWN_NUMBERS calls out, two extensions talk among themselves."""
        known = DIRECTIONS.get((reading.told(data.get("direction")) or "").casefold())
        if known is not None:
            return known
        if caller is not None and numbers.is_own(caller, self._own_numbers, region=self._region):
            return Direction.OUTBOUND
        is_internal = (
            caller is not None and caller.kind is CallerKind.UNPARSED and numbers.is_extension(caller.raw) and numbers.is_extension(raw_to)
        )
        return Direction.INTERNAL if is_internal else Direction.INBOUND


def _keys(listed: Sequence[str]) -> tuple[bytes, ...]:
    try:
        keys = tuple(signatures.standard_secret(part) for part in listed)
    except ValueError as error:
        raise WrongSettings([f"{SECRET.name}: one of its {len(listed)} secrets {error}"]) from None
    if not keys:
        raise WrongSettings([f"{SECRET.name}: one or more secrets such as whsec_ and the base64 of 32 random bytes"])
    return keys


def _status(payload: Mapping[str, Any], data: Mapping[str, Any]) -> Status:
    told = reading.told(data.get("status"))
    if told is not None:
        return STATUSES.get(re.sub(r"[\s-]", "_", told.casefold()), Status.UNKNOWN)
    return STATUS_OF_TYPE.get(reading.told(payload.get("type")) or "", Status.UNKNOWN)


def _inputs(data: Mapping[str, Any], what: str, delivery_id: str | None) -> tuple[Input, ...]:
    """`digits` and `speech`: a text, or a list of texts in the order they were entered."""
    prompt = reading.told(data.get("prompt")) or what
    entered = [(kind, value) for kind in ("digits", "speech") for value in _listed(data.get(kind)) if value is not None]
    return tuple(Input(kind, value, prompt, delivery_id) for kind, value in entered)


def _listed(value: object) -> list[str | None]:
    return [reading.word(item) for item in (value[: documents.MOST] if isinstance(value, list) else [value])]


def _recordings(data: Mapping[str, Any]) -> tuple[Recording, ...]:
    recording = documents.part(data, "recording")
    url = documents.web_address(recording.get("url"))
    return (Recording(reading.told(recording.get("id")) or url, url, reading.seconds(recording.get("duration_seconds"))),) if url else ()


def _transcripts(data: Mapping[str, Any]) -> tuple[Transcript, ...]:
    transcript = documents.part(data, "transcript")
    text, transcript_id = reading.told(transcript.get("text")), reading.told(transcript.get("id"))
    return (Transcript(transcript_id or "transcript", text),) if text else ()


def _leg(call_id: str, payload: Mapping[str, Any], data: Mapping[str, Any]) -> Leg:
    return Leg(call_id, reading.told(data.get("to")), _status(payload, data), reading.seconds(data.get("duration_seconds")))


def _from_connect(payload: Mapping[str, Any]) -> dict[str, Any] | None:
    """The call data in an event of Amazon Connect, in our names; None for any other event."""
    contact = documents.part(payload, "Details", "ContactData")
    if contact:
        return _connect_call(contact.get("ContactId"), contact.get("InitialContactId"), contact.get("InitiationMethod")) | {
            "channel": contact.get("Channel"),
            "from": documents.part(contact, "CustomerEndpoint").get("Address"),
            "to": documents.part(contact, "SystemEndpoint").get("Address"),
            "status": "in_progress",
        }
    detail = documents.part(payload, "detail")
    if payload.get("source") != "aws.connect" or not detail:
        return None
    return _connect_call(detail.get("contactId"), detail.get("initialContactId"), detail.get("initiationMethod")) | {
        "channel": detail.get("channel"),
        "status": CONNECT_STATUSES.get(str(detail.get("eventType")), detail.get("eventType")),
        "started_at": detail.get("initiationTimestamp"),
        "ended_at": detail.get("disconnectTimestamp"),
    }


def _connect_call(contact_id: object, initial_id: object, method: object) -> dict[str, Any]:
    return {"call_id": contact_id, "parent_call_id": initial_id, "direction": CONNECT_DIRECTIONS.get(str(method))}

"""Quo, formerly OpenPhone: call events of its webhooks, the versioned ones and the legacy ones.

https://www.quo.com/docs/2026-03-30/webhooks-event-payloads · https://www.quo.com/docs/webhooks/legacy-signature-validation

A call is identified by `data.resource.id` (legacy: `data.object.id`); recordings, voicemails, summaries and transcripts name it as
`callId`. Signature: Standard Webhooks (`webhook-id`, the same for each retry), or `openphone-signature: hmac;1;<ms>;<base64>` over time
and body, both with a time that may be 300 s away. Retries: 8 within some 27 h, until any 2xx; nothing waits with a caller on the line.

Known to get wrong: the versioned events tell the two numbers in `context.participants` and not in the call; an unanswered call is
`completed` without `answeredAt`; summaries and transcripts come long after the end, in any order.
"""

from __future__ import annotations

import base64
import hmac
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bridge import numbers
from bridge.call import Call, Direction, Input, Recording, Status, Transcript
from bridge.errors import Refused, WrongSettings
from bridge.providers import documents, reading, signatures
from bridge.providers.base import Answer, Heard, Ignored, Kind, Sender, WebhookRequest
from bridge.settings import Faults, ProviderSetting, Settings

LEGACY_SIGNATURE = "openphone-signature"
_MOST_ENTRIES = 4  # Quo sends one, and may send two while a key is replaced

STATUSES: Mapping[str, Status] = {
    **dict.fromkeys(("queued", "initiated", "ringing"), Status.RINGING),
    **dict.fromkeys(("in-progress", "answered", "forwarded"), Status.IN_PROGRESS),
    "completed": Status.COMPLETED,  # unless nobody answered: see _status
    **dict.fromkeys(("missed", "no-answer"), Status.NO_ANSWER),
    **dict.fromkeys(("canceled", "cancelled", "abandoned"), Status.CANCELED),
    "busy": Status.BUSY,
    "failed": Status.FAILED,
}
# How far a call is at least, where the event tells no status of the call.
STATUS_OF_TYPE: Mapping[str, Status] = {
    "call.ringing": Status.RINGING,
    "call.answered": Status.IN_PROGRESS,
    "call.forwarded": Status.IN_PROGRESS,
    "call.menu.selected": Status.IN_PROGRESS,
    "call.completed": Status.COMPLETED,
    "call.missed": Status.NO_ANSWER,
}
DIRECTIONS: Mapping[str, Direction] = {
    "incoming": Direction.INBOUND,
    "inbound": Direction.INBOUND,
    "outgoing": Direction.OUTBOUND,
    "outbound": Direction.OUTBOUND,
}

SECRET = ProviderSetting(
    "QUO_SECRET",
    "Keys (whsec_…) of your versioned webhooks, from the answer that created each; several separated by spaces.",
    secret=True,
    switches_on=True,
    several=True,
)
LEGACY_KEY = ProviderSetting(
    "QUO_LEGACY_KEY",
    "Signing secrets (base64) of webhooks made in the Quo app: Settings, Webhooks, Reveal signing secret; several separated by spaces.",
    secret=True,
    switches_on=True,
    several=True,
)


class Quo:
    """The adapter. Raises WrongSettings where one of its settings holds no usable key."""

    name = "quo"
    settings = (SECRET, LEGACY_KEY)

    def __init__(self, settings: Settings) -> None:
        self._region = settings.default_region
        faults = Faults()
        with faults:
            self._keys = _keys(settings, SECRET.name)
        with faults:
            self._legacy_keys = _keys(settings, LEGACY_KEY.name)
        faults.tell()

    def verify(self, request: WebhookRequest) -> Sender:
        """Either scheme, each with its own keys: the headers choose a scheme, never a key of the other."""
        if LEGACY_SIGNATURE in request.headers and self._legacy_keys:
            _verify_legacy(request, self._legacy_keys)
        else:
            signatures.verify_standard(request.headers, request.body, self._keys, now=request.now, setting=SECRET.name)
        return Sender()

    def parse(self, request: WebhookRequest, sender: Sender) -> Heard | Ignored:
        """One event about one call, or about something made from it."""
        payload = reading.json_object(request.body)
        if payload is None:
            return Ignored("the body is no JSON object")
        kind = reading.told(payload.get("type")) or ""
        resource = documents.part(payload, "data", "resource") or documents.part(payload, "data", "object")
        if kind and not kind.startswith("call."):
            return Ignored("not about a call", is_understood=kind.startswith(("message.", "contact.")))
        call_id = reading.told(resource.get("callId")) or reading.told(resource.get("id"))
        if not call_id:
            return Ignored("no call id")
        context = documents.part(payload, "data", "context")
        told = reading.told(resource.get("direction")) or reading.told(context.get("direction"))
        direction = DIRECTIONS.get((told or "").casefold(), Direction.INBOUND)
        if direction is not Direction.INBOUND:
            known = Call(provider=self.name, account=sender.account, root_id=call_id, direction=direction)
            return Ignored(f"{direction} call", call=known)
        delivery_id = request.headers.get("webhook-id") or reading.told(payload.get("id"))
        call = Call(
            provider=self.name,
            account=sender.account,
            root_id=call_id,
            inputs=_inputs(kind, resource, context),
            recordings=_recordings(resource),
            transcripts=_transcripts(call_id, resource),
        )
        is_part = documents.is_told(resource, "callId")
        if not is_part:  # what was made from a call has times and states of its own
            call = _with_facts_of_call(call, kind, resource)
        call = self._with_numbers(call, resource, context)
        if is_part and told is None:  # a recording of a call that you placed looks the same: whom it names may not have rung
            call = replace(call, caller=None)
        return Heard(call, Kind.NEWS, delivery_id, reading.canonical(request.what, payload))

    def warnings(self) -> tuple[str, ...]:
        return ()

    def answer(self, kind: Kind, request: WebhookRequest | None = None) -> Answer:
        del kind, request
        return Answer(204)

    def _with_numbers(self, call: Call, resource: Mapping[str, Any], context: Mapping[str, Any]) -> Call:
        participants = documents.part(context, "participants")
        raw_from = _first(resource.get("from"), participants.get("external"))
        return replace(
            call,
            caller=None if raw_from is None else numbers.identify(raw_from, region=self._region),
            dialled=numbers.dialled(_first(resource.get("to"), participants.get("workspace")), self._region),
        )


def _keys(settings: Settings, name: str) -> tuple[bytes, ...]:
    listed = settings.words(name)
    try:
        return tuple(signatures.standard_secret(part) for part in listed)
    except ValueError as error:
        raise WrongSettings([f"{name}: one of its {len(listed)} keys {error}"]) from None


def legacy_signature(key: bytes, timestamp: str, body: bytes) -> str:
    """The last part of an entry in `openphone-signature`."""
    return base64.b64encode(hmac.digest(key, f"{timestamp}.".encode() + body, "sha256")).decode()


def _verify_legacy(request: WebhookRequest, keys: tuple[bytes, ...]) -> None:
    """Raise Refused unless one of the entries is signed with one of the keys, within the window."""
    # Each entry has a time of its own, so each costs a digest over the body: without a limit one header would cost hundreds.
    entries = [entry.strip().split(";") for entry in request.headers[LEGACY_SIGNATURE].split(",", _MOST_ENTRIES) if entry.strip()]
    entries = entries[:_MOST_ENTRIES]
    if not entries:
        raise Refused("openphone-signature is blank.", reason="signature missing", status=401)
    times = [entry[2] for entry in entries if len(entry) == 4 and entry[:2] == ["hmac", "1"] and _is_proven(entry, request.body, keys)]
    if not times:
        raise Refused(f"No signature matches; compare {LEGACY_KEY.name} with the one in Quo.", reason="signature wrong")
    if not any(abs(request.now - _seconds(time)) <= signatures.WINDOW_S for time in times):
        raise Refused(f"Signed more than {signatures.WINDOW_S} s away from our time; compare the clocks.", reason="signature stale")


def _is_proven(entry: list[str], body: bytes, keys: tuple[bytes, ...]) -> bool:
    if not re.fullmatch(r"[0-9]{1,15}", entry[2]):
        return False
    return any([signatures.same(entry[3], legacy_signature(key, entry[2], body)) for key in keys])  # noqa: C419 - a list: every key is compared


def _seconds(time: str) -> float:
    """Quo shows milliseconds and names no unit, so both are read."""
    return int(time) / 1000 if len(time) > 11 else int(time)


def _first(*values: object) -> str | None:
    """The first text among values and lists of values; None where none was told."""
    flat = [one for value in values for one in (value if isinstance(value, list) else [value])]
    return next((text for text in map(reading.word, flat) if text is not None), None)


def _with_facts_of_call(call: Call, kind: str, resource: Mapping[str, Any]) -> Call:
    status = _status(kind, resource)
    return replace(
        call,
        status=status,
        raw_status=reading.told(resource.get("status")),
        started_at=reading.instant(resource.get("createdAt")),
        answered_at=reading.instant(resource.get("answeredAt")),
        ended_at=reading.instant(resource.get("completedAt")),
        duration_s=reading.seconds(resource.get("duration")) if status.is_final else None,
    )


def _status(kind: str, resource: Mapping[str, Any]) -> Status:
    raw = reading.told(resource.get("status"))
    status = STATUS_OF_TYPE.get(kind, Status.UNKNOWN) if raw is None else STATUSES.get(raw.casefold().replace("_", "-"), Status.UNKNOWN)
    if status is Status.IN_PROGRESS and documents.is_told(resource, "completedAt"):
        status = Status.COMPLETED  # `answered` and `forwarded` stay what they are when the call is over
    was_not_answered = kind == "call.missed" or ("answeredAt" in resource and not documents.is_told(resource, "answeredAt"))
    return Status.NO_ANSWER if status is Status.COMPLETED and was_not_answered else status


def _inputs(kind: str, resource: Mapping[str, Any], context: Mapping[str, Any]) -> tuple[Input, ...]:
    """What the caller chose in the phone menu, by the name of the choice."""
    if kind != "call.menu.selected":
        return ()
    chosen = (part.get(name) for part in (resource, context) for name in ("phoneMenuSelectionName", "selection", "digits"))
    value = next((text for text in map(reading.told, chosen) if text), None)
    return (Input("digits", value, "phone menu"),) if value else ()


def _recordings(resource: Mapping[str, Any]) -> tuple[Recording, ...]:
    parts = [*documents.few(resource, "recordings"), *documents.few(resource, "media"), documents.part(resource, "voicemail")]
    told = [(one, one.get("url") or one.get("recordingUrl")) for one in parts] + [(resource, resource.get("recordingUrl"))]  # a voicemail
    return tuple(
        Recording(reading.told(one.get("id")) or url, url, reading.seconds(one.get("duration")))
        for one, link in told
        if (url := documents.web_address(link))
    )


def _transcripts(call_id: str, resource: Mapping[str, Any]) -> tuple[Transcript, ...]:
    """A voicemail's text, what was said line by line, or the summary of it."""
    spoken = [reading.told(line.get("content")) for line in documents.members(resource, "dialogue")]
    summary = resource.get("summary")
    told = {
        "voicemail": reading.told(resource.get("transcript")) or reading.told(documents.part(resource, "voicemail").get("transcript")),
        "dialogue": "\n".join(line for line in spoken if line) or None,
        "summary": "\n".join(line for line in map(reading.told, summary) if line) if isinstance(summary, list) else None,
    }
    return tuple(Transcript(f"{call_id}-{name}", text) for name, text in told.items() if text)

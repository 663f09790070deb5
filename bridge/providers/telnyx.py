"""Telnyx: Call Control (JSON events) and TeXML (forms with Twilio's names).

https://developers.telnyx.com/docs/voice/programmable-voice/receiving-webhooks ·
https://developers.telnyx.com/api-reference/callbacks/texml-call-completed

A call is identified by `call_session_id` in Call Control, where each leg has a `call_leg_id`, and by `CallSid` in TeXML, where a leg
names its visit as `ParentCallSid`. Signature: Ed25519 over time, `|` and the raw body, of JSON and forms alike (the SDK's own parser
fails on forms, https://github.com/team-telnyx/telnyx-php/issues/96); the URL is not covered, so a GET proves nothing. Retries: yes, at
short notice, out of order and twice; anything but a 200 goes to the failover URL. Call Control reads no answer, TeXML waits for XML.

Known to get wrong: only `call.initiated` tells a direction, so a later event of a leg that Telnyx dialled looks like one of the caller's
own. Such an event names neither caller nor dialled number here, unless its `to` is one of OWN_NUMBERS. A call's length is not told.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from bridge import numbers
from bridge.call import Call, Caller, Direction, Leg, Recording, Status, Transcript
from bridge.errors import Refused, WrongSettings
from bridge.providers import documents, forms, instructions, reading, signatures
from bridge.providers.base import Answer, Heard, Ignored, Kind, Sender, WebhookRequest
from bridge.settings import Faults, ProviderSetting, Settings

SIGNATURE = "telnyx-signature-ed25519"
TIMESTAMP = "telnyx-timestamp"

# The events that say something about a visit, and how far it is then. Playback, streaming, cost and the like say nothing of ours, and
# `call.dtmf.received` tells each key once more that `call.gather.ended` tells together.
STATUS_OF_EVENT: Mapping[str, Status] = {
    "call.initiated": Status.RINGING,
    "call.answered": Status.IN_PROGRESS,
    "call.hangup": Status.COMPLETED,  # unless its cause, below, knows better
    "call.gather.ended": Status.UNKNOWN,
    "call.recording.saved": Status.UNKNOWN,
    "call.recording.transcription.saved": Status.UNKNOWN,
}
# Known to say nothing of ours; there are many in a call. A type that is not known at all is worth a look.
_SILENT = (
    *("call.playback.", "call.speak.", "call.streaming.", "call.fork.", "call.machine.", "call.refer.", "call.siprec.", "conference."),
    *("call.bridged", "call.cost", "call.dtmf.received", "call.enqueued", "call.dequeued"),
)
# `hangup_cause`; the names in the SDK 4.189.0.
STATUS_OF_CAUSE: Mapping[str, Status] = {
    "normal_clearing": Status.COMPLETED,
    "time_limit": Status.COMPLETED,
    "originator_cancel": Status.CANCELED,
    "call_rejected": Status.FAILED,
    "not_found": Status.FAILED,
    "user_busy": Status.BUSY,
    "timeout": Status.NO_ANSWER,
    "no_answer": Status.NO_ANSWER,
}
# How a leg ends that was dialled in vain. The caller is still on the line then, so it says nothing about the visit.
_DIALLED_IN_VAIN = frozenset({Status.FAILED, Status.BUSY, Status.NO_ANSWER})

PUBLIC_KEY = ProviderSetting(
    "TELNYX_PUBLIC_KEY",
    "Public key of the account: Mission Control, Keys & Credentials, Public Key; several, separated by spaces.",
    secret=True,
    switches_on=True,
    several=True,
)
NEXT_URL = instructions.next_url_setting("TELNYX_NEXT_URL", "TeXML")
FILE = instructions.file_setting("TELNYX_TEXML_FILE", "TeXML", NEXT_URL)


class Telnyx:
    """The adapter. Raises WrongSettings where one of its settings cannot be used."""

    name = "telnyx"
    settings = (PUBLIC_KEY, NEXT_URL, FILE)

    def __init__(self, settings: Settings) -> None:
        self._region = settings.default_region
        self._own_numbers = settings.own_numbers
        self._hear = partial(forms.hear, provider=self.name, region=settings.default_region, own_numbers=settings.own_numbers)
        faults = Faults()
        with faults:
            self._keys = _keys(settings.words(PUBLIC_KEY.name))
        with faults:
            self._xml = instructions.xml_answers(settings, NEXT_URL, FILE, "Say")
        faults.tell()
        self._without_ivr = instructions.without_ivr(settings, NEXT_URL, FILE, "callers of a TeXML application")

    def verify(self, request: WebhookRequest) -> Sender:
        """One of the keys signed this body, at a time within 300 s of ours."""
        given, timestamp = request.headers.get(SIGNATURE, "").strip(), request.headers.get(TIMESTAMP, "").strip()
        if not (given and timestamp):
            raise Refused("telnyx-signature-ed25519 or telnyx-timestamp is missing.", reason="signature missing", status=401)
        if forms.is_get(request):
            raise Refused("Telnyx's signature does not cover a query: set the webhook's method to POST.", reason="body not covered")
        if not re.fullmatch(r"[0-9]{1,15}", timestamp):
            raise Refused("telnyx-timestamp is no time in seconds.", reason="signature malformed")
        if not _proves(given, timestamp.encode() + b"|" + request.body, self._keys):
            raise Refused(f"The signature does not match; compare {PUBLIC_KEY.name} with Mission Control.", reason="signature wrong")
        if abs(request.now - int(timestamp)) > signatures.WINDOW_S:
            raise Refused(f"Signed more than {signatures.WINDOW_S} s away from our time; compare the clocks.", reason="signature stale")
        if not _is_json(request):
            forms.parameters(request.body)  # refuses more than any phone system sends
        return Sender()

    def parse(self, request: WebhookRequest, sender: Sender) -> Heard | Ignored:
        """One event of Call Control, or one request of TeXML."""
        if _is_json(request):
            return self._parse_event(request, sender)
        fields = forms.Fields.of(request)
        heard = self._hear(fields, request.what, account=sender.account, kind=forms.kind(fields))
        if isinstance(heard, Ignored) or heard.call.root_id != fields.told("CallSid"):
            return heard
        name = forms.display_name(fields.told("CallerId"))  # TeXML's word for the display name
        return replace(heard, call=replace(heard.call, caller_name=name))

    def warnings(self) -> tuple[str, ...]:
        own = () if self._own_numbers else ("OWN_NUMBERS is not set: Telnyx's later events do not tell your own calls from calls to you.",)
        return (*own, *self._without_ivr)

    def answer(self, kind: Kind, request: WebhookRequest | None = None) -> Answer:
        """TeXML for a waiting caller. Call Control reads no answer, but wants exactly 200."""
        if kind is not Kind.VOICE:
            return Answer(200)
        return forms.answer(self._xml, request, forms.Fields.of(request) if request else forms.Fields(()))

    def _parse_event(self, request: WebhookRequest, sender: Sender) -> Heard | Ignored:
        envelope = reading.json_object(request.body)
        if envelope is None:
            return Ignored("the body is no JSON object")
        data = documents.part(envelope, "data")
        payload, event = documents.part(data, "payload"), reading.told(data.get("event_type")) or ""
        session_id = reading.told(payload.get("call_session_id"))
        if not session_id:
            return Ignored("no call id")
        if event not in STATUS_OF_EVENT:
            return Ignored("an event that says nothing about a caller", is_understood=event.startswith(_SILENT))
        caller = self._identify(payload.get("from"))
        if forms.direction(reading.told(payload.get("direction")), caller, self._own_numbers, self._region) is Direction.OUTBOUND:
            # No later event of this call tells a direction. Where it is a leg of a call that came in, that one's own event counts more.
            known = Call(provider=self.name, account=sender.account, root_id=session_id, direction=Direction.OUTBOUND)
            return Ignored("outbound call", call=known)
        delivery_id = reading.told(data.get("id"))
        call = Call(
            provider=self.name,
            account=sender.account,
            root_id=session_id,
            inputs=forms.inputs(_entered(event, payload), request.what, delivery_id),
            recordings=_recordings(payload, delivery_id),
            transcripts=_transcripts(payload, delivery_id),
        )
        return Heard(self._with_facts(call, event, data, caller), Kind.NEWS, delivery_id, reading.canonical(request.what, data))

    def _with_facts(self, call: Call, event: str, data: Mapping[str, Any], caller: Caller | None) -> Call:
        """What an event says of the visit where its leg is, or may be, the caller's; of a leg otherwise."""
        payload = documents.part(data, "payload")
        dialled = self._identify(payload.get("to"))
        is_root = event == "call.initiated" or (dialled is not None and numbers.is_own(dialled, self._own_numbers, region=self._region))
        if is_root:
            call = replace(
                call,
                caller=caller,
                dialled=numbers.dialled(reading.word(payload.get("to")), self._region),
                caller_name=forms.display_name(reading.told(payload.get("caller_id_name"))),
                forwarded_from=_diverted_from(payload, self._region),
                started_at=reading.instant(payload.get("start_time")),
            )
        cause = reading.told(payload.get("hangup_cause"))
        status = STATUS_OF_CAUSE.get((cause or "").casefold(), STATUS_OF_EVENT[event])
        duration = (
            _between(payload.get("start_time"), payload.get("end_time") or data.get("occurred_at")) if event == "call.hangup" else None
        )
        if not is_root and status.is_final and (self._own_numbers or status in _DIALLED_IN_VAIN):
            leg_id = reading.told(payload.get("call_leg_id"))
            legs = (Leg(leg_id, reading.told(payload.get("to")), status, duration),) if leg_id else ()
            return replace(call, legs=legs)
        at = reading.instant(data.get("occurred_at"))
        return replace(
            call,
            status=status,
            raw_status=cause or (reading.told(payload.get("state")) if status is not Status.UNKNOWN else None),
            answered_at=at if event == "call.answered" else None,
            ended_at=(reading.instant(payload.get("end_time")) or at) if event == "call.hangup" else None,
            duration_s=duration,
        )

    def _identify(self, value: object) -> Caller | None:
        raw = reading.word(value)
        return None if raw is None else numbers.identify(raw, region=self._region)


def _is_json(request: WebhookRequest) -> bool:
    """An event of Call Control. The content type is not signed, so the body itself tells."""
    return request.body.lstrip().startswith(b"{")


def _keys(listed: Iterable[str]) -> tuple[Ed25519PublicKey, ...]:
    try:
        keys = tuple(Ed25519PublicKey.from_public_bytes(base64.b64decode(part, validate=True)) for part in listed)
    except (ValueError, binascii.Error):
        keys = ()
    if not keys:
        raise WrongSettings([f"{PUBLIC_KEY.name}: the public key from Mission Control, base64 of 32 bytes; several, separated by spaces"])
    return keys


def _proves(given: str, signed: bytes, keys: Iterable[Ed25519PublicKey]) -> bool:
    try:
        signature = base64.b64decode(given.encode("utf-8", "replace"), validate=True)
    except (ValueError, binascii.Error):
        return False
    return any(_is_signed_with(key, signature, signed) for key in keys)


def _is_signed_with(key: Ed25519PublicKey, signature: bytes, signed: bytes) -> bool:
    try:
        key.verify(signature, signed)
    except InvalidSignature:
        return False
    return True


def _entered(event: str, payload: Mapping[str, Any]) -> list[tuple[str, str]]:
    """A gather that ends with nothing is "was asked, nothing came"."""
    return [("digits", reading.word(payload.get("digits")) or "")] if event == "call.gather.ended" else []


def _recordings(payload: Mapping[str, Any], delivery_id: str | None) -> tuple[Recording, ...]:
    """The public address where there is one; the other is good for ten minutes, but tells where to look."""
    links = [documents.part(payload, name) for name in ("public_recording_urls", "recording_urls")]
    urls = [url for link in links for value in link.values() if (url := documents.web_address(value))]
    recording_id = reading.told(payload.get("recording_id")) or delivery_id
    if not (urls and recording_id):
        return ()
    return (Recording(recording_id, urls[0], _between(payload.get("recording_started_at"), payload.get("recording_ended_at"))),)


def _transcripts(payload: Mapping[str, Any], delivery_id: str | None) -> tuple[Transcript, ...]:
    text = reading.told(payload.get("transcription_text"))
    transcript_id = reading.told(payload.get("recording_transcription_id")) or delivery_id
    return (Transcript(transcript_id, text),) if text and transcript_id else ()


def _diverted_from(payload: Mapping[str, Any], region: str | None) -> str | None:
    """From where a call was forwarded: the SIP header Diversion (RFC 5806), whose first entry is the last who forwarded."""
    headers = documents.members(payload, "sip_headers")
    values = [reading.told(header.get("value")) for header in headers if (reading.word(header.get("name")) or "").casefold() == "diversion"]
    return next((numbers.identify(value.split(",")[0], region=region).e164 for value in values if value), None)


def _between(start: object, end: object) -> int | None:
    begun, ended = reading.instant(start), reading.instant(end)
    return int((ended - begun).total_seconds()) if begun and ended and ended >= begun else None

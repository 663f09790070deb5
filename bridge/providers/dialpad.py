"""Dialpad: call events of a webhook with a secret.

https://developers.dialpad.com/docs/call-events · https://developers.dialpad.com/docs/event-subscriptions

A call is identified by its entry point: a visit to a department or a call centre is one call there (`entry_point_call_id`) and one more,
with a `call_id` of its own, for each person who takes it; transfers name the first call as `master_call_id`. Signature: the whole body
is a JSON Web Token (HS256) made with the webhook's secret; without a secret Dialpad sends plain JSON, which is refused here. The token
holds no time of signing: what is replayed is told by its content. Retries: after a 5xx three (2, 4, 8 s), after a 4xx none, and it
waits 5 s for any 2xx; a retry may come after later events. https://developers.dialpad.com/docs/webhook-delivery-failures

Known to get wrong: times and durations are milliseconds; `hangup` comes for calls that nobody took, too; the contact's name is its
number where Dialpad knows no name; recordings and transcripts come minutes after the end.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import jwt

from bridge import numbers
from bridge.call import Call, Direction, Leg, Recording, Status, Transcript
from bridge.errors import Refused
from bridge.providers import documents, forms, reading, shared_secrets
from bridge.providers.base import Answer, Heard, Ignored, Kind, Sender, WebhookRequest
from bridge.settings import ProviderSetting, Settings

STATUSES: Mapping[str, Status] = {
    **dict.fromkeys(("calling", "ringing"), Status.RINGING),
    **dict.fromkeys(
        (
            "preanswer", "queued", "connected", "hold", "parked", "merged", "barge", "monitor", "eavesdrop", "takeover", "transcription",
            "voicemail", "admin",
        ),
        Status.IN_PROGRESS,
    ),
    "hangup": Status.COMPLETED,  # unless it was never connected: see _status
    "missed": Status.NO_ANSWER,
    "abandoned": Status.CANCELED,
    "blocked": Status.FAILED,
    # recording, call_transcription, recap_summary, csat, dispositions, voicemail_uploaded, … come at any time and tell no status.
}  # fmt: skip
DIRECTIONS: Mapping[str, Direction] = {"inbound": Direction.INBOUND, "outbound": Direction.OUTBOUND}
_KEY_LENGTH = 32  # the least for HS256: https://www.rfc-editor.org/rfc/rfc7518#section-3.2

SECRET = ProviderSetting(
    "DIALPAD_SECRET",
    "Secret that you made up (32 characters or more) and gave to the webhook; several, while you rotate, separated by spaces.",
    secret=True,
    switches_on=True,
    free=True,
)


class Dialpad:
    """The adapter. Raises WrongSettings where DIALPAD_SECRET holds no usable secret."""

    name = "dialpad"
    settings = (SECRET,)

    def __init__(self, settings: Settings) -> None:
        self._region = settings.default_region
        self._secrets = shared_secrets.listed(settings, SECRET.name, shortest=_KEY_LENGTH)

    def verify(self, request: WebhookRequest) -> Sender:
        """The token in the body is signed with one of the secrets, by HS256: its own header chooses nothing."""
        token = _token(request.body)
        if token.count(b".") != 2:
            raise Refused("The body is no JSON Web Token: give the webhook in Dialpad a secret.", reason="signature missing", status=401)
        if not any([_is_signed(token, secret) for secret in self._secrets]):  # noqa: C419 - a list: every secret is tried
            raise Refused(f"The token's signature is wrong; compare {SECRET.name} with the webhook's secret.", reason="signature wrong")
        return Sender()

    def parse(self, request: WebhookRequest, sender: Sender) -> Heard | Ignored:
        """One change of state of one call, or of one of its legs."""
        event = _payload(request.body)
        if event is None:
            return Ignored("the token holds no JSON object")
        call_id = _id(event, "call_id")
        if not call_id:
            return Ignored("no call id")
        if reading.word(event.get("is_internal")) == "true":
            return Ignored("internal call", is_understood=True)
        direction = DIRECTIONS.get((reading.told(event.get("direction")) or "").casefold(), Direction.INBOUND)
        if direction is not Direction.INBOUND:
            return Ignored(f"{direction} call", is_understood=True)
        root_id = _id(event, "entry_point_call_id") or _id(event, "master_call_id") or call_id
        call = Call(provider=self.name, account=sender.account, root_id=root_id, recordings=_recordings(event))
        call = replace(call, transcripts=_transcripts(call_id, event))
        call = self._with_caller(call, event)
        call = _with_leg(call, call_id, event) if root_id != call_id else self._with_facts_of_root(call, event)
        return Heard(call, Kind.NEWS, None, reading.canonical(request.what, event))

    def warnings(self) -> tuple[str, ...]:
        return ()

    def answer(self, kind: Kind, request: WebhookRequest | None = None) -> Answer:
        del kind, request
        return Answer(204)

    def _with_caller(self, call: Call, event: Mapping[str, Any]) -> Call:
        """Who rings is the same on each leg, so that a subscription for one person is enough to make the lead."""
        raw_from = reading.word(event.get("external_number"))
        return replace(
            call,
            caller=None if raw_from is None else numbers.identify(raw_from, region=self._region),
            caller_name=forms.display_name(reading.told(documents.part(event, "contact").get("name"))),
        )

    def _with_facts_of_root(self, call: Call, event: Mapping[str, Any]) -> Call:
        status = _status(event)
        return replace(
            call,
            dialled=numbers.dialled(reading.word(event.get("internal_number")), self._region),
            status=status,
            raw_status=reading.told(event.get("state")),
            started_at=documents.instant_of_ms(event.get("date_started")),
            answered_at=documents.instant_of_ms(event.get("date_connected")),
            ended_at=documents.instant_of_ms(event.get("date_ended")),
            duration_s=documents.seconds_of_ms(event.get("duration")) if status.is_final else None,
        )


def _token(body: bytes) -> bytes:
    return body.strip().strip(b'"')


def _is_signed(token: bytes, secret: str) -> bool:
    try:
        jwt.PyJWS(algorithms=["HS256"]).decode(token, secret, algorithms=["HS256"])
    except (jwt.PyJWTError, ValueError):
        return False
    return True


def _payload(body: bytes) -> dict[str, Any] | None:
    """The claims, already proven by `verify`."""
    claims = _token(body).split(b".")[1:2]
    try:
        return reading.json_object(base64.urlsafe_b64decode(claims[0] + b"=" * (-len(claims[0]) % 4))) if claims else None
    except (binascii.Error, ValueError):
        return None


def _id(event: Mapping[str, Any], name: str) -> str | None:
    """A call id; null, blank and 0 stand for none."""
    found = reading.told(event.get(name))
    return None if found in {None, "0", "null"} else found


def _status(event: Mapping[str, Any]) -> Status:
    status = STATUSES.get((reading.told(event.get("state")) or "").casefold(), Status.UNKNOWN)
    was_never_connected = "date_connected" in event and not documents.is_told(event, "date_connected")
    return Status.NO_ANSWER if status is Status.COMPLETED and was_never_connected else status


def _with_leg(call: Call, call_id: str, event: Mapping[str, Any]) -> Call:
    to = reading.told(documents.part(event, "target").get("phone")) or reading.told(event.get("internal_number"))
    status = _status(event)
    return replace(call, legs=(Leg(call_id, to, status, documents.seconds_of_ms(event.get("duration")) if status.is_final else None),))


def _recordings(event: Mapping[str, Any]) -> tuple[Recording, ...]:
    found = [
        Recording(reading.told(one.get("id")) or url, url, documents.seconds_of_ms(one.get("duration")))
        for one in documents.few(event, "recording_details")
        if (url := documents.web_address(one.get("url")))
    ]
    voicemail = documents.web_address(event.get("voicemail_link"))
    return (*found, Recording(_id(event, "voicemail_recording_id") or voicemail, voicemail)) if voicemail else tuple(found)


def _transcripts(call_id: str, event: Mapping[str, Any]) -> tuple[Transcript, ...]:
    text = re.sub(r"\s+", " ", reading.told(event.get("transcription_text")) or "")
    return (Transcript(call_id, text),) if text else ()

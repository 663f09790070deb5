"""CallRail: webhooks of a company (pre-call, call routing complete, post-call, call modified), JSON.

https://support.callrail.com/hc/en-us/articles/5711246459149-Webhooks · https://apidocs.callrail.com/#validating-payloads

A call is identified by `resource_id` (CAL…), which is also its id in the API; it has replaced the numeric `id`
(https://support.callrail.com/hc/en-us/articles/4403032268557), which stands in only where a webhook has no other. Signature: header
`Signature`, base64 of HMAC-SHA1 over the raw body by the company's signing key, without a time. Retries: none, ever, and an endpoint
that fails is switched off in the end, so what was lost comes by `flask backfill`. Any 2xx will do.

Known to get wrong: a pre-call event says `missed` and a duration of 0 while the telephone rings. It does not name its own kind, so the
last part of the webhook's URL has to. Post-call waits up to 20 minutes for recording and transcript.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Mapping
from typing import Any

from bridge import numbers
from bridge.call import Call, Direction, Recording, Status, Transcript
from bridge.errors import Refused, WrongSettings
from bridge.providers import documents, forms, reading, signatures
from bridge.providers.base import Answer, Heard, Ignored, Kind, Sender, WebhookRequest
from bridge.settings import ProviderSetting, Settings

SIGNATURE = "signature"

# How far a call is when these come, whatever their body says about it.
STATUS_OF_PATH: Mapping[str, Status] = {
    "pre-call": Status.RINGING,
    "routing-complete": Status.RINGING,
    "call-routing-complete": Status.RINGING,
}
_AFTER_THE_CALL = frozenset({"post-call", "call-modified"})
# `call_type`, where the caller was not answered or `answered` does not tell.
STATUS_OF_TYPE: Mapping[str, Status] = {
    "answered": Status.COMPLETED,
    "abandoned": Status.CANCELED,
    "missed": Status.NO_ANSWER,
    "voicemail": Status.NO_ANSWER,
}

KEY = ProviderSetting(
    "CALLRAIL_SIGNING_KEY",
    "Signing key of the company: CallRail, Integrations, Webhooks; those of several companies separated by spaces.",
    secret=True,
    switches_on=True,
    several=True,
)


class CallRail:
    """The adapter. Raises WrongSettings where CALLRAIL_SIGNING_KEY holds no key."""

    name = "callrail"
    settings = (KEY,)

    def __init__(self, settings: Settings) -> None:
        self._region = settings.default_region
        self._own_numbers = settings.own_numbers
        self._keys = settings.words(KEY.name)
        if not self._keys:
            raise WrongSettings([f"{KEY.name}: the company's signing key; several, separated by spaces"])

    def verify(self, request: WebhookRequest) -> Sender:
        """One of the keys signed this body."""
        given = request.headers.get(SIGNATURE, "").strip()
        if not given:
            raise Refused("The header Signature is missing.", reason="signature missing", status=401)
        if not any([signatures.same(given, body_signature(key, request.body)) for key in self._keys]):  # noqa: C419 - a list: every key is tried
            raise Refused(f"The signature does not match; compare {KEY.name} with CallRail.", reason="signature wrong")
        return Sender()

    def parse(self, request: WebhookRequest, sender: Sender) -> Heard | Ignored:
        """One event of one call."""
        event = reading.json_object(request.body)
        if event is None:
            return Ignored("the body is no JSON object")
        root_id = _root_id(event)
        if not root_id:
            return Ignored("no call id")
        raw_from = _first(event, "customer_phone_number", "callernum")
        caller = None if raw_from is None else numbers.identify(raw_from, region=self._region)
        direction = forms.direction(reading.told(event.get("direction")), caller, self._own_numbers, self._region)
        if direction is not Direction.INBOUND:
            return Ignored("outbound call", call=Call(provider=self.name, account=sender.account, root_id=root_id, direction=direction))
        status, raw_status = _status(request.what, event)
        call = Call(
            provider=self.name,
            account=sender.account,
            root_id=root_id,
            caller=caller,
            dialled=numbers.dialled(_first(event, "tracking_phone_number", "trackingnum"), self._region),
            status=status,
            raw_status=raw_status,
            caller_name=forms.display_name(reading.told(_first(event, "customer_name", "callername"))),
            city=reading.told(event.get("customer_city")),
            state=reading.told(event.get("customer_state")),
            country=reading.told(event.get("customer_country")),
            started_at=reading.instant(event.get("start_time")),
            duration_s=reading.seconds(event.get("duration")) if status.is_final else None,
            recordings=_recordings(root_id, event),
            transcripts=_transcripts(root_id, event),
        )
        return Heard(call, Kind.NEWS, None, reading.canonical(request.what, event))

    def warnings(self) -> tuple[str, ...]:
        return ()

    def answer(self, kind: Kind, request: WebhookRequest | None = None) -> Answer:
        del kind, request
        return Answer(204)


def body_signature(key: str, body: bytes) -> str:
    """What stands in the header Signature (the vendor publishes an example: https://apidocs.callrail.com/#validating-payloads)."""
    return base64.b64encode(hmac.digest(key.encode(), body, "sha1")).decode()


def _root_id(event: Mapping[str, Any]) -> str | None:
    """`resource_id`, or `id` where that is all there is: a lead that is backfilled as another call gets a second note, and is not lost."""
    return reading.told(event.get("resource_id")) or reading.told(event.get("id"))


def _first(event: Mapping[str, Any], *names: str) -> str | None:
    """The value under the first of `names` that was sent: today's name, then the one that old webhooks have."""
    return next((told for name in names if (told := reading.word(event.get(name))) is not None), None)


def _status(what: str, event: Mapping[str, Any]) -> tuple[Status, str | None]:
    """The status and the word that tells it: the URL while the call goes on, else `answered`, else `call_type`.

    No answer and an unknown URL tell nothing: the call may ring, and then CallRail calls it missed too.
    """
    if what in STATUS_OF_PATH:
        return STATUS_OF_PATH[what], what
    answered, call_type = reading.word(event.get("answered")), reading.told(event.get("call_type"))
    if answered == "true":
        return Status.COMPLETED, "answered"
    if answered == "false" and what not in _AFTER_THE_CALL:
        return Status.UNKNOWN, call_type
    unanswered = Status.NO_ANSWER if answered == "false" else Status.UNKNOWN
    return STATUS_OF_TYPE.get((call_type or "").casefold(), unanswered), call_type


def _recordings(root_id: str, event: Mapping[str, Any]) -> tuple[Recording, ...]:
    url = documents.web_address(event.get("recording"))
    return (Recording(root_id, url, reading.seconds(event.get("recording_duration"))),) if url else ()


def _transcripts(root_id: str, event: Mapping[str, Any]) -> tuple[Transcript, ...]:
    text = reading.told(event.get("transcription"))
    return (Transcript(root_id, text),) if text else ()

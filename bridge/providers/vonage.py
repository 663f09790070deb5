"""Vonage Voice API: the answer URL and the event URL of an application.

https://developer.vonage.com/voice/voice-api/webhook-reference

A call is identified by `conversation_uuid`; each leg has a `uuid`, and recordings name the conversation alone. Signature: a JWT (HS256)
as bearer token, with `iat` and, for the body, `payload_hash`; it has no `exp`, so its age is checked here
(https://developer.vonage.com/en/getting-started/concepts/webhooks). Nothing covers the query of a GET, which is the default of the answer
URL: set it to POST. Retries: the answer URL twice, then its fallback twice, then the call is ended; 5 s each time. The answer URL waits
for an NCCO, the event URL for any 2xx.

Known to get wrong: numbers come with their country code and without plus; `completed` follows `busy`, `unanswered` and the like too,
in any order (https://github.com/Nexmo/nexmo-developer/pull/1653); the event of a leg does not tell whose leg it is, so outbound legs are
left out.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Mapping
from typing import Any

import jwt

from bridge import numbers
from bridge.call import Call, Direction, Recording, Status
from bridge.errors import Refused
from bridge.providers import documents, forms, instructions, reading, signatures
from bridge.providers.base import Answer, Heard, Ignored, Kind, Sender, WebhookRequest
from bridge.settings import Faults, ProviderSetting, Settings

SIGNATURE = "authorization"

STATUSES: Mapping[str, Status] = {
    "started": Status.RINGING,
    "ringing": Status.RINGING,
    "answered": Status.IN_PROGRESS,
    "human": Status.IN_PROGRESS,
    "machine": Status.IN_PROGRESS,
    "cancelled": Status.CANCELED,
    "canceled": Status.CANCELED,
    "rejected": Status.FAILED,
    "failed": Status.FAILED,
    "busy": Status.BUSY,
    "unanswered": Status.NO_ANSWER,
    "timeout": Status.NO_ANSWER,
    "completed": Status.COMPLETED,
}
_LONGEST = 8192  # characters; decoding a token of a megabyte would cost us time, and a stranger nothing. Genuine ones have some 500
_SHORT = 32  # bytes; below, RFC 7518 calls a key for HS256 too short

SECRET = ProviderSetting(
    "VONAGE_SIGNATURE_SECRET",
    "Signature secret of the account (not the API secret): Vonage Dashboard, API settings; several, separated by spaces.",
    secret=True,
    switches_on=True,
    several=True,
)
NEXT_URL = instructions.next_url_setting("VONAGE_NEXT_URL", "NCCO")
FILE = instructions.file_setting("VONAGE_NCCO_FILE", "NCCO", NEXT_URL)


class Vonage:
    """The adapter. Raises WrongSettings where one of its settings cannot be used."""

    name = "vonage"
    settings = (SECRET, NEXT_URL, FILE)

    def __init__(self, settings: Settings) -> None:
        faults = Faults()
        self._region = settings.default_region
        self._own_numbers = settings.own_numbers
        self._public_url = settings.public_url
        self._next_url = settings.value(NEXT_URL.name).strip()
        self._secrets = settings.words(SECRET.name)
        if not self._secrets:
            faults.append(f"{SECRET.name}: the account's signature secret; several, separated by spaces")
        with faults:
            self._first = instructions.chosen(settings, NEXT_URL, FILE, redirect=_go_on_at, is_usable=_is_ncco, default=_ncco(_SENTENCE))
        faults.tell()
        self._without_ivr = instructions.without_ivr(settings, NEXT_URL, FILE, "callers")

    def verify(self, request: WebhookRequest) -> Sender:
        """One of the secrets signed a token for this body, at a time within 300 s of ours. The token's header chooses nothing."""
        scheme, _, token = request.headers.get(SIGNATURE, "").strip().partition(" ")
        if scheme.casefold() != "bearer" or not token.strip():
            raise Refused("Authorization holds no bearer token: switch signed webhooks on.", reason="signature missing", status=401)
        if len(token) > _LONGEST:
            raise Refused("The bearer token is longer than any of Vonage's.", reason="signature malformed")
        signed = [payload for secret in self._secrets if (payload := _payload(token.strip(), secret)) is not None]
        if not signed:
            raise Refused(f"The token's signature is wrong; compare {SECRET.name} with the dashboard.", reason="signature wrong")
        claims = reading.json_object(signed[0])
        issued = (reading.told(claims.get("iat")) or "") if claims else ""
        if claims is None or not re.fullmatch(r"[0-9]{1,15}", issued):
            raise Refused("The token does not tell when it was made.", reason="signature malformed")
        if not _covers(claims, request):
            raise Refused("The token's payload_hash is missing or is not the digest of this body.", reason="body not covered")
        if abs(request.now - int(issued)) > signatures.WINDOW_S:
            raise Refused(f"Signed more than {signatures.WINDOW_S} s away from our time; compare the clocks.", reason="signature stale")
        if forms.is_get(request):
            forms.parameters(forms.query_of(request))  # refuses more than any phone system sends; the token need not cover them
        return Sender()

    def parse(self, request: WebhookRequest, sender: Sender) -> Heard | Ignored:
        """One event of the caller's own leg, or of the whole conversation."""
        event = _event(request)
        if event is None:
            return Ignored("the body is no JSON object")
        kind = _kind(event)
        root_id = reading.told(event.get("conversation_uuid"))
        if not root_id:
            return Ignored("no call id", kind)
        raw_from = reading.word(event.get("from"))
        caller = None if raw_from is None else numbers.identify(raw_from, region=self._region, country_code_first=True)
        direction = forms.direction(reading.told(event.get("direction")), caller, self._own_numbers, self._region)
        if direction is not Direction.INBOUND:
            # A recording names the conversation alone. Where the conversation came in, the caller's own leg says so and counts more.
            known = Call(provider=self.name, account=sender.account, root_id=root_id, direction=direction)
            return Ignored("outbound call or leg", kind, call=known)
        status = _status(event)
        at = reading.instant(event.get("timestamp"))
        begun = reading.instant(event.get("start_time"))  # of the conversation here, of the recording in a recording's event
        call = Call(
            provider=self.name,
            account=sender.account,
            root_id=root_id,
            caller=caller,
            dialled=numbers.dialled(reading.word(event.get("to")), self._region, country_code_first=True),
            status=status,
            raw_status=reading.told(event.get("status")),
            started_at=at if status is Status.RINGING else None,
            answered_at=(begun or at) if status is Status.IN_PROGRESS else begun if status.is_final else None,
            ended_at=(reading.instant(event.get("end_time")) or at) if status.is_final else None,
            duration_s=reading.seconds(event.get("duration")),
            inputs=forms.inputs(_entered(event), request.what, reading.told(event.get("timestamp"))),
            recordings=_recordings(event),
        )
        return Heard(call, kind, None, reading.canonical(request.what, event))

    def warnings(self) -> tuple[str, ...]:
        is_short = any(len(secret.encode()) < _SHORT for secret in self._secrets)
        short = (f"{SECRET.name} has a secret of fewer than {_SHORT} bytes: set a longer one in the dashboard, up to 64.",)
        return (*(short if is_short else ()), *self._without_ivr)

    def answer(self, kind: Kind, request: WebhookRequest | None = None) -> Answer:
        """An NCCO for a waiting caller. An input's own answer stays empty, so that Vonage goes on with the actions behind it."""
        if kind is not Kind.VOICE:
            return Answer(204)
        url = forms.next_url(request)
        is_usable = url and instructions.is_elsewhere(url, self._public_url)
        event = (_event(request) if request else None) or {}
        told = {name: value for name in ("uuid", "conversation_uuid", "from", "to") if (value := reading.told(event.get(name)))}
        go_on = (url if is_usable else None) or self._next_url
        return Answer(200, "application/json", _go_on_at(go_on, told) if go_on else self._first)


_SENTENCE: Mapping[str, object] = {"action": "talk", "text": instructions.SENTENCE}


def _ncco(*actions: Mapping[str, object]) -> bytes:
    return json.dumps(actions).encode()


def _go_on_at(url: str, told: Mapping[str, str] | None = None) -> bytes:
    """An NCCO has no redirect: `notify` fetches the NCCO to go on with, and its payload tells there which call it is."""
    return _ncco({"action": "notify", "eventUrl": [url], "eventMethod": "POST", "payload": dict(told or {})})


def _is_ncco(content: bytes) -> bool:
    try:
        actions = json.loads(content)
    except (ValueError, RecursionError):
        return False
    return isinstance(actions, list) and bool(actions) and all(isinstance(one, dict) and "action" in one for one in actions)


def _payload(token: str, secret: str) -> bytes | None:
    """What a token holds, where this secret signed it by HS256; None for any other token."""
    try:
        decoded = jwt.PyJWS(algorithms=["HS256"]).decode(token.encode("utf-8", "replace"), secret, algorithms=["HS256"])
    except (jwt.PyJWTError, ValueError, RecursionError):
        return None
    return decoded if isinstance(decoded, bytes) else None


def _covers(claims: Mapping[str, Any], request: WebhookRequest) -> bool:
    """Whether the token was made for this body. A GET has none, and what Vonage hashes then is not documented: nothing, or the query.

    A body that comes with a GET all the same counts for nothing: else the token of any POST would prove whatever stands in a query.
    """
    given = reading.told(claims.get("payload_hash"))
    if forms.is_get(request) and given is None:
        return True
    allowed = [b"", forms.query_of(request)] if forms.is_get(request) else [request.body]
    digests = [hashlib.sha256(content).hexdigest() for content in allowed]
    return any([hmac.compare_digest((given or "").lower().encode("utf-8", "replace"), own.encode()) for own in digests])  # noqa: C419 - a list: every digest is compared


def _event(request: WebhookRequest) -> Mapping[str, Any] | None:
    """The parameters of a GET, or the object in the body."""
    if not forms.is_get(request):
        return reading.json_object(request.body)
    fields = forms.Fields.of(request)
    return {name: fields.first(name) for name, _ in fields.pairs if name != "next"}


def _kind(event: Mapping[str, Any]) -> Kind:
    """The answer URL, and its fallback, tell a new call without a status. Errors have a reason and no original request."""
    is_error = documents.is_told(event, "reason") and not documents.is_told(event, "original_request")
    is_news = is_error or any(documents.is_told(event, name) for name in ("status", "dtmf", "speech", "recording_url"))
    return Kind.NEWS if is_news or not documents.is_told(event, "uuid") else Kind.VOICE


def _status(event: Mapping[str, Any]) -> Status:
    """`completed` follows every other end too. Without a start nobody answered: then the other end, if it comes, outranks this one."""
    status = STATUSES.get((reading.told(event.get("status")) or "").casefold(), Status.UNKNOWN)
    if status is Status.COMPLETED and not reading.told(event.get("start_time")) and not reading.seconds(event.get("duration")):
        return Status.CANCELED
    return status


def _entered(event: Mapping[str, Any]) -> list[tuple[str, str]]:
    """`dtmf` is an object, or a text as in 2019; `speech` lists what may have been said, the best first."""
    entered = []
    if documents.is_told(event, "dtmf"):
        digits = event["dtmf"] if isinstance(event["dtmf"], str) else documents.part(event, "dtmf").get("digits")
        entered.append(("digits", reading.word(digits) or ""))
    if documents.is_told(event, "speech"):
        results = documents.members(documents.part(event, "speech"), "results")
        entered.append(("speech", next((reading.word(result.get("text")) or "" for result in results), "")))
    return entered


def _recordings(event: Mapping[str, Any]) -> tuple[Recording, ...]:
    """A recording tells its own beginning and end, and no length."""
    url, recording_id = documents.web_address(event.get("recording_url")), reading.told(event.get("recording_uuid"))
    begun, ended = reading.instant(event.get("start_time")), reading.instant(event.get("end_time"))
    duration = int((ended - begun).total_seconds()) if begun and ended and ended >= begun else None
    return (Recording(recording_id or url, url, duration),) if url else ()

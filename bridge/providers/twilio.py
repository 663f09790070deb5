"""Twilio Programmable Voice, and Studio's "Make HTTP Request" widget.

What they call it: voice webhooks (TwiML requests), status, recording and transcription callbacks.
https://www.twilio.com/docs/voice/twiml#request-parameters · https://www.twilio.com/docs/voice/api/call-resource#statuscallback

A call is identified by its CallSid, the same in each of its webhooks; a child leg has its own and names the visit as ParentCallSid.
Signature: X-Twilio-Signature over the URL and the form (https://www.twilio.com/docs/usage/security), without a time in it: what is
replayed is told by its content. Retries: by default one, on connection failure alone, so a 5xx loses the event; the docs page has the
override. It waits 15 s for an answer: call instructions (TwiML) while the caller is on the line, any 2xx otherwise.

Known to get wrong: GET URLs are signed with `@ : '` unescaped and sent escaped; `Duration` is minutes where `CallDuration` is seconds;
callbacks come in any order; a caller id that it cannot normalize is passed on raw.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace

from bridge import numbers
from bridge.call import Call, Caller, Direction, Input, Leg, Recording, Status, Transcript
from bridge.errors import Refused, WrongSettings
from bridge.providers import reading, signatures, twiml
from bridge.providers.base import Answer, Heard, Ignored, Kind, Sender, WebhookRequest
from bridge.settings import ProviderSetting, Settings

SIGNATURE = "x-twilio-signature"
SIGNATURE_SETTINGS = "x-twilio-webhooks-signature-settings"  # https://www.twilio.com/docs/usage/webhooks/webhook-shared-keys
DELIVERY = "i-twilio-idempotency-token"  # one for all retries of a request; absent when somebody replays it by hand

STATUSES: Mapping[str, Status] = {
    "queued": Status.RINGING,
    "initiated": Status.RINGING,
    "ringing": Status.RINGING,
    "in-progress": Status.IN_PROGRESS,
    "answered": Status.IN_PROGRESS,  # the name of the callback event and a status of <Dial>
    "canceled": Status.CANCELED,
    "cancelled": Status.CANCELED,
    "failed": Status.FAILED,
    "busy": Status.BUSY,
    "no-answer": Status.NO_ANSWER,
    "completed": Status.COMPLETED,
}
DIRECTIONS: Mapping[str, Direction] = {
    "inbound": Direction.INBOUND,
    "outbound-api": Direction.OUTBOUND,
    "outbound-dial": Direction.OUTBOUND,
    # Elastic SIP Trunking counts from the telephone network: what originates there comes in to the business.
    "trunking-originating": Direction.INBOUND,
    "trunking-terminating": Direction.OUTBOUND,
}
# Requests with one of these report something; TwiML in their answer is not read.
_NEWS_FIELDS = (
    "CallbackSource",
    "RecordingStatus",
    "StatusCallbackEvent",
    "TranscriptionSid",
    "TranscriptionStatus",
    "UnstableSpeechResult",
)
_NEWS_PATHS = frozenset({"studio", "recording", "transcription"})

TOKEN = ProviderSetting(
    "TWILIO_AUTH_TOKEN",
    "Primary Auth Token of the account: Twilio Console, Account Dashboard, Account Info.",
    secret=True,
    switches_on=True,
)
ACCOUNT_TOKENS = ProviderSetting(
    "TWILIO_ACCOUNT_TOKENS", 'Auth Tokens of subaccounts, a JSON object: {"AC…": "token"}.', secret=True, switches_on=True
)
SHARED_KEYS = ProviderSetting(
    "TWILIO_SHARED_KEYS",
    'Secrets of Webhooks SharedKeys, a JSON object: {"webhooks_sharedkey_…": "secret"}.',
    secret=True,
    switches_on=True,
)
SHARED_KEY_ONLY = ProviderSetting(
    "TWILIO_SHARED_KEY_ONLY", "yes: refuse what an Auth Token signed. Default no: a Webhooks Rule may cover a part."
)
_WRONG = (
    "The signature does not match: compare TWILIO_AUTH_TOKEN (or the key that signs) with Twilio, and PUBLIC_URL with the URL set there."
)


class Twilio:
    """The adapter. Raises WrongSettings where one of its settings cannot be used."""

    name = "twilio"
    settings = (TOKEN, ACCOUNT_TOKENS, SHARED_KEYS, SHARED_KEY_ONLY, twiml.NEXT_URL, twiml.FILE)

    def __init__(self, settings: Settings) -> None:
        self._region = settings.default_region
        self._own_numbers = settings.own_numbers
        self._token = settings.value(TOKEN.name).strip()
        self._account_tokens = _secrets(settings, ACCOUNT_TOKENS.name)
        self._shared_keys = _secrets(settings, SHARED_KEYS.name)
        self._shared_key_only = _yes(settings, SHARED_KEY_ONLY.name)
        self._twiml = twiml.of(settings)
        self._has_ivr = any(settings.value(spec.name).strip() for spec in (twiml.NEXT_URL, twiml.FILE))

    def verify(self, request: WebhookRequest) -> Sender:
        """The account whose token signed: "" for TWILIO_AUTH_TOKEN and SharedKeys, the AccountSid for a subaccount's token."""
        given = request.headers.get(SIGNATURE, "").strip()
        if not given:
            raise Refused("X-Twilio-Signature is missing.", reason="signature missing", status=401)
        fields, urls = _signed_fields(request), signatures.twilio_urls(request.url, is_get=_is_get(request))
        key_id, algorithm = _signature_settings(request.headers.get(SIGNATURE_SETTINGS, ""))
        for account, secret in self._keys(key_id, _Fields.of(request).first("AccountSid")):
            if signatures.twilio_proves(given, secret, urls, fields, algorithm=algorithm):
                return Sender(account)
        raise Refused(_WRONG, reason="signature wrong")

    def parse(self, request: WebhookRequest, sender: Sender) -> Heard | Ignored:
        """One request about one call; a child leg, which has a parent, becomes a leg of its parent's call."""
        if _is_json(request) and reading.json_object(request.body) is None:
            return Ignored("the body is no JSON object")
        fields = _Fields.of(request)
        kind = _kind(request, fields)
        call_id = fields.told("CallSid")
        if not call_id:
            return Ignored("no call id", kind)
        root_id = fields.told("ParentCallSid") or call_id
        is_leg = root_id != call_id
        delivery_id = request.headers.get(DELIVERY, "").strip() or None
        call = Call(
            provider=self.name,
            account=sender.account,
            root_id=root_id,
            inputs=() if is_leg else _inputs(fields, request.what, delivery_id),  # on a leg somebody else presses: the agent
            recordings=_recordings(fields),
            transcripts=_transcripts(fields),
            legs=_legs(fields, call_id if is_leg else None),
        )
        if not is_leg:
            call = self._with_facts_of_root(call, fields)
        if call.direction is Direction.OUTBOUND:
            return Ignored("outbound call", kind)
        return Heard(call, kind, delivery_id, reading.canonical(request.what, fields.pairs))

    def warnings(self) -> tuple[str, ...]:
        """A voice URL needs call instructions of the owner's own; without them a caller hears one sentence and the line closes."""
        return () if self._has_ivr else ("TWILIO_NEXT_URL is not set, nor TWILIO_TWIML_FILE: callers hear one sentence, no IVR.",)

    def answer(self, kind: Kind, request: WebhookRequest | None = None) -> Answer:
        """TwiML while a caller waits for it. text/plain would be read aloud, and no content type is error 11200."""
        if kind is not Kind.VOICE:
            return Answer(204)
        fields = _Fields.of(request) if request else _Fields(())
        is_leg = fields.told("ParentCallSid") not in {None, fields.told("CallSid")}
        next_url = _next_url(request) if request else None
        return Answer(200, "text/xml; charset=utf-8", self._twiml.to(next_url, _entered(fields), is_leg=is_leg))

    def _keys(self, key_id: str | None, account_sid: str | None) -> list[tuple[str, str]]:
        """The accounts and secrets that may have signed. A token proves only requests that name its own account, or none (Studio)."""
        if key_id is not None:
            if key_id not in self._shared_keys:
                raise Refused("Signed with a SharedKey that TWILIO_SHARED_KEYS does not hold.", reason="signature key unknown")
            return [("", self._shared_keys[key_id])]
        if self._shared_key_only:
            raise Refused("Signed with an Auth Token, which TWILIO_SHARED_KEY_ONLY forbids.", reason="signature scheme forbidden")
        main = [("", self._token)] if self._token else []
        return main + [(sid, token) for sid, token in self._account_tokens.items() if account_sid in {None, "", sid}]

    def _with_facts_of_root(self, call: Call, fields: _Fields) -> Call:
        raw_from = fields.first("From", "Caller")
        caller = None if raw_from is None else numbers.identify(raw_from, region=self._region)
        status = _status(fields.told("CallStatus"))
        at = reading.instant(fields.told("Timestamp"))
        return replace(
            call,
            direction=self._direction(fields, caller),
            caller=caller,
            dialled=numbers.dialled(fields.first("To", "Called"), self._region),
            status=status,
            raw_status=fields.told("CallStatus"),
            caller_name=fields.told("CallerName"),
            city=fields.told("FromCity", "CallerCity"),
            state=fields.told("FromState", "CallerState"),
            postcode=fields.told("FromZip", "CallerZip"),
            country=fields.told("FromCountry", "CallerCountry"),
            forwarded_from=numbers.dialled(fields.told("ForwardedFrom"), self._region),
            started_at=at if status is Status.RINGING else None,
            answered_at=at if status is Status.IN_PROGRESS else None,
            ended_at=at if status.is_final else None,
            duration_s=reading.seconds(fields.told("CallDuration")),  # seconds; Duration beside it is minutes
        )

    def _direction(self, fields: _Fields, caller: Caller | None) -> Direction:
        """Studio and recordings do not tell: then a call from one of OWN_NUMBERS is the business's own, any other came in."""
        known = DIRECTIONS.get((fields.told("Direction") or "").casefold())
        if known is not None:
            return known
        is_own = caller is not None and numbers.is_own(caller, self._own_numbers, region=self._region)
        return Direction.OUTBOUND if is_own else Direction.INBOUND


class _Fields:
    """The parameters of a request by name. Case and underscores do not count: in Studio the author of the flow types the names."""

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        self.pairs = tuple(pairs)
        self._values: dict[str, list[str]] = {}
        for name, value in self.pairs:
            self._values.setdefault(_plain(name), []).append(value)

    @classmethod
    def of(cls, request: WebhookRequest) -> _Fields:
        if _is_json(request):
            plain = ((reading.clean(name), reading.word(value)) for name, value in (reading.json_object(request.body) or {}).items())
            return cls((name, value) for name, value in plain if value is not None)
        encoded = request.query.encode("utf-8", "replace") if _is_get(request) else request.body
        return cls((reading.text_of(name), reading.text_of(value)) for name, value in reading.form_fields(encoded))

    def all(self, name: str) -> tuple[str, ...]:
        return tuple(self._values.get(_plain(name), ()))

    def first(self, *names: str) -> str | None:
        """The value under the first of `names` that was sent, as sent; None where none of them was."""
        return next((self.all(name)[0] for name in names if self.all(name)), None)

    def told(self, *names: str) -> str | None:
        """The first value with something in it, without spaces around it."""
        return next((value.strip() for name in names for value in self.all(name) if value.strip()), None)


def _plain(name: str) -> str:
    return name.replace("_", "").casefold()


def _is_get(request: WebhookRequest) -> bool:
    return request.method.upper() in {"GET", "HEAD"}


def _content_type(request: WebhookRequest) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().casefold()


def _is_json(request: WebhookRequest) -> bool:
    return not _is_get(request) and _content_type(request) == "application/json"


def _signed_fields(request: WebhookRequest) -> signatures.Fields:
    """What the signature covers beside the URL: the form; nothing on GET; of any other body the digest that stands in the URL."""
    if _is_get(request):
        return ()
    if _content_type(request) in {"", "application/x-www-form-urlencoded"}:
        return reading.form_fields(request.body)
    if not signatures.body_digest_matches(reading.form_fields(request.query.encode("utf-8", "replace")), request.body):
        raise Refused("The URL's bodySHA256 is missing or is not the digest of this body.", reason="body not covered")
    return ()


def _signature_settings(header: str) -> tuple[str | None, str]:
    """The SharedKey and the algorithm named by a request; none of both for plain Auth Token signatures."""
    parts = (part.partition("=") for part in header.split(",") if part.strip())
    named = {name.strip().casefold(): value.strip() for name, _, value in parts}
    algorithm = named.get("algorithm", "HMAC_SHA1").upper()
    if named and (not named.get("key") or algorithm not in signatures.TWILIO_HASHES):
        raise Refused("X-Twilio-Webhooks-Signature-Settings names no key, or an unknown algorithm.", reason="signature scheme unknown")
    return named.get("key"), algorithm


def _kind(request: WebhookRequest, fields: _Fields) -> Kind:
    """Whether a caller waits for TwiML. In doubt yes: an answer without TwiML hangs up on a caller, and TwiML hurts no callback."""
    status = fields.told("CallStatus")
    is_news = (
        _is_json(request)
        or request.what.casefold() in _NEWS_PATHS
        or any(fields.told(name) for name in _NEWS_FIELDS)
        or _status(status).is_final
        or bool(fields.told("RecordingSid") and not status)  # the action of <Record> tells its status, and waits
    )
    return Kind.NEWS if is_news else Kind.VOICE


def _status(raw: str | None) -> Status:
    return STATUSES.get((raw or "").casefold().replace("_", "-"), Status.UNKNOWN)


def _inputs(fields: _Fields, prompt: str, delivery_id: str | None) -> tuple[Input, ...]:
    """What was pressed and said, in order. <Record> reports a hung up receiver as the digits `hangup`."""
    entered = [("digits", value) for value in fields.all("Digits") if value != "hangup"]
    entered += [("speech", value.strip()) for value in (*fields.all("SpeechResult"), *fields.all("Speech"))]
    answered = [(kind, value) for kind, value in entered if value]
    return tuple(Input(kind, value, prompt, delivery_id) for kind, value in answered or entered[:1])


def _next_url(request: WebhookRequest) -> str | None:
    query = reading.form_fields(request.query.encode("utf-8", "replace"))
    return next((reading.text_of(value) for name, value in query if name == b"next"), None)


def _entered(fields: _Fields) -> dict[str, str]:
    """What tells a further request of a call from its first."""
    told = {name: fields.first(name) for name in ("Digits", "SpeechResult", "DialCallStatus", "RecordingUrl")}
    return {name: value for name, value in told.items() if value is not None}


def _recordings(fields: _Fields) -> tuple[Recording, ...]:
    url = fields.told("RecordingUrl") or ""
    recording_id = fields.told("RecordingSid") or url.rpartition("/")[2]
    is_there = (fields.told("RecordingStatus") or "completed").casefold() == "completed"
    if not (is_there and recording_id and url.startswith(("https://", "http://"))):
        return ()
    return (Recording(recording_id, url, reading.seconds(fields.told("RecordingDuration"))),)


def _transcripts(fields: _Fields) -> tuple[Transcript, ...]:
    text = fields.told("TranscriptionText")
    transcript_id = fields.told("TranscriptionSid", "RecordingSid")
    return (Transcript(transcript_id, text),) if text and transcript_id else ()


def _legs(fields: _Fields, child_id: str | None) -> tuple[Leg, ...]:
    """The child leg that a request is about, and the one that a <Dial> ended with."""
    legs = []
    if child_id:
        status, duration = _status(fields.told("CallStatus")), reading.seconds(fields.told("CallDuration"))
        legs.append(Leg(child_id, fields.told("To", "Called"), status, duration))
    if dialled_id := fields.told("DialCallSid"):
        legs.append(Leg(dialled_id, None, _status(fields.told("DialCallStatus")), reading.seconds(fields.told("DialCallDuration"))))
    return tuple(legs)


def _secrets(settings: Settings, name: str) -> dict[str, str]:
    try:
        found = json.loads(settings.value(name) or "{}")
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not all(isinstance(secret, str) and secret and key for key, secret in found.items()):
        raise WrongSettings([f'{name}: a JSON object of ids and secrets, such as {{"id": "secret"}}'])
    return found


def _yes(settings: Settings, name: str) -> bool:
    value = settings.value(name).strip().casefold()
    if value not in {"", "yes", "no", "true", "false", "1", "0"}:
        raise WrongSettings([f"{name}: yes or no"])
    return value in {"yes", "true", "1"}

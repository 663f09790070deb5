"""Telnyx, Plivo, Vonage, SignalWire and CallRail, as the contract hears them: requests signed with made-up secrets."""

from __future__ import annotations

import base64
import hashlib
import json
import random
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from urllib.parse import urlencode

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from bridge.providers import callrail, plivo, reading, signalwire, signatures
from bridge.sandbox.phone import Delivery, PhoneCall, new_call
from tests.providers.case import Case
from tests.providers.support import NOW, PUBLIC_URL

CALL = new_call(random.Random(7), caller="+15550101234")
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
JSON = {"Content-Type": "application/json"}


def _key(seed: str) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(bytes.fromhex(seed))


def _public(key: Ed25519PrivateKey) -> str:
    return base64.b64encode(key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)).decode()


TELNYX_KEY = _key("12ad189bb26bdc2c3521d3f0a22fe06f04b46016d111b83e3c69ef04ab054f8a")
TELNYX_OTHER_KEY, TELNYX_STRANGE_KEY = _key("02" * 32), _key("03" * 32)
TELNYX_PUBLIC_KEY = _public(TELNYX_KEY)
PLIVO_TOKEN, PLIVO_OTHER_TOKEN = "plivo_test_auth_token_made_up_0001", "plivo_test_auth_token_made_up_0002"
VONAGE_SECRET, VONAGE_OTHER_SECRET = "vonage-signature-secret-made-up-0001", "vonage-signature-secret-made-up-0002"
SIGNALWIRE_KEY, SIGNALWIRE_OTHER_KEY = "PSK_madeUpSigningKey000000000000", "PSK_madeUpSigningKey000000000001"
CALLRAIL_KEY, CALLRAIL_OTHER_KEY = "callrailmadeupsigningkey00000000", "callrailmadeupsigningkey00000001"
HEADERS = [
    "telnyx-signature-ed25519",
    "telnyx-timestamp",
    "x-plivo-signature-v3",
    "x-plivo-signature-v3-nonce",
    "x-plivo-signature-v2",
    "authorization",
    "x-signalwire-signature",
    "signature",
]


def telnyx_signed(body: bytes, *, key: Ed25519PrivateKey = TELNYX_KEY, what: str = "texml", headers: Mapping[str, str] = FORM) -> Delivery:
    timestamp = str(int(NOW))
    proof = base64.b64encode(key.sign(f"{timestamp}|".encode() + body)).decode()
    named = {"telnyx-timestamp": timestamp, "telnyx-signature-ed25519": proof}
    return Delivery("POST", f"{PUBLIC_URL}/webhooks/telnyx/{what}", {**headers, **named}, body)


def _twilio_like(call: PhoneCall, status: str, **extra: str) -> bytes:
    told = {"CallSid": call.sid, "CallStatus": status, "Direction": "inbound", "From": call.caller, "To": call.dialled}
    return urlencode(told | extra).encode()


def _ended(call: PhoneCall, status: str, **extra: str) -> bytes:
    return _twilio_like(call, status, CallbackSource="call-progress-events", CallDuration="94", **extra)


def telnyx_event(event: str, *, key: Ed25519PrivateKey = TELNYX_KEY, event_id: str = "e1", **payload: object) -> Delivery:
    """Call Control, whose session is `session-1` and whose leg `leg-1` unless told otherwise."""
    told = {"call_session_id": "session-1", "call_leg_id": "leg-1"} | payload
    at = "2026-01-15T15:05:43.123456Z"
    data = {"record_type": "event", "event_type": event, "id": event_id, "occurred_at": at, "payload": told}
    return telnyx_signed(json.dumps({"data": data}).encode(), key=key, what="events", headers=JSON)


def plivo_signed(body: bytes, *, token: str = PLIVO_TOKEN, what: str = "answer", method: str = "POST", query: str = "") -> Delivery:
    url = f"{PUBLIC_URL}/webhooks/plivo/{what}" + (f"?{query}" if query else "")
    nonce = "41947898459460134423"
    proof = plivo.signature_v3(token, method, url, body, nonce)
    return Delivery(method, url, {**FORM, "X-Plivo-Signature-V3": proof, "X-Plivo-Signature-V3-Nonce": nonce}, body)


def _without_plus(number: str) -> str:
    return number.removeprefix("+") if number.startswith("+1") else number


def plivo_fields(call: PhoneCall, status: str, **extra: str) -> bytes:
    told = {"CallUUID": call.sid, "CallStatus": status, "Direction": "inbound"}
    return urlencode(told | {"From": _without_plus(call.caller), "To": _without_plus(call.dialled)} | extra).encode()


def vonage_signed(body: bytes, *, secret: str = VONAGE_SECRET, what: str = "event", **claims: object) -> Delivery:
    held = {"iat": int(NOW), "jti": "j1", "iss": "Vonage", "payload_hash": hashlib.sha256(body).hexdigest(), "api_key": "a1b2c3d4"} | claims
    token = jwt.PyJWS().encode(json.dumps({name: value for name, value in held.items() if value is not None}).encode(), secret, "HS256")
    return Delivery("POST", f"{PUBLIC_URL}/webhooks/vonage/{what}", {**JSON, "Authorization": f"Bearer {token}"}, body)


def vonage_event(call: PhoneCall = CALL, *, secret: str = VONAGE_SECRET, **told: object) -> Delivery:
    about = {"uuid": "leg-1", "conversation_uuid": call.sid, "from": _without_plus(call.caller), "to": _without_plus(call.dialled)}
    return vonage_signed(json.dumps(about | told).encode(), secret=secret)


def vonage_ended(call: PhoneCall = CALL, status: str = "completed", **told: object) -> Delivery:
    at = {"start_time": "2026-01-15T15:04:09.000Z", "end_time": "2026-01-15T15:05:43.000Z", "duration": "94"}
    return vonage_event(call, status=status, direction="inbound", timestamp="2026-01-15T15:05:43.100Z", **at, **told)


def signalwire_form(body: bytes, *, key: str = SIGNALWIRE_KEY, what: str = "voice") -> Delivery:
    url = f"{PUBLIC_URL}/webhooks/signalwire/{what}"
    proof = signatures.twilio_signature(key, url, reading.form_fields(body))
    return Delivery("POST", url, {**FORM, "X-SignalWire-Signature": proof}, body)


def signalwire_json(payload: Mapping[str, object], *, key: str = SIGNALWIRE_KEY, query: str = "") -> Delivery:
    url, body = f"{PUBLIC_URL}/webhooks/signalwire/swml" + query, json.dumps(payload).encode()
    return Delivery("POST", url, {**JSON, "X-SignalWire-Signature": signalwire.body_signature(key, url, body)}, body)


def callrail_signed(body: bytes, *, key: str = CALLRAIL_KEY, what: str = "post-call") -> Delivery:
    return Delivery("POST", f"{PUBLIC_URL}/webhooks/callrail/{what}", {**JSON, "Signature": callrail.body_signature(key, body)}, body)


def callrail_body(call: PhoneCall, **told: object) -> bytes:
    named = {"customer_phone_number": call.caller, "tracking_phone_number": call.dialled}
    return json.dumps({"resource_id": call.sid, "id": 900000001, "direction": "inbound"} | named | told).encode()


def callrail_started(call: PhoneCall = CALL, *, key: str = CALLRAIL_KEY, **told: object) -> Delivery:
    rings = {"answered": False, "duration": "0", "call_type": "missed"}
    return callrail_signed(callrail_body(call, **rings | told), key=key, what="pre-call")


def callrail_ended(call: PhoneCall = CALL, status: str = "answered", **told: object) -> Delivery:
    """Without the field `answered`, so that the word decides."""
    return callrail_signed(callrail_body(call, duration="94", call_type=status, **told))


CASES = {
    "telnyx": Case(
        {"TELNYX_PUBLIC_KEY": f"{TELNYX_PUBLIC_KEY} {_public(TELNYX_OTHER_KEY)}"},
        lambda call=CALL, **extra: telnyx_signed(_twilio_like(call, "ringing", **extra)),
        lambda call=CALL, status="completed", **extra: telnyx_signed(_ended(call, status, **extra)),
        telnyx_signed,
        lambda: telnyx_signed(_twilio_like(CALL, "ringing"), key=TELNYX_STRANGE_KEY),
        lambda: telnyx_signed(_twilio_like(CALL, "ringing"), key=TELNYX_OTHER_KEY),
        has_time=True,
    ),
    "plivo": Case(
        {"PLIVO_AUTH_TOKEN": f"{PLIVO_TOKEN} {PLIVO_OTHER_TOKEN}"},
        lambda call=CALL, **extra: plivo_signed(plivo_fields(call, "ringing", Event="StartApp", **extra)),
        lambda call=CALL, status="completed", **extra: plivo_signed(plivo_fields(call, status, Event="Hangup", Duration="94", **extra)),
        plivo_signed,
        lambda: plivo_signed(plivo_fields(CALL, "ringing"), token="another-token"),
        lambda: plivo_signed(plivo_fields(CALL, "ringing"), token=PLIVO_OTHER_TOKEN),
        words=("COMPLETED", "No-Answer", "timeout", "CANCEL"),
    ),
    "vonage": Case(
        {"VONAGE_SIGNATURE_SECRET": f"{VONAGE_SECRET}, {VONAGE_OTHER_SECRET}"},
        lambda call=CALL, **extra: vonage_event(call, status="started", direction="inbound", **extra),
        vonage_ended,
        vonage_signed,
        lambda: vonage_event(secret="another-signature-secret-made-up-0001"),
        lambda: vonage_event(secret=VONAGE_OTHER_SECRET),
        has_time=True,
        proof=("authorization",),
        words=("COMPLETED", "Unanswered", "answered", "CANCELLED"),
    ),
    "signalwire": Case(
        {"SIGNALWIRE_SIGNING_KEY": f"{SIGNALWIRE_KEY} {SIGNALWIRE_OTHER_KEY}"},
        lambda call=CALL, **extra: signalwire_form(_twilio_like(call, "ringing", **extra)),
        lambda call=CALL, status="completed", **extra: signalwire_form(_ended(call, status, **extra)),
        signalwire_form,
        lambda: signalwire_form(_twilio_like(CALL, "ringing"), key="PSK_another"),
        lambda: signalwire_form(_twilio_like(CALL, "ringing"), key=SIGNALWIRE_OTHER_KEY),
    ),
    "callrail": Case(
        {"CALLRAIL_SIGNING_KEY": f"{CALLRAIL_KEY} {CALLRAIL_OTHER_KEY}"},
        callrail_started,
        callrail_ended,
        callrail_signed,
        partial(callrail_started, key="another-key"),
        partial(callrail_started, key=CALLRAIL_OTHER_KEY),
        words=("ABANDONED", "Missed", "answered", "voicemail"),
    ),
}


def without(delivery: Delivery, *parts: str) -> Delivery:
    """The same request without the headers whose names hold one of these."""
    return replace(delivery, headers={name: value for name, value in delivery.headers.items() if not any(p in name.lower() for p in parts)})

"""Requests of the hosted phone systems and of 3CX and Asterisk, proven with secrets of ours: for the tests and for `simulate`.

`sign` makes any body a genuine request; `new_sample` takes a recorded one and makes it a new call. Nothing here sends anything.
"""

from __future__ import annotations

import base64
import json
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from urllib.parse import urlsplit

import jwt

from bridge.providers import asterisk, quo, signatures
from bridge.sandbox import phone
from bridge.sandbox.phone import Delivery

# A setting's value by its name (Settings.value). Where it lists several secrets the first one signs.
Value = Callable[[str], str]

JSON = {"Content-Type": "application/json"}
# Where each of them names a call: the text behind one of these is what makes a recorded sample that call.
_CALL_IDS: Mapping[str, str] = {
    "3cx": r'"CallStartTimeUTC":\s*"([^"]+)"',
    "aircall": r'"data":\s*\{"id":\s*([0-9]+)',
    "asterisk": r"(?:uniqueid|linkedid)=([^&]+)",
    "bandwidth": r'"(?:callId|parentCallId)":\s*"([^"]+)"',
    "dialpad": r'"(?:call_id|master_call_id|entry_point_call_id)":\s*([0-9]+)',
    "quo": r'"(?:resource|object)":\s*\{"id":\s*"([^"]+)"',
    "ringcentral": r'"telephonySessionId":\s*"([^"]+)"',
}


def sign(
    provider: str, value: Value, url: str, body: bytes, *, now: float, what: str = "events", rng: random.Random | None = None
) -> Delivery:
    """A genuine request of `provider` with this body, at `url` (the bridge's base). Raises KeyError for one that is not here."""
    headers, sent = _SIGNERS[provider](value, body, now, rng or random.Random(1))
    return Delivery("POST", f"{url}/webhooks/{provider}/{what}", headers, sent)


def new_sample(provider: str, value: Value, url: str, name: str, *, now: float, rng: random.Random) -> Delivery:
    """A recorded sample (phone.sample_names) as it would be sent at `now`, about a call that nobody has heard of."""
    told = phone.sample(provider, name)
    body = _with_new_ids(provider, _payload(provider, told.body), now, rng)
    signer = "quo legacy" if name.startswith("legacy") else provider
    headers, sent = _SIGNERS[signer](value, body, now, rng)
    return replace(told, url=url + urlsplit(told.url).path, headers=headers, body=sent)


def _payload(provider: str, body: bytes) -> bytes:
    """What a sample says: for Dialpad the claims of its token."""
    if provider != "dialpad":
        return body
    claims: bytes = jwt.PyJWS().decode(body.strip(), options={"verify_signature": False})
    return claims


def _with_new_ids(provider: str, body: bytes, now: float, rng: random.Random) -> bytes:
    """Each call id replaced by another of its kind, alike where alike."""
    text = body.decode()
    for old in dict.fromkeys(re.findall(_CALL_IDS[provider], text)):
        text = text.replace(old, _fresh(old, now, rng))
    return text.encode()


def _fresh(old: str, now: float, rng: random.Random) -> str:
    if re.match(r"[0-9]{4}-", old):
        return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    if re.fullmatch(r"[0-9.]+", old):
        return f"{rng.randrange(10**8, 10**9)}{rng.randrange(10**6, 10**7)}" if "." not in old else f"{now:.0f}.{rng.randrange(10**6)}"
    return re.sub(r"[0-9a-f]{8,}$", "", old) + f"{rng.getrandbits(64):016x}"


def _first(value: Value, name: str) -> str:
    return re.split(r"[\s,]+", value(name).strip())[0]


def _bearer_in_body(value: Value, body: bytes, now: float, rng: random.Random) -> tuple[dict[str, str], bytes]:
    del now, rng
    return JSON, json.dumps(json.loads(body) | {"token": _first(value, "AIRCALL_WEBHOOK_TOKEN")}).encode()


def _verification_token(value: Value, body: bytes, now: float, rng: random.Random) -> tuple[dict[str, str], bytes]:
    del now, rng
    return JSON | {"Verification-Token": _first(value, "RINGCENTRAL_VALIDATION_TOKEN")}, body


def _token_as_body(value: Value, body: bytes, now: float, rng: random.Random) -> tuple[dict[str, str], bytes]:
    del now, rng
    return {"Content-Type": "application/jwt"}, jwt.PyJWS().encode(body, _first(value, "DIALPAD_SECRET"), algorithm="HS256").encode()


def _standard(value: Value, body: bytes, now: float, rng: random.Random) -> tuple[dict[str, str], bytes]:
    message_id, timestamp = f"msg_{rng.getrandbits(64):016x}", str(int(now))
    key = signatures.standard_secret(_first(value, "QUO_SECRET"))
    signature = signatures.standard_signature(key, message_id, timestamp, body)
    return JSON | {"webhook-id": message_id, "webhook-timestamp": timestamp, "webhook-signature": signature}, body


def _legacy(value: Value, body: bytes, now: float, rng: random.Random) -> tuple[dict[str, str], bytes]:
    del rng
    key, timestamp = signatures.standard_secret(_first(value, "QUO_LEGACY_KEY")), str(int(now * 1000))
    return JSON | {"openphone-signature": f"hmac;1;{timestamp};{quo.legacy_signature(key, timestamp, body)}"}, body


def _basic(value: Value, body: bytes, now: float, rng: random.Random) -> tuple[dict[str, str], bytes]:
    del now, rng
    credentials = f"{value('BANDWIDTH_USER').strip()}:{_first(value, 'BANDWIDTH_PASSWORD')}"
    return JSON | {"Authorization": "Basic " + base64.b64encode(credentials.encode()).decode()}, body


def _pbx(value: Value, body: bytes, now: float, rng: random.Random) -> tuple[dict[str, str], bytes]:
    del rng
    timestamp = str(int(now))
    signature = asterisk.signature(_first(value, "ASTERISK_HMAC_SECRET"), timestamp, body)
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    return form | {"X-PBX-Timestamp": timestamp, "X-PBX-Signature": signature}, body


def _bearer(value: Value, body: bytes, now: float, rng: random.Random) -> tuple[dict[str, str], bytes]:
    del now, rng
    return JSON | {"Authorization": f"Bearer {_first(value, 'THREECX_TOKEN')}"}, body


_SIGNERS: Mapping[str, Callable[[Value, bytes, float, random.Random], tuple[dict[str, str], bytes]]] = {
    "3cx": _bearer,
    "aircall": _bearer_in_body,
    "asterisk": _pbx,
    "bandwidth": _basic,
    "dialpad": _token_as_body,
    "quo": _standard,
    "quo legacy": _legacy,
    "ringcentral": _verification_token,
}

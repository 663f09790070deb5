"""Requests of Plivo, Vonage, SignalWire and CallRail, proven with secrets of ours: for the tests and for `simulate`.

The shape is that of `hosted`. Telnyx alone has the key that signs: resigned.py plays it with a test key pair. Nothing here sends anything.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

import jwt

from bridge.providers import callrail, plivo, reading, signalwire, signatures
from bridge.sandbox import phone
from bridge.sandbox.phone import Delivery

Value = Callable[[str], str]  # a setting's value by its name (Settings.value); where it lists several secrets the first one signs

FORM = {"Content-Type": "application/x-www-form-urlencoded"}
JSON = {"Content-Type": "application/json"}
# Where each of them names a call: the text behind one of these, in body or query, is what makes a recorded sample that call.
_CALL_IDS: Mapping[str, str] = {
    "plivo": r"CallUUID=([^&]+)",
    "vonage": r"conversation_uuid(?:\":\s*\"|=)([^\"&]+)",
    "signalwire": r"(?:CallSid=|\"call_id\":\s*\")([^\"&]+)",
    "callrail": r'"resource_id":\s*"([^"]+)"',
}


def sign(
    provider: str,
    value: Value,
    url: str,
    body: bytes,
    *,
    now: float,
    what: str = "events",
    rng: random.Random | None = None,
    signed_url: str = "",
) -> Delivery:
    """A genuine POST of `provider` with this body, at `url` (the bridge's base). Raises KeyError for one that cannot be played.

    `signed_url` is the base that the bridge believes to have (PUBLIC_URL), where it differs: Plivo and SignalWire sign it.
    """
    told = Delivery("POST", f"{url}/webhooks/{provider}/{what}", FORM if provider == "plivo" else _type_of(body), body)
    return _signed(provider, value, told, signed_url or url, url, now, rng or random.Random(1))


def new_sample(provider: str, value: Value, url: str, name: str, *, now: float, rng: random.Random, signed_url: str = "") -> Delivery:
    """A recorded sample (phone.sample_names) as it would be sent at `now`, about a call that nobody has heard of."""
    told = phone.sample(provider, name)
    parts = urlsplit(told.url)
    old = re.findall(_CALL_IDS[provider], f"{parts.query}&{told.body.decode()}")
    body, query = told.body.decode(), parts.query
    for one in dict.fromkeys(old):
        fresh = _fresh(one, rng)
        body, query = body.replace(one, fresh), query.replace(one, fresh)
    address = url + parts.path + (f"?{query}" if query else "")
    headers = {name: text for name, text in told.headers.items() if name in {"Content-Type", "User-Agent"}}
    return _signed(provider, value, Delivery(told.method, address, headers, body.encode()), signed_url or url, url, now, rng)


def _type_of(body: bytes) -> Mapping[str, str]:
    return JSON if body.lstrip().startswith((b"{", b"[")) else FORM


def _signed(provider: str, value: Value, told: Delivery, signed_url: str, url: str, now: float, rng: random.Random) -> Delivery:
    address = signed_url + told.url.removeprefix(url)
    return Delivery(told.method, told.url, {**told.headers, **_PROOFS[provider](value, told, address, now, rng)}, told.body)


def _fresh(old: str, rng: random.Random) -> str:
    """Another id of the same kind: `CON-` and `CAL` in front stay, a UUID stays one."""
    digits = f"{rng.getrandbits(128):032x}"
    dashed = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
    return (re.match(r"CON-|CAL|", old) or [""])[0] + (dashed if "-" in old else digits)


def _first(value: Value, name: str) -> str:
    return re.split(r"[\s,]+", value(name).strip())[0]


def _plivo(value: Value, told: Delivery, address: str, now: float, rng: random.Random) -> dict[str, str]:
    del now
    nonce = str(rng.randrange(10**19, 10**20))
    proof = plivo.signature_v3(_first(value, plivo.TOKEN.name), told.method, address, told.body, nonce)
    return {"X-Plivo-Signature-V3": proof, "X-Plivo-Signature-Ma-V3": proof, "X-Plivo-Signature-V3-Nonce": nonce}


def _vonage(value: Value, told: Delivery, address: str, now: float, rng: random.Random) -> dict[str, str]:
    del address
    digest = hashlib.sha256(told.body).hexdigest()
    claims = {"iat": int(now), "jti": f"{rng.getrandbits(128):032x}", "iss": "Vonage", "payload_hash": digest}
    token = jwt.PyJWS().encode(json.dumps(claims).encode(), _first(value, "VONAGE_SIGNATURE_SECRET"), algorithm="HS256")
    return {"Authorization": f"Bearer {token}"}


def _signalwire(value: Value, told: Delivery, address: str, now: float, rng: random.Random) -> dict[str, str]:
    del now, rng
    key = _first(value, signalwire.KEY.name)
    if told.headers.get("Content-Type") == JSON["Content-Type"]:
        return {"X-SignalWire-Signature": signalwire.body_signature(key, address, told.body)}
    return {"X-SignalWire-Signature": signatures.twilio_signature(key, address, reading.form_fields(told.body))}


def _callrail(value: Value, told: Delivery, address: str, now: float, rng: random.Random) -> dict[str, str]:
    del address, now, rng
    return {"Signature": callrail.body_signature(_first(value, callrail.KEY.name), told.body)}


_PROOFS: Mapping[str, Callable[[Value, Delivery, str, float, random.Random], dict[str, str]]] = {
    "plivo": _plivo,
    "vonage": _vonage,
    "signalwire": _signalwire,
    "callrail": _callrail,
}

"""Samples made new: the same request about a new call, signed with a secret of ours for the bridge that is to get it."""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from urllib.parse import urlencode, urlsplit

from bridge.providers import reading, signatures
from bridge.sandbox import phone
from bridge.sandbox.phone import Delivery, GenericPhone, TwilioPhone
from bridge.sandbox.scenarios import Phone

# Where signed JSON and Amazon Connect name a call.
_CALL_IDS = {"call_id", "parent_call_id", "ContactId", "InitialContactId", "contactId", "initialContactId"}


def new_sample(line: Phone, name: str, rng: random.Random) -> Delivery:
    """A recorded sample (phone.sample_names) as `line` would send it today, about a call that nobody has heard of."""
    if isinstance(line, TwilioPhone):
        return sign_twilio(line, phone.new_ids(phone.sample("twilio", name), rng))
    told = phone.sample("generic", name)
    signed = line.sign(_with_new_ids(told.body, rng), f"msg_{rng.getrandbits(64):016x}")
    return replace(signed, url=line.url + urlsplit(told.url).path)


def sign_twilio(line: TwilioPhone, told: Delivery) -> Delivery:
    """The same request with the line's address and signature: over the form's fields, or over the URL alone for GET and JSON."""
    _, _, path, query, _ = urlsplit(told.url)
    is_form = told.method == "POST" and "json" not in told.headers.get("Content-Type", "")
    if told.method == "POST" and not is_form:
        query = _with_digest(query, told.body)
    address = f"{path}?{query}" if query else path
    fields = reading.form_fields(told.body) if is_form else ()
    headers = {name: value for name, value in told.headers.items() if not name.startswith("X-Twilio")}
    signature = signatures.twilio_signature(line.token, (line.signed_url or line.url) + address, fields)
    headers |= {"I-Twilio-Idempotency-Token": f"{line.rng.getrandbits(128):032x}", "X-Twilio-Signature": signature}
    return Delivery(told.method, line.url + address, headers, told.body)


def _with_digest(query: str, body: bytes) -> str:
    """The query with the digest of this body in place of the recorded one: it binds a body that is no form to the signed URL."""
    others = [part for part in query.split("&") if part and not part.startswith("bodySHA256=")]
    return "&".join([*others, urlencode({"bodySHA256": hashlib.sha256(body).hexdigest()})])


def _with_new_ids(body: bytes, rng: random.Random) -> bytes:
    """Each call id replaced by a random one, alike where alike, wherever it stands in the body."""
    fresh = {old: f"sim-{rng.getrandbits(64):016x}" for old in dict.fromkeys(_call_ids(json.loads(body)))}
    if not fresh:
        return body
    either = "|".join(re.escape(old) for old in sorted(fresh, key=len, reverse=True))
    return re.sub(either, lambda match: fresh[match[0]], body.decode()).encode()


def _call_ids(part: object) -> Iterator[str]:
    if isinstance(part, Mapping):
        for name, value in part.items():
            if name in _CALL_IDS and isinstance(value, str) and value:
                yield value
            else:
                yield from _call_ids(value)


def line_of(provider: str, secret: str, url: str, public_url: str, rng: random.Random) -> Phone:
    """The made-up phone system that sends to `url` what it signs for `public_url`. Raises KeyError for a provider that it cannot play."""
    match provider:
        case "twilio":
            return TwilioPhone(url, secret, rng, signed_url=public_url)
        case "generic":
            return GenericPhone(url, re.split(r"[\s,]+", secret.strip())[0])
    raise KeyError(provider)

"""Samples made new: the same request about a new call, signed with a secret of ours for the bridge that is to get it.

Every registered provider is played: Twilio and the generic one make calls of their own, the others repeat their recorded samples.
"""

from __future__ import annotations

import base64
import hashlib
import json
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias
from urllib.parse import urlencode, urlsplit

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from bridge.providers import reading, registry, signatures, telnyx
from bridge.sandbox import carriers, hosted, phone
from bridge.sandbox.phone import Delivery, GenericPhone, TwilioPhone
from bridge.sandbox.scenarios import Phone

Value: TypeAlias = Callable[[str], str]  # a setting's value by its name (Settings.value); of several secrets the first one signs

# The samples that make up one visit, in the order in which they are sent: all name one call and one caller.
VISITS: Mapping[str, tuple[str, ...]] = {
    "telnyx": ("call-initiated", "call-answered", "call-gather-ended", "call-hangup", "call-recording-saved"),
    "plivo": ("answer", "getinput-dtmf", "hangup", "record"),
    "vonage": ("answer", "event-started", "event-input", "event-completed", "event-record"),
    "signalwire": ("cxml-voice", "cxml-gather", "cxml-status-completed"),
    "callrail": ("pre-call", "post-call", "call-modified"),
    "aircall": ("call-created", "call-ended"),
    "asterisk": ("dialplan-curl", "end"),
    "bandwidth": ("initiate", "gather", "disconnect"),
    "dialpad": ("call-ringing", "call-hangup"),
    "quo": ("call-completed",),
    "ringcentral": ("session-setup", "session-answered", "session-disconnected"),
    "3cx": ("report-call",),
}
_QUO_LEGACY = "legacy-call-completed"
_HOSTED = frozenset({"3cx", "aircall", "asterisk", "bandwidth", "dialpad", "quo", "ringcentral"})
_TELNYX_CALL = re.compile(r"(?:\"call_session_id\":\s*\"|CallSid=)([^\"&]+)")

# Where signed JSON and Amazon Connect name a call.
_CALL_IDS = {"call_id", "parent_call_id", "ContactId", "InitialContactId", "contactId", "initialContactId"}


@dataclass(frozen=True, slots=True)
class RecordedPhone:
    """A phone system that says what it once said. `url` is where requests go, `signed_url` what the bridge calls itself (PUBLIC_URL).

    `value` gives the settings with the secrets that sign; for Telnyx, which alone has its key, `telnyx_seed` is that of a test key pair.
    """

    provider: str
    value: Value
    url: str
    signed_url: str
    telnyx_seed: bytes = b""

    def visit(self, rng: random.Random) -> tuple[Delivery, ...]:
        """The deliveries about one new call, in order. Raises KeyError for a provider without a visit in VISITS."""
        is_legacy = self.provider == "quo" and not self.value("QUO_SECRET").strip()
        names = (_QUO_LEGACY,) if is_legacy else VISITS[self.provider]
        seed, now = rng.getrandbits(64), time.time()
        return tuple(self.sample(name, random.Random(seed), now) for name in names)  # one seed: one call id in all of them

    def sample(self, name: str, rng: random.Random, now: float) -> Delivery:
        """A recorded sample as it would be sent at `now` (seconds since the epoch), about the new call that `rng` draws."""
        if self.provider == "telnyx":
            return self._telnyx(phone.sample("telnyx", name), rng, now)
        if self.provider in _HOSTED:
            return hosted.new_sample(self.provider, self.value, self.url, name, now=now, rng=rng)
        return carriers.new_sample(self.provider, self.value, self.url, name, now=now, rng=rng, signed_url=self.signed_url)

    def _telnyx(self, told: Delivery, rng: random.Random, now: float) -> Delivery:
        text = told.body.decode()
        for old in dict.fromkeys(_TELNYX_CALL.findall(text)):
            text = text.replace(old, f"sim-{rng.getrandbits(64):016x}")
        timestamp, body = str(int(now)), text.encode()
        proof = Ed25519PrivateKey.from_private_bytes(self.telnyx_seed).sign(f"{timestamp}|".encode() + body)
        signed = {telnyx.TIMESTAMP: timestamp, telnyx.SIGNATURE: base64.b64encode(proof).decode()}
        return Delivery(told.method, self.url + urlsplit(told.url).path, {**told.headers, **signed}, body)


Line: TypeAlias = Phone | RecordedPhone


def telnyx_public_key(seed: bytes) -> str:
    """What TELNYX_PUBLIC_KEY has to hold for a test key pair. Raises ValueError unless the seed has 32 bytes."""
    return base64.b64encode(Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()).decode()


def signing_settings(provider: str, name: str = "") -> tuple[str, ...]:
    """The settings that may hold what signs a sample or, without a `name`, a visit. One has to be set; its first secret signs."""
    if provider == "quo":
        either = ("QUO_SECRET", "QUO_LEGACY_KEY")
        return either if not name else either[1:] if name == _QUO_LEGACY else either[:1]
    return (next(spec.name for spec in registry.adapter(provider).settings if spec.switches_on),)


def new_sample(line: Line, name: str, rng: random.Random) -> Delivery:
    """A recorded sample (phone.sample_names) as `line` would send it today, about a call that nobody has heard of."""
    if isinstance(line, RecordedPhone):
        return line.sample(name, rng, time.time())
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


def line_of(provider: str, value: Value, url: str, public_url: str, rng: random.Random, *, telnyx_seed: bytes = b"") -> Line:
    """The made-up phone system that sends to `url` what it signs for `public_url`. Raises KeyError for a provider that it cannot play."""
    match provider:
        case "twilio":
            return TwilioPhone(url, value("TWILIO_AUTH_TOKEN").strip(), rng, signed_url=public_url)
        case "generic":
            return GenericPhone(url, re.split(r"[\s,]+", value("GENERIC_SECRET").strip())[0])
        case _ if provider in VISITS:
            return RecordedPhone(provider, value, url, public_url, telnyx_seed)
    raise KeyError(provider)

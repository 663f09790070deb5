"""The proofs that a webhook comes from its provider, shared by all adapters.

Each function either returns or raises `Refused`: 401 where the proof is missing, 403 where it is wrong. Whatever an attacker sends,
nothing else is raised, and every comparison takes constant time.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from bridge.errors import Refused

MOST_ENTRIES = 32  # of one header: comparing thousands would cost us time, and a stranger nothing; rotated secrets make two or three
WINDOW_S = 300  # how far a signature's time may lie from ours, both ways; the standardwebhooks library takes the same

Fields: TypeAlias = Sequence[tuple[bytes, bytes]]  # a form's names and values, decoded to bytes, in order


def same(given: str, expected: str) -> bool:
    """Compare in constant time. Any text is allowed, also what no encoding can hold."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode("utf-8", "replace"))


# ---- Standard Webhooks 1.0.0: https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md


def standard_secret(text: str) -> bytes:
    """The key behind `whsec_…` (base64, padding optional). Raises ValueError, without the secret, below the 24 bytes of the spec."""
    encoded = text.strip().removeprefix("whsec_").rstrip("=")
    try:
        key = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("is not whsec_ and base64") from None
    if len(key) < 24:
        raise ValueError("is shorter than 24 bytes")
    return key


def standard_signature(key: bytes, message_id: str, timestamp: str, body: bytes) -> str:
    """The `v1,…` entry of a message; its id and time are covered as well as its body."""
    signed = f"{message_id}.{timestamp}.".encode("utf-8", "replace") + body
    return "v1," + base64.b64encode(hmac.digest(key, signed, "sha256")).decode()


def verify_standard(headers: Mapping[str, str], body: bytes, keys: Iterable[bytes], *, now: float, setting: str) -> str:
    """Prove a Standard Webhooks message; the answer is its `webhook-id`, the same for each retry.

    Any key and any `v1` entry may match, so that secrets can be rotated; entries of other versions (`v1a`, Ed25519) and broken ones are
    passed over. `setting` is the one that a refusal names.
    """
    message_id, timestamp, given = (headers.get(f"webhook-{name}", "") for name in ("id", "timestamp", "signature"))
    if not (message_id and timestamp and given):
        raise Refused("webhook-id, webhook-timestamp or webhook-signature is missing.", reason="signature missing", status=401)
    if not re.fullmatch(r"[0-9]{1,15}", timestamp):
        raise Refused("webhook-timestamp is no time in seconds.", reason="signature malformed")
    expected = [standard_signature(key, message_id, timestamp, body) for key in keys]
    if not any([same(entry, own) for entry in given.split(None, MOST_ENTRIES)[:MOST_ENTRIES] for own in expected]):  # noqa: C419 - a list: every pair is compared
        raise Refused(f"No v1 signature matches; compare {setting} with the sender's secret.", reason="signature wrong")
    if abs(now - int(timestamp)) > WINDOW_S:
        raise Refused(f"Signed more than {WINDOW_S} s away from our time; compare the clocks.", reason="signature stale")
    return message_id


# ---- Twilio: https://www.twilio.com/docs/usage/security#validating-requests

TWILIO_HASHES: Mapping[str, str] = {"HMAC_SHA1": "sha1", "HMAC_SHA256": "sha256"}
_PORTS = {"https": "443", "http": "80"}


def twilio_signature(secret: str, url: str, fields: Fields = (), *, algorithm: str = "HMAC_SHA1") -> str:
    """What stands in X-Twilio-Signature for a URL and the fields of a form body (none for GET and JSON).

    Names in byte order, the distinct values of each in byte order, nothing between them.
    """
    return _twilio_signature(secret, url, _joined(fields), algorithm)


def _twilio_signature(secret: str, url: str, joined: bytes, algorithm: str) -> str:
    signed = url.encode("utf-8", "replace") + joined
    return base64.b64encode(hmac.digest(secret.encode(), signed, TWILIO_HASHES[algorithm])).decode()


def _joined(fields: Fields) -> bytes:
    return b"".join(name + value for name, value in sorted(set(fields)))


def twilio_readings(fields: Fields) -> tuple[bytes, ...]:
    """What may be signed behind the URL: the fields as sent and, where bytes are no UTF-8, as other signers read them.

    Made once for all keys and URLs, since thousands of fields take longer to sort than to hash.
    """
    return tuple(_joined(reading) for reading in _readings(fields))


def twilio_proves(given: str, secret: str, urls: Iterable[str], readings: Sequence[bytes], *, algorithm: str = "HMAC_SHA1") -> bool:
    """Whether the signature covers one of these `twilio_readings` under one of the spellings of the URL."""
    return any(
        [same(given, _twilio_signature(secret, url, joined, algorithm)) for url in urls for joined in readings]  # noqa: C419 - a list: every pair is compared
    )


def twilio_urls(url: str, *, is_get: bool) -> list[str]:
    """The spellings of one URL that Twilio may have signed, the literal one first.

    With and without port (https://github.com/twilio/twilio-csharp/issues/44); never with a user and password, which Twilio leaves out.
    On GET also with `@ : '` unescaped in the query, as it signs them but sends them escaped
    (https://github.com/twilio/twilio-node/pull/621, https://github.com/twilio/twilio-node/issues/1059).
    """
    scheme, _, rest = url.partition("://")
    authority, slash, tail = rest.partition("/")
    host = authority.rpartition("@")[2]
    bare = re.sub(r":[0-9]*$", "", host)
    with_port = host if bare != host else f"{host}:{_PORTS.get(scheme, '443')}"
    urls = [f"{scheme}://{authority_}{slash}{tail}" for authority_ in dict.fromkeys((host, bare, with_port))]
    if not is_get or "?" not in tail:
        return urls
    return list(dict.fromkeys([*urls, *map(_with_marks, urls)]))


def body_digest_matches(query_fields: Fields, body: bytes) -> bool:
    """Whether the `bodySHA256` in a signed URL is the digest of this body. Without it a body that is no form is bound to nothing."""
    given = [value for name, value in query_fields if name == b"bodySHA256"]
    return len(given) == 1 and hmac.compare_digest(given[0].lower(), hashlib.sha256(body).hexdigest().encode())


def _with_marks(url: str) -> str:
    path, mark, query = url.partition("?")
    for escape, char in (("%40", "@"), ("%3A", ":"), ("%3a", ":"), ("%27", "'")):
        query = query.replace(escape, char)
    return path + mark + query


def _readings(fields: Fields) -> Iterator[Fields]:
    """The fields as sent; where bytes are no UTF-8, also as each of the texts that a signer may have seen in them."""
    yield fields
    odd = {part for pair in fields for part in pair if not _is_utf8(part)}
    if odd:
        for read in (_as_latin_1, _as_replaced):
            seen = {part: read(part) for part in odd}
            yield [(seen.get(name, name), seen.get(value, value)) for name, value in fields]


def _is_utf8(part: bytes) -> bool:
    try:
        part.decode()
    except UnicodeDecodeError:
        return False
    return True


def _as_latin_1(part: bytes) -> bytes:
    return part.decode("latin-1").encode()


def _as_replaced(part: bytes) -> bytes:
    return part.decode("utf-8", "replace").encode()

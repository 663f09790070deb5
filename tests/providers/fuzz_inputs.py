"""What the fuzzing program sends: bytes from the fuzzer become a request to one of the phone systems' webhooks.

The same bytes always make the same request, so a finding is a file. `Attempt` says what is known of it beforehand: whether it was signed
with a secret that the bridge has, and which genuine request it was before it was changed.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote, urlencode, urlsplit

import jwt

from bridge.errors import Refused
from bridge.intake.webhook import BODY_LIMIT
from bridge.providers import callrail, plivo, reading, signalwire, signatures
from bridge.providers.base import WebhookRequest
from bridge.sandbox import hosted
from bridge.sandbox.phone import Delivery, sample, sample_names
from tests.providers import carriers
from tests.providers.hosted_cases import ENVIRONMENT, STRANGER
from tests.providers.support import NOW, PUBLIC_URL, SECRET, SHARED_KEY_ID, TOKEN, received
from tests.providers.test_contract import CASES

ORDER = tuple(CASES)
IN_QUERY = {"twilio", "plivo", "vonage", "signalwire"}  # they may be told to send GET
QUERY_LIMIT = 8000  # limit_request_line in gunicorn.conf.py lets no more through
METHODS = ("GET", "POST", "HEAD", "PUT", "", "get", "PO\u017fT")
TYPES = (
    "application/json",
    "application/x-www-form-urlencoded",
    "application/x-www-form-urlencoded; charset=latin-1",
    "",
    "text/plain",
    "multipart/form-data; boundary=x",
)
HEADERS = sorted({*carriers.HEADERS, "content-type", "x-twilio-signature", "x-twilio-webhooks-signature-settings", "x-pbx-timestamp"} | {
    "i-twilio-idempotency-token", "webhook-id", "webhook-timestamp", "webhook-signature", "x-pbx-signature", "x-plivo-signature-ma-v3",
    "verification-token", "validation-token", "openphone-signature", "x-forwarded-proto", "content-encoding", "transfer-encoding",
})  # fmt: skip
# Words that readers of numbers, times and addresses stumble over.
WORDS = (
    "", " ", "\x00", "\ud800", "\u0663\u0663\u0663\u0663", "anonymous", "+266696687", "+1555" + "0" * 40, "sip:@",
    "sip:+15550101234@h;user=phone", "tel:+1;ext=9",
    "client:", "1e999", "-1", "0", "NaN", "Infinity", "9" * 400, "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999-23:59", "253402300799",
    "99999999999", "9999999999999", "Thu, 32 Jan 2026 99:99:99 +9999", "Thu, 15 Jan 0001 00:00:00 -0000", "2026-01-15T15:04:05+14:00",
    "PT9999H999999M99999999S", "99:99:99", "http://[", "https://example.com/\r\nX: y", "javascript:1", "hangup", "COMPLETED", "inbound",
    "outgoing", "true", "null", "[Name]", "\u200f\u202e+1 555", "{{contact.name}}", "<b>", "CA" + "0" * 300,
)  # fmt: skip
VALUES: tuple[object, ...] = (
    None,
    True,
    False,
    0,
    -1,
    10**30,
    1.5,
    float("inf"),
    [],
    {},
    [None],
    [[]],
    {"": None},
    ["a", {"url": "https://x"}],
)


def environment(*, strange: bool = False) -> dict[str, str]:
    """The settings of all adapters, with the secrets of the vectors; `strange`: with others of the same kind."""
    told = {name: text for case in CASES.values() for name, text in case.environment.items()}
    return told | _STRANGE if strange else told


_STRANGE = {
    **dict.fromkeys(("TWILIO_AUTH_TOKEN", "PLIVO_AUTH_TOKEN", "VONAGE_SIGNATURE_SECRET", "SIGNALWIRE_SIGNING_KEY"), STRANGER),
    **dict.fromkeys(("CALLRAIL_SIGNING_KEY", "THREECX_TOKEN", "AIRCALL_WEBHOOK_TOKEN", "ASTERISK_HMAC_SECRET"), STRANGER),
    **dict.fromkeys(("BANDWIDTH_PASSWORD", "DIALPAD_SECRET", "RINGCENTRAL_VALIDATION_TOKEN"), STRANGER),
    **dict.fromkeys(("GENERIC_SECRET", "QUO_SECRET", "QUO_LEGACY_KEY"), "whsec_" + "QUJD" * 10),
    "TWILIO_SHARED_KEYS": json.dumps({SHARED_KEY_ID: STRANGER}),
    "TELNYX_PUBLIC_KEY": carriers._public(carriers.TELNYX_STRANGE_KEY),
}


@dataclass(frozen=True)
class Attempt:
    provider: str
    request: WebhookRequest
    is_signed: bool  # by us, for exactly this request, so it has to be proven
    original: WebhookRequest | None = None  # the genuine request that was changed afterwards
    through_app: bool = False


class Draw:
    """Decisions, read from the front of the fuzzer's bytes; zeros when they are used up."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def byte(self) -> int:
        value = self._data[self._at] if self._at < len(self._data) else 0
        self._at += 1
        return value

    def below(self, limit: int) -> int:
        return (self.byte() << 8 | self.byte()) % max(limit, 1)

    def one(self, choices):
        return choices[self.below(len(choices))]

    def some(self) -> bytes:
        length = self.byte()
        taken = self._data[self._at : self._at + length]
        self._at += length
        return taken

    def text(self) -> str:
        return self.some().decode("latin-1")

    def rest(self) -> bytes:
        return self._data[self._at :]


def attempt(data: bytes, now: float) -> Attempt:
    """The request that these bytes stand for. Its signature, where it has one, is of `now`."""
    draw = Draw(data)
    how, provider, through_app = draw.byte() % 8, ORDER[draw.byte() % len(ORDER)], draw.byte() > 250
    if through_app is False:
        now = NOW
    if how == 0:
        made = Attempt(provider, anything(draw, provider, now), is_signed=False)
    elif how <= 2:
        made = signed(provider, draw.one(METHODS[:2]), draw.text(), draw.one(TYPES), draw.rest(), now)
    elif how <= 5:
        made = changed_and_signed(draw, provider, now)
    elif how == 6:
        genuine = recorded(draw, provider)
        made = Attempt(provider, tampered(draw, genuine), is_signed=False, original=genuine)
    else:
        genuine = changed_and_signed(draw, provider, now).request
        made = Attempt(provider, tampered(draw, genuine), is_signed=False, original=genuine)
    is_too_long = len(made.request.body) > BODY_LIMIT  # no adapter ever sees such a body, so the door has to refuse it
    return replace(made, through_app=through_app or is_too_long)


def anything(draw: Draw, provider: str, now: float) -> WebhookRequest:
    headers = {draw.one(HEADERS): draw.one((*TYPES, draw.text())) for _ in range(draw.byte() % 6)}
    path, query = draw.one((f"/webhooks/{provider}", f"/webhooks/{provider}/voice", "/webhooks/" + draw.text(), draw.text())), draw.text()
    return WebhookRequest(draw.one(METHODS), path, query, headers, inflated(draw, draw.rest()), PUBLIC_URL, now)


# ---- Genuine requests


def recorded(draw: Draw, provider: str) -> WebhookRequest:
    """A recorded request, at the time at which it was signed."""
    vectors = [vector for vector in _RECORDED if vector["provider"] == provider]
    if not vectors:
        return received(sample(provider, draw.one(sample_names(provider))))
    vector = draw.one(vectors)
    return received(Delivery(vector["method"], vector["url"], vector["headers"], vector["body"].encode()), now=vector["now"])


def changed_and_signed(draw: Draw, provider: str, now: float) -> Attempt:
    """A sample with a few other values, signed as if the phone system had sent it so."""
    told = sample(provider, draw.one(sample_names(provider)))
    body = hosted._payload(provider, told.body) if provider == "dialpad" else told.body
    kind = told.headers.get("Content-Type", "")
    if told.method == "GET":
        body, kind = urlsplit(told.url).query.encode(), TYPES[1]
    for _ in range(1 + draw.byte() % 4):
        body = changed_body(draw, body)
    what = urlsplit(told.url).path.split("/webhooks/", 1)[-1].partition("/")[2]
    return signed(provider, told.method, what, kind, body, now)


def signed(provider: str, method: str, what: str, kind: str, body: bytes, now: float) -> Attempt:
    """This body as the phone system would send it: proven, whatever stands in it."""
    path = f"/webhooks/{provider}/{quote(what)}".rstrip("/")
    query = ""
    if method == "GET" and provider in IN_QUERY:
        query, body = quote(body, safe="&=%+")[:QUERY_LIMIT], b""
    request = WebhookRequest(
        "GET" if query or (method == "GET" and not body) else "POST", path, query, {"content-type": kind}, body, PUBLIC_URL, now
    )
    try:
        return _SIGNERS[provider](request) if provider in _SIGNERS else _hosted(provider, request)
    except Refused:  # Plivo's signer counts parameters, as the bridge does
        return Attempt(provider, request, is_signed=False)


def _with(request: WebhookRequest, provider: str, *, body: bytes | None = None, sure: bool = True, **headers: str) -> Attempt:
    named = {**request.headers, **{name.replace("_", "-"): value for name, value in headers.items()}}
    return Attempt(provider, replace(request, headers=named, body=request.body if body is None else body), is_signed=sure)


def _is_form(request: WebhookRequest) -> bool:
    return request.method == "GET" or request.headers["content-type"].partition(";")[0] in {"", "application/x-www-form-urlencoded"}


def _twilio(request: WebhookRequest) -> Attempt:
    if not _is_form(request):
        request = replace(request, query=f"bodySHA256={hashlib.sha256(request.body).hexdigest()}")
    fields = reading.form_fields(request.body) if _is_form(request) and request.method == "POST" else ()
    return _with(request, "twilio", x_twilio_signature=signatures.twilio_signature(TOKEN, request.url, fields))


def _generic(request: WebhookRequest) -> Attempt:
    at = str(int(request.now))
    proof = signatures.standard_signature(signatures.standard_secret(SECRET), "msg_1", at, request.body)
    return _with(request, "generic", webhook_id="msg_1", webhook_timestamp=at, webhook_signature=proof)


def _telnyx(request: WebhookRequest) -> Attempt:
    at, post = str(int(request.now)), replace(request, method="POST")
    proof = base64.b64encode(carriers.TELNYX_KEY.sign(f"{at}|".encode() + post.body)).decode()
    return _with(post, "telnyx", telnyx_timestamp=at, telnyx_signature_ed25519=proof)


def _plivo(request: WebhookRequest) -> Attempt:
    proof = plivo.signature_v3(carriers.PLIVO_TOKEN, request.method, request.url, request.body, "1")
    return _with(request, "plivo", x_plivo_signature_v3=proof, x_plivo_signature_v3_nonce="1")


def _vonage(request: WebhookRequest) -> Attempt:
    claims = {"iat": int(request.now), "payload_hash": hashlib.sha256(request.body).hexdigest()}
    token = jwt.PyJWS().encode(json.dumps(claims).encode(), carriers.VONAGE_SECRET, algorithm="HS256")
    return _with(request, "vonage", authorization=f"Bearer {token}")


def _signalwire(request: WebhookRequest) -> Attempt:
    key, fields = carriers.SIGNALWIRE_KEY, reading.form_fields(request.body) if request.method == "POST" else ()
    by_form = _is_form(request)
    proof = signatures.twilio_signature(key, request.url, fields) if by_form else signalwire.body_signature(key, request.url, request.body)
    return _with(request, "signalwire", x_signalwire_signature=proof)


def _callrail(request: WebhookRequest) -> Attempt:
    return _with(request, "callrail", signature=callrail.body_signature(carriers.CALLRAIL_KEY, request.body))


def _aircall(request: WebhookRequest) -> Attempt:
    """The token stands in the body, so only a body that can be read proves anything."""
    token = json.dumps(ENVIRONMENT["aircall"]["AIRCALL_WEBHOOK_TOKEN"]).encode()
    body = b'{"token":' + token + b"," + request.body.lstrip().removeprefix(b"{")
    return _with(request, "aircall", body=body, sure=False)


def _hosted(provider: str, request: WebhookRequest) -> Attempt:
    told = hosted.sign(provider, ENVIRONMENT[provider].__getitem__, PUBLIC_URL, request.body, now=request.now)
    headers = {name.lower(): value for name, value in told.headers.items()}
    return Attempt(provider, replace(request, method="POST", headers=headers, body=told.body), is_signed=True)


_SIGNERS: dict[str, Callable[[WebhookRequest], Attempt]] = {
    "twilio": _twilio,
    "generic": _generic,
    "telnyx": _telnyx,
    "plivo": _plivo,
    "vonage": _vonage,
    "signalwire": _signalwire,
    "callrail": _callrail,
    "aircall": _aircall,
}


# ---- Changes


def tampered(draw: Draw, request: WebhookRequest) -> WebhookRequest:
    """The request with one to three of its parts changed, after it was signed."""
    for _ in range(1 + draw.byte() % 3):
        match draw.byte() % 8:
            case 0:
                request = replace(request, body=changed_body(draw, request.body))
            case 6:  # what another call says, where the provider looks on GET
                query = _other_call(request.body or request.query.encode("utf-8", "replace"))[:QUERY_LIMIT]
                request = replace(request, method="GET", query=query.decode("latin-1"))
            case 7:
                request = replace(request, body=_other_call(request.body))
            case 1:
                request = replace(request, method=draw.one(METHODS))
            case 2:
                request = replace(
                    request, query=changed_body(draw, request.query.encode("utf-8", "replace"))[:QUERY_LIMIT].decode("latin-1")
                )
            case 3:
                request = replace(request, headers={**request.headers, "content-type": draw.one(TYPES)})
            case 4:
                name = draw.one(sorted(request.headers) + HEADERS)
                value = changed_bytes(draw, request.headers.get(name, "").encode("utf-8", "replace")).decode("latin-1")
                request = replace(request, headers={**request.headers, name: value})
            case _:
                request = replace(request, path=changed_bytes(draw, request.path.encode()).decode("latin-1"))
    return request


def _other_call(content: bytes) -> bytes:
    """The same content about another caller, as a form where it was JSON of one level: what whoever has seen a request would try."""
    told = _json(content)
    if isinstance(told, dict):
        content = urlencode({name: value for name, value in told.items() if isinstance(value, str)}, errors="replace").encode()
    return content.replace(b"01234", b"06666")


def _json(body: bytes) -> object:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def changed_body(draw: Draw, body: bytes) -> bytes:
    told = _json(body)
    how = draw.byte() % 8
    if how == 0:
        return inflated(draw, changed_bytes(draw, body))
    if isinstance(told, dict):
        _change_json(draw, told)
        return json.dumps(told, ensure_ascii=how % 2 == 0).encode("utf-8", "surrogatepass")
    return _changed_form(draw, body)


def changed_bytes(draw: Draw, old: bytes) -> bytes:
    at, length = draw.below(len(old) + 1), draw.byte()
    match draw.byte() % 4:
        case 0:
            return old[:at] + draw.some() + old[at:]
        case 1:
            return old[:at] + old[at + length :]
        case 2:
            return old[:at] + old[at : at + length] * 2 + old[at + length :]
        case _:
            return old[:at] + draw.some() + old[at + length :]


def inflated(draw: Draw, body: bytes) -> bytes:
    """Seldom, as long as a body may be: what costs time shows only then."""
    if draw.byte() % 64 or not body:
        return body
    chunk = body[: 1 + draw.byte()]
    return (body + chunk * (BODY_LIMIT // len(chunk)))[:BODY_LIMIT]


def _value(draw: Draw) -> object:
    match draw.byte() % 8:
        case 0:
            return draw.one(VALUES)
        case 1:
            return draw.text()
        case 2 if draw.byte() % 32 == 0:
            return "9" * 60_000
    return draw.one(WORDS)


def _change_json(draw: Draw, told: dict) -> None:
    """One member somewhere inside: another value, gone, under another's name, or twice as deep."""
    parent: dict | list = told
    while True:
        places = list(parent) if isinstance(parent, dict) else list(range(len(parent)))
        if not places:
            return
        place = draw.one(places)
        inner = parent[place]
        if not isinstance(inner, dict | list) or not inner or draw.byte() % 4 == 0:
            break
        parent = inner
    match draw.byte() % 8:
        case 0:
            del parent[place]
        case 1:
            parent[place] = [inner, inner]
        case 2 if isinstance(parent, dict):
            parent[draw.one((*places, draw.text()))] = inner
        case _:
            parent[place] = _value(draw)


def _changed_form(draw: Draw, body: bytes) -> bytes:
    pairs = body.split(b"&")
    at = draw.below(len(pairs))
    name, _, value = pairs[at].partition(b"=")
    fresh = _value(draw)
    text = quote(fresh if isinstance(fresh, str) else json.dumps(fresh), errors="surrogatepass").encode()
    other = name + b"=" + text
    pairs[at : at + 1] = draw.one((
        [], [pairs[at]] * 2, [other], [other, pairs[at]], [text + b"=" + value], [name + b"=%E9%FF" + value], [name],
    ))  # fmt: skip
    return b"&".join(pairs)


def _vectors() -> list[dict]:
    files = ("vectors.json", "vectors_carriers.json", "vectors_hosted.json")
    found = [vector for name in files for vector in json.loads((Path(__file__).parent / name).read_text("utf-8"))["vectors"]]
    return [vector for vector in found if vector["valid"]]


_RECORDED = _vectors()

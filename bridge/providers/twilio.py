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
from functools import partial
from typing import Self

from bridge.errors import Refused, WrongSettings
from bridge.providers import forms, instructions, reading, signatures, twiml
from bridge.providers.base import Answer, Heard, Ignored, Kind, Sender, WebhookRequest
from bridge.settings import Faults, ProviderSetting, Settings
from bridge.values import is_word

SIGNATURE = "x-twilio-signature"
SIGNATURE_SETTINGS = "x-twilio-webhooks-signature-settings"  # https://www.twilio.com/docs/usage/webhooks/webhook-shared-keys
DELIVERY = "i-twilio-idempotency-token"  # one for all retries of a request; absent when somebody replays it by hand

_MOST_PARTS = 8  # of that header; genuine ones have two
_NEWS_PATHS = frozenset({"studio", "recording", "transcription"})

TOKEN = ProviderSetting(
    "TWILIO_AUTH_TOKEN",
    "Primary Auth Token of the account: Twilio Console, Account Dashboard, Account Info.",
    secret=True,
    switches_on=True,
)
ACCOUNT_TOKENS = ProviderSetting(
    "TWILIO_ACCOUNT_TOKENS", 'Auth Tokens of subaccounts, a JSON object: {"AC…": "token"}.', secret=True, switches_on=True, free=True
)
SHARED_KEYS = ProviderSetting(
    "TWILIO_SHARED_KEYS",
    'Secrets of Webhooks SharedKeys, a JSON object: {"webhooks_sharedkey_…": "secret"}.',
    secret=True,
    switches_on=True,
    free=True,
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
        self._hear = partial(forms.hear, provider=self.name, region=settings.default_region, own_numbers=settings.own_numbers)
        self._token = settings.value(TOKEN.name).strip()
        faults = Faults()
        with faults:
            self._account_tokens = _secrets(settings, ACCOUNT_TOKENS.name)
        with faults:
            self._shared_keys = _secrets(settings, SHARED_KEYS.name)
        with faults:
            self._shared_key_only = _yes(settings, SHARED_KEY_ONLY.name)
        with faults:
            self._twiml = twiml.of(settings)
        faults.tell()
        self._without_ivr = instructions.without_ivr(settings, twiml.NEXT_URL, twiml.FILE, "callers")

    def verify(self, request: WebhookRequest) -> Sender:
        """The account whose token signed: "" for TWILIO_AUTH_TOKEN and SharedKeys, the AccountSid for a subaccount's token."""
        given = request.headers.get(SIGNATURE, "").strip()
        if not given:
            raise Refused("X-Twilio-Signature is missing.", reason="signature missing", status=401)
        fields, urls = _signed_fields(request), signatures.twilio_urls(request.url, is_get=forms.is_get(request))
        readings = signatures.twilio_readings(fields)
        key_id, algorithm = _signature_settings(request.headers.get(SIGNATURE_SETTINGS, ""))
        for account, secret in self._keys(key_id, fields):
            is_proven = signatures.twilio_proves(given, secret, urls, readings, algorithm=algorithm)
            if is_proven and (not account or _may_be_of(account, _Fields.of(request))):
                return Sender(account)
        raise Refused(_WRONG, reason="signature wrong")

    def parse(self, request: WebhookRequest, sender: Sender) -> Heard | Ignored:
        """One request about one call; a child leg, which has a parent, becomes a leg of its parent's call."""
        if _is_json(request) and reading.json_object(request.body) is None:
            return Ignored("the body is no JSON object")
        fields = _Fields.of(request)
        delivery_id = request.headers.get(DELIVERY, "").strip() or None
        return self._hear(fields, request.what, account=sender.account, kind=_kind(request, fields), delivery_id=delivery_id)

    def warnings(self) -> tuple[str, ...]:
        """A voice URL needs call instructions of the owner's own; without them a caller hears one sentence and the line closes."""
        return self._without_ivr

    def answer(self, kind: Kind, request: WebhookRequest | None = None) -> Answer:
        """TwiML while a caller waits for it."""
        if kind is not Kind.VOICE:
            return Answer(204)
        return forms.answer(self._twiml, request, _Fields.of(request) if request else _Fields(()))

    def _keys(self, key_id: str | None, fields: signatures.Fields) -> list[tuple[str, str]]:
        """The accounts and secrets that may have signed, as far as a form tells; a query or JSON is read once it is proven."""
        if key_id is not None:
            if key_id not in self._shared_keys:
                raise Refused("Signed with a SharedKey that TWILIO_SHARED_KEYS does not hold.", reason="signature key unknown")
            return [("", self._shared_keys[key_id])]
        if self._shared_key_only:
            raise Refused("Signed with an Auth Token, which TWILIO_SHARED_KEY_ONLY forbids.", reason="signature scheme forbidden")
        main = [("", self._token)] if self._token else []
        told = [value for name, value in fields if name.replace(b"_", b"").lower() == b"accountsid"][:1]
        named = _Fields(("AccountSid", reading.text_of(value)) for value in told)
        return main + [(sid, token) for sid, token in self._account_tokens.items() if _may_be_of(sid, named)]


class _Fields(forms.Fields):
    """The parameters of a form or of a JSON object. In Studio the author of the flow types the names, so case and `_` do not count."""

    @classmethod
    def of(cls, request: WebhookRequest) -> Self:
        if not _is_json(request):
            return super().of(request)
        plain = ((reading.clean(name), reading.word(value)) for name, value in (reading.json_object(request.body) or {}).items())
        return cls((name, value) for name, value in plain if value is not None)

    @staticmethod
    def _known_as(name: str) -> str:
        return name.replace("_", "").casefold()


def _is_json(request: WebhookRequest) -> bool:
    return not forms.is_get(request) and forms.content_type(request) == "application/json"


def _may_be_of(account: str, fields: _Fields) -> bool:
    """Whether a request names this account, or none (Studio): a subaccount's token proves no other."""
    return fields.first("AccountSid") in {None, "", account}


def _signed_fields(request: WebhookRequest) -> signatures.Fields:
    """What the signature covers beside the URL: the form; nothing on GET; of any other body the digest that stands in the URL."""
    in_query = forms.parameters(forms.query_of(request))
    if forms.is_get(request):
        return ()
    if forms.is_form(request):
        return forms.parameters(request.body)
    if not signatures.body_digest_matches(in_query, request.body):
        raise Refused("The URL's bodySHA256 is missing or is not the digest of this body.", reason="body not covered")
    return ()


def _signature_settings(header: str) -> tuple[str | None, str]:
    """The SharedKey and the algorithm named by a request; none of both for plain Auth Token signatures."""
    parts = (part.partition("=") for part in header.split(",", _MOST_PARTS) if part.strip())
    named = {name.strip().casefold(): value.strip() for name, _, value in parts}
    algorithm = named.get("algorithm", "HMAC_SHA1").upper()
    if named and (not named.get("key") or algorithm not in signatures.TWILIO_HASHES):
        raise Refused("X-Twilio-Webhooks-Signature-Settings names no key, or an unknown algorithm.", reason="signature scheme unknown")
    return named.get("key"), algorithm


def _kind(request: WebhookRequest, fields: _Fields) -> Kind:
    """Whether a caller waits for TwiML. Studio reads no TwiML, and what has been recorded or written down is told behind the call."""
    return Kind.NEWS if _is_json(request) or request.what.casefold() in _NEWS_PATHS else forms.kind(fields)


def _secrets(settings: Settings, name: str) -> dict[str, str]:
    try:
        found = json.loads(settings.value(name) or "{}")
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not all(isinstance(part, str) and is_word(part) for pair in found.items() for part in pair):
        raise WrongSettings([f'{name}: a JSON object of ids and secrets, such as {{"id": "secret"}}, without spaces inside the quotes'])
    return found


def _yes(settings: Settings, name: str) -> bool:
    value = settings.value(name).strip().casefold()
    if value not in {"", "yes", "no", "true", "false", "1", "0"}:
        raise WrongSettings([f"{name}: yes or no"])
    return value in {"yes", "true", "1"}

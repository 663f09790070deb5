"""SignalWire: cXML (forms with Twilio's names) and SWML (JSON).

https://developer.signalwire.com/compatibility-api/cxml/voice/ · https://developer.signalwire.com/swml/

A call is identified by its CallSid or `call.call_id`, a UUID; a cXML leg names its visit as ParentCallSid. Signature:
X-SignalWire-Signature, by the project's Signing Key, of forms as Twilio makes it (base64), of JSON as hex over URL and raw body, without
a time (https://developer.signalwire.com/guides/webhook-security); X-Twilio-Signature is the same under its old name. Retries: none for
call instructions, whose fallback URL is called instead; two for status callbacks, which are lost after that. It waits 5 s.

Known to get wrong: `answered` and `in-progress` both come (https://github.com/signalwire/docs-legacy/issues/804), in any order.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from bridge import numbers
from bridge.call import Call, Direction, Status
from bridge.errors import Refused
from bridge.providers import documents, forms, instructions, reading, signatures
from bridge.providers.base import Answer, Heard, Ignored, Kind, Sender, WebhookRequest
from bridge.settings import Faults, ProviderSetting, Settings

SIGNATURES = ("x-signalwire-signature", "x-twilio-signature")

# `call_state` of SWML; cXML has Twilio's words.
STATES: Mapping[str, Status] = {
    "created": Status.RINGING,
    "ringing": Status.RINGING,
    "answered": Status.IN_PROGRESS,
    "ending": Status.IN_PROGRESS,
    "ended": Status.COMPLETED,
}

KEY = ProviderSetting(
    "SIGNALWIRE_SIGNING_KEY",
    "Signing Key of the project (PSK_…, not the API token): SignalWire Space, API; several, separated by spaces.",
    secret=True,
    switches_on=True,
    several=True,
)
NEXT_URL = instructions.next_url_setting("SIGNALWIRE_NEXT_URL", "cXML or SWML")
FILE = instructions.file_setting("SIGNALWIRE_CXML_FILE", "cXML", NEXT_URL)


class SignalWire:
    """The adapter. Raises WrongSettings where one of its settings cannot be used."""

    name = "signalwire"
    settings = (KEY, NEXT_URL, FILE)

    def __init__(self, settings: Settings) -> None:
        faults = Faults()
        self._region = settings.default_region
        self._own_numbers = settings.own_numbers
        self._hear = partial(forms.hear, provider=self.name, region=settings.default_region, own_numbers=settings.own_numbers)
        self._public_url = settings.public_url
        self._next_url = settings.value(NEXT_URL.name).strip()
        self._keys = settings.words(KEY.name)
        if not self._keys:
            faults.append(f"{KEY.name}: the project's Signing Key; several, separated by spaces")
        with faults:
            self._xml = instructions.xml_answers(settings, NEXT_URL, FILE, "Say")
        faults.tell()
        self._without_ivr = instructions.without_ivr(settings, NEXT_URL, FILE, "callers")

    def verify(self, request: WebhookRequest) -> Sender:
        """One of the keys signed this URL, and this form or body."""
        given = next((request.headers[name].strip() for name in SIGNATURES if request.headers.get(name, "").strip()), "")
        if not given:
            raise Refused("X-SignalWire-Signature is missing.", reason="signature missing", status=401)
        urls = signatures.twilio_urls(request.url, is_get=forms.is_get(request))
        if forms.is_form(request):
            told = forms.parameters(forms.query_of(request) if forms.is_get(request) else request.body)
            readings = signatures.twilio_readings(() if forms.is_get(request) else told)
            is_proven = any([signatures.twilio_proves(given, key, urls, readings) for key in self._keys])  # noqa: C419 - a list: every key is tried
        else:
            is_proven = _proves_body(given, self._keys, urls, request.body)
        if not is_proven:
            wrong = f"The signature does not match: compare {KEY.name} with SignalWire, and PUBLIC_URL with the URL set there."
            raise Refused(wrong, reason="signature wrong")
        return Sender()

    def parse(self, request: WebhookRequest, sender: Sender) -> Heard | Ignored:
        """One request about one call, in cXML's form or SWML's JSON."""
        if not forms.is_form(request):
            return self._parse_swml(request, sender)
        fields = forms.Fields.of(request)
        return self._hear(fields, request.what, account=sender.account, kind=forms.kind(fields))

    def warnings(self) -> tuple[str, ...]:
        return self._without_ivr

    def answer(self, kind: Kind, request: WebhookRequest | None = None) -> Answer:
        """XML or SWML, as asked, while a caller waits for it."""
        if kind is not Kind.VOICE:
            return Answer(204)
        if request is not None and not forms.is_form(request):
            return Answer(200, "application/json", self._swml(request))
        return forms.answer(self._xml, request, forms.Fields.of(request) if request else forms.Fields(()))

    def _swml(self, request: WebhookRequest) -> bytes:
        url = forms.next_url(request)
        is_usable = url and instructions.is_elsewhere(url, self._public_url)
        go_on = (url if is_usable else None) or self._next_url
        step = {"transfer": {"dest": go_on}} if go_on else {"play": {"url": f"say:{instructions.SENTENCE}"}}
        return json.dumps({"version": "1.0.0", "sections": {"main": [step]}}).encode()

    def _parse_swml(self, request: WebhookRequest, sender: Sender) -> Heard | Ignored:
        """A document that is fetched tells `call` and `vars`; a state event tells the same names under `params`."""
        payload = reading.json_object(request.body)
        if payload is None:
            return Ignored("the body is no JSON object")
        is_event = documents.is_told(payload, "event_type")
        kind = Kind.NEWS if is_event else Kind.VOICE
        said = documents.part(payload, "params" if is_event else "call")
        call_id = reading.told(said.get("call_id"))
        if not call_id:
            return Ignored("no call id", Kind.NEWS)
        raw_from, raw_to = _number(said, "from"), _number(said, "to")
        caller = None if raw_from is None else numbers.identify(raw_from, region=self._region)
        direction = forms.direction(reading.told(said.get("direction")), caller, self._own_numbers, self._region)
        if direction is Direction.OUTBOUND:
            known = Call(provider=self.name, account=sender.account, root_id=call_id, direction=direction)
            return Ignored("outbound call", kind, call=known)
        state = reading.told(said.get("call_state"))
        call = Call(
            provider=self.name,
            account=sender.account,
            root_id=call_id,
            caller=caller,
            dialled=numbers.dialled(raw_to, self._region),
            status=STATES.get((state or "").casefold(), Status.UNKNOWN),
            raw_status=state,
            inputs=forms.inputs(_entered(documents.part(payload, "vars")), request.what, None),
        )
        return Heard(call, kind, None, reading.canonical(request.what, payload))


def body_signature(key: str, url: str, body: bytes) -> str:
    """What stands in X-SignalWire-Signature for a body that is no form (library signalwire 2.1.1, request_validator.py)."""
    return hmac.digest(key.encode(), url.encode("utf-8", "replace") + body, "sha1").hex()


def _proves_body(given: str, keys: Iterable[str], urls: Iterable[str], body: bytes) -> bool:
    urls = tuple(urls)
    return any([signatures.same(given.lower(), body_signature(key, url, body)) for key in keys for url in urls])  # noqa: C419 - a list: every pair is compared


def _number(said: Mapping[str, Any], end: str) -> str | None:
    """`from_number` where there is one; `from` may be an address such as sip:…"""
    return reading.word(said.get(f"{end}_number")) or reading.word(said.get(end))


def _entered(variables: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What the last `prompt` of a script took in; `prompt_result` tells how, such as match_speech."""
    value = reading.word(variables.get("prompt_value"))
    kind = "speech" if "speech" in (reading.told(variables.get("prompt_result")) or "") else "digits"
    return [] if value is None else [(kind, value)]

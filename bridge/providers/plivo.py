"""Plivo Voice: answer, action and hangup URLs of an XML application.

https://www.plivo.com/docs/voice/xml/request · https://www.plivo.com/docs/voice/xml/dial

A call is identified by `CallUUID`; a leg that <Dial> made is named by `DialBLegUUID` in the requests of the caller's own. Signature:
X-Plivo-Signature-V3 over URL, parameters and nonce, without a time (https://www.plivo.com/docs/voice/concepts/signature-validation);
V2 leaves the parameters out and is refused. Retries: one by default, when it cannot connect or waits in vain; then the fallback URL. It
waits for XML while the caller is on the line, any 2xx otherwise.

Known to get wrong: numbers come with their country code and without plus; times come without a zone, in that of the account, so none of
them is taken over; BillDuration is not the length.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Mapping
from dataclasses import replace

from bridge import numbers
from bridge.call import Call, Direction, Leg, Recording, Status
from bridge.errors import Refused
from bridge.providers import documents, forms, instructions, reading, signatures
from bridge.providers.base import Answer, Heard, Ignored, Kind, Sender, WebhookRequest
from bridge.settings import Faults, ProviderSetting, Settings

SIGNATURE = "x-plivo-signature-v3"  # by the token of the account or subaccount; several, separated by commas
SIGNATURE_OF_MAIN = "x-plivo-signature-ma-v3"  # by the main account's, also for its subaccounts
NONCE = "x-plivo-signature-v3-nonce"
OLD_SIGNATURE = "x-plivo-signature-v2"

STATUSES: Mapping[str, Status] = {
    "ringing": Status.RINGING,
    "early-media": Status.RINGING,
    "in-progress": Status.IN_PROGRESS,
    "answer": Status.IN_PROGRESS,  # `DialAction` of a leg
    "connected": Status.IN_PROGRESS,  # likewise
    "cancel": Status.CANCELED,
    "canceled": Status.CANCELED,
    "cancelled": Status.CANCELED,
    "failed": Status.FAILED,
    "busy": Status.BUSY,
    "timeout": Status.NO_ANSWER,
    "no-answer": Status.NO_ANSWER,
    "completed": Status.COMPLETED,
    "hangup": Status.COMPLETED,  # `DialAction` of a leg
}

TOKEN = ProviderSetting(
    "PLIVO_AUTH_TOKEN",
    "Auth Token of the main account, or of the subaccount that owns the number: Plivo Console, Overview; several, separated by spaces.",
    secret=True,
    switches_on=True,
    several=True,
)
NEXT_URL = instructions.next_url_setting("PLIVO_NEXT_URL", "Plivo XML")
FILE = instructions.file_setting("PLIVO_XML_FILE", "Plivo XML", NEXT_URL)


class Plivo:
    """The adapter. Raises WrongSettings where one of its settings cannot be used."""

    name = "plivo"
    settings = (TOKEN, NEXT_URL, FILE)

    def __init__(self, settings: Settings) -> None:
        faults = Faults()
        self._region = settings.default_region
        self._own_numbers = settings.own_numbers
        self._tokens = settings.words(TOKEN.name)
        if not self._tokens:
            faults.append(f"{TOKEN.name}: an Auth Token; several, separated by spaces")
        with faults:
            self._xml = instructions.xml_answers(settings, NEXT_URL, FILE, "Speak")
        faults.tell()
        self._without_ivr = instructions.without_ivr(settings, NEXT_URL, FILE, "callers")

    def verify(self, request: WebhookRequest) -> Sender:
        """One of the tokens signed this URL and these parameters, by V3."""
        given = [one for name in (SIGNATURE, SIGNATURE_OF_MAIN) for one in _listed(request.headers.get(name, ""))]
        if not given and request.headers.get(OLD_SIGNATURE, "").strip():
            raise Refused(
                "Signed by V2 alone, which does not cover the parameters; Plivo has to send V3.", reason="signature scheme forbidden"
            )
        nonce = request.headers.get(NONCE, "").strip()
        if not (given and nonce):
            raise Refused("X-Plivo-Signature-V3 or its nonce is missing.", reason="signature missing", status=401)
        signed = _signed_v3(request.method, request.url, request.body, nonce)
        expected = [_proof(token, signed) for token in self._tokens]
        if not any([signatures.same(one, own) for one in given for own in expected]):  # noqa: C419 - a list: every pair is compared
            wrong = f"The signature does not match: compare {TOKEN.name} with Plivo, and PUBLIC_URL with the URL set there."
            raise Refused(wrong, reason="signature wrong")
        return Sender()

    def parse(self, request: WebhookRequest, sender: Sender) -> Heard | Ignored:
        """One request about one call; what it says of a leg that was dialled becomes a leg of that call."""
        fields = forms.Fields.of(request)
        kind = _kind(fields)
        call_id = fields.told("CallUUID", "DialALegUUID")
        if not call_id:
            return Ignored("no call id", kind)
        parent_id = fields.told("ParentCallUUID")
        call = Call(provider=self.name, account=sender.account, root_id=parent_id or call_id, recordings=_recordings(fields))
        if parent_id and parent_id != call_id:
            leg = Leg(call_id, fields.told("To"), _status(fields.told("CallStatus")), reading.seconds(fields.told("Duration")))
            call = replace(call, legs=(leg,))
        elif fields.told("DialAction"):
            call = replace(call, legs=_legs(fields))  # news of the leg alone: whose numbers stand beside it is not documented
        else:
            call = self._with_facts_of_root(call, fields, request.what)
        if call.direction is Direction.OUTBOUND:
            return Ignored("outbound call", kind, call=call)
        return Heard(call, kind, None, reading.canonical(request.what, fields.pairs), not fields.told("Direction"))

    def warnings(self) -> tuple[str, ...]:
        return self._without_ivr

    def answer(self, kind: Kind, request: WebhookRequest | None = None) -> Answer:
        """XML while a caller waits for it; an answer that is no XML ends the call."""
        if kind is not Kind.VOICE:
            return Answer(204)
        fields = forms.Fields.of(request) if request else forms.Fields(())
        told = {name: fields.first(name) for name in ("Digits", "Speech", "DialStatus", "RecordUrl")}
        entered = {name: value for name, value in told.items() if value is not None}
        return Answer(200, "text/xml; charset=utf-8", self._xml.to(forms.next_url(request), entered))

    def _with_facts_of_root(self, call: Call, fields: forms.Fields, prompt: str) -> Call:
        raw_from = fields.first("From")
        caller = None if raw_from is None else numbers.identify(raw_from, region=self._region, country_code_first=True)
        entered = [("digits", value) for value in fields.all("Digits")] + [("speech", value) for value in fields.all("Speech")]
        return replace(
            call,
            direction=forms.direction(fields.told("Direction"), caller, self._own_numbers, self._region),
            caller=caller,
            dialled=numbers.dialled(fields.first("To"), self._region, country_code_first=True),
            status=_status(fields.told("CallStatus")),
            raw_status=fields.told("CallStatus"),
            caller_name=forms.display_name(fields.told("CallerName")),
            forwarded_from=numbers.dialled(fields.told("ForwardedFrom"), self._region, country_code_first=True),
            duration_s=reading.seconds(fields.told("Duration")),
            inputs=forms.inputs(entered, prompt, None),
            legs=_legs(fields),
        )


def signature_v3(token: str, method: str, url: str, body: bytes, nonce: str) -> str:
    """What stands in X-Plivo-Signature-V3. Raises Refused for more parameters than Plivo sends."""
    return _proof(token, _signed_v3(method, url, body, nonce))


def _proof(token: str, signed: bytes) -> str:
    return base64.b64encode(hmac.digest(token.encode(), signed, "sha256")).decode()


def _listed(header: str) -> list[str]:
    return [one.strip() for one in header.split(",", signatures.MOST_ENTRIES)[: signatures.MOST_ENTRIES] if one.strip()]


def _signed_v3(method: str, url: str, body: bytes, nonce: str) -> bytes:
    """What the signature covers.

    Parameters in byte order of their names, then of their values: those of the query as `name=value` joined by `&`, those of a form
    without anything between them, behind a dot where there is a query too (library plivo 4.63.0, utils/signature_v3.py).
    """
    address, _, query = url.encode("utf-8", "replace").partition(b"?")
    in_query = b"&".join(name + b"=" + value for name, value in sorted(forms.parameters(query)))
    in_body = b"" if method.upper() in {"GET", "HEAD"} else b"".join(name + value for name, value in sorted(forms.parameters(body)))
    joint = b"?" if in_query or in_body else b""
    dot = b"." if in_query and in_body else b""
    return address + joint + in_query + dot + in_body + b"." + nonce.encode("utf-8", "replace")


def _kind(fields: forms.Fields) -> Kind:
    """Whether a caller waits for XML. In doubt yes: no XML ends the call, and XML hurts no callback."""
    event = (fields.told("Event") or "").casefold()
    is_news = event == "hangup" or event.startswith("dial") or _status(fields.told("CallStatus")).is_final or fields.told("DialAction")
    return Kind.NEWS if is_news else Kind.VOICE


def _status(raw: str | None) -> Status:
    return STATUSES.get((raw or "").casefold().replace("_", "-"), Status.UNKNOWN)


def _recordings(fields: forms.Fields) -> tuple[Recording, ...]:
    url = documents.web_address(fields.told("RecordUrl", "RecordFile"))
    recording_id = fields.told("RecordingID") or (url or "").rpartition("/")[2]
    return (Recording(recording_id, url, reading.seconds(fields.told("RecordingDuration"))),) if url and recording_id else ()


def _legs(fields: forms.Fields) -> tuple[Leg, ...]:
    """The leg that a <Dial> rang or ended with; blank where nobody was reached."""
    leg_id = fields.told("DialBLegUUID")
    status = _status(fields.told("DialBLegStatus", "DialStatus", "DialAction"))
    duration = reading.seconds(fields.told("DialBLegDuration"))
    return (Leg(leg_id, fields.told("DialBLegTo"), status, duration),) if leg_id else ()

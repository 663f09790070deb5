"""Asterisk and FreePBX: events that a script of ours sends from the dialplan (docs/providers/scripts/callbridge_asterisk.py).

https://docs.asterisk.org/Configuration/Dialplan/ · https://docs.asterisk.org/Configuration/Interfaces/Asterisk-Gateway-Interface-AGI/

A call is identified by `linkedid`, the `uniqueid` of its oldest channel; both are unique within one system, so `system` (SYSTEMNAME) is
the account. Any other channel with that `linkedid` is a leg. Asterisk signs nothing and sends nothing by itself: the script posts a form
with `X-PBX-Timestamp` (seconds) and `X-PBX-Signature: sha256=<hex>`, HMAC-SHA256 over `timestamp.body`; the time may be 300 s away.
Retries: the script keeps each event in a folder until a 2xx came. It signs anew for each try and sends the same body.

Known to get wrong: `callerid_num` is whatever the trunk sends (15550101234, 0041…, a name); a withheld number may stand there all the
same, and then `callerid_pres` alone says so.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from dataclasses import replace

from bridge import numbers
from bridge.call import Call, Caller, CallerKind, Direction, Input, Leg, Recording, Status
from bridge.errors import Refused
from bridge.providers import documents, forms, reading, shared_secrets, signatures
from bridge.providers.base import Answer, Heard, Ignored, Kind, Sender, WebhookRequest
from bridge.settings import ProviderSetting, Settings

TIMESTAMP, SIGNATURE = "x-pbx-timestamp", "x-pbx-signature"

STATUS_OF_EVENT: Mapping[str, Status] = {
    "start": Status.RINGING,
    "answer": Status.IN_PROGRESS,
    "input": Status.IN_PROGRESS,
    "end": Status.COMPLETED,
}
# CDR(disposition): https://docs.asterisk.org/Configuration/Reporting/Call-Detail-Records-CDR/
DISPOSITIONS: Mapping[str, Status] = {
    "answered": Status.COMPLETED,
    "congestion": Status.FAILED,
    "no answer": Status.NO_ANSWER,
    "busy": Status.BUSY,
    "failed": Status.FAILED,
    "canceled": Status.CANCELED,
}
DIRECTIONS: Mapping[str, Direction] = {direction.value: direction for direction in Direction}

SECRET = ProviderSetting(
    "ASTERISK_HMAC_SECRET",
    "Secret that you made up and put into the script's configuration; several, while you rotate, separated by spaces.",
    secret=True,
    switches_on=True,
    free=True,
)


class Asterisk:
    """The adapter. Raises WrongSettings where ASTERISK_HMAC_SECRET holds no usable secret."""

    name = "asterisk"
    settings = (SECRET,)

    def __init__(self, settings: Settings) -> None:
        self._region = settings.default_region
        self._own_numbers = settings.own_numbers
        self._secrets = shared_secrets.listed(settings, SECRET.name)

    def verify(self, request: WebhookRequest) -> Sender:
        """The body and its time are signed with one of the secrets, within the window."""
        timestamp, given = request.headers.get(TIMESTAMP, ""), request.headers.get(SIGNATURE, "")
        if not (timestamp and given):
            raise Refused("X-PBX-Timestamp or X-PBX-Signature is missing.", reason="signature missing", status=401)
        if not re.fullmatch(r"[0-9]{1,15}", timestamp):
            raise Refused("X-PBX-Timestamp is no time in seconds.", reason="signature malformed")
        if not shared_secrets.is_one_of(given, [signature(secret, timestamp, request.body) for secret in self._secrets]):
            raise Refused(f"The signature does not match; compare {SECRET.name} with the script's.", reason="signature wrong")
        if abs(request.now - int(timestamp)) > signatures.WINDOW_S:
            raise Refused(f"Signed more than {signatures.WINDOW_S} s away from our time; compare the clocks.", reason="signature stale")
        forms.parameters(request.body)  # refuses more than any script of ours sends
        return Sender()

    def parse(self, request: WebhookRequest, sender: Sender) -> Heard | Ignored:
        """One event of one channel."""
        pairs = [(reading.text_of(name), reading.text_of(value)) for name, value in reading.form_fields(request.body)]
        fields = dict(reversed(pairs))  # of a repeated name the first value counts
        channel_id = reading.told(fields.get("uniqueid")) or reading.told(fields.get("linkedid"))
        if not channel_id:
            return Ignored("no call id")
        root_id = reading.told(fields.get("linkedid")) or channel_id
        call = Call(
            provider=self.name,
            account=reading.told(fields.get("system")) or sender.account,
            root_id=root_id,
            inputs=_inputs(fields, request.what),
            recordings=_recordings(fields, channel_id),
        )
        if root_id != channel_id:
            call = replace(call, inputs=(), legs=(Leg(channel_id, reading.told(fields.get("dnid")), _status(fields)),))
        else:
            call = self._with_facts_of_root(call, fields)
        if call.direction is not Direction.INBOUND:
            return Ignored(f"{call.direction} call", call=call)
        return Heard(call, Kind.NEWS, None, reading.canonical(request.what, pairs))

    def warnings(self) -> tuple[str, ...]:
        return ()

    def answer(self, kind: Kind, request: WebhookRequest | None = None) -> Answer:
        del kind, request
        return Answer(204)

    def _with_facts_of_root(self, call: Call, fields: Mapping[str, str]) -> Call:
        caller = self._caller(fields)
        status = _status(fields)
        name = forms.display_name(reading.told(fields.get("callerid_name")))
        at = reading.instant(fields.get("ts"))
        return replace(
            call,
            direction=self._direction(fields, caller),
            caller=caller,
            dialled=numbers.dialled(fields.get("dnid"), self._region),
            status=status,
            raw_status=reading.told(fields.get("disposition")) or reading.told(fields.get("event")),
            caller_name=None if caller and caller.kind is CallerKind.WITHHELD else name,
            forwarded_from=numbers.dialled(reading.told(fields.get("rdnis")), self._region),
            started_at=at if status is Status.RINGING else None,
            answered_at=at if fields.get("event") == "answer" else None,
            ended_at=at if status.is_final else None,
            duration_s=reading.seconds(fields.get("duration")),
        )

    def _caller(self, fields: Mapping[str, str]) -> Caller | None:
        """Who rings. A presentation that is prohibited or unavailable outranks the number: the caller asked not to be known."""
        presentation = (fields.get("callerid_pres") or "").strip().casefold()
        if presentation.startswith(("prohib", "unavailable")):
            return Caller("anonymous", CallerKind.WITHHELD)
        raw = fields.get("callerid_num")
        return None if raw is None else numbers.identify(raw, region=self._region)

    def _direction(self, fields: Mapping[str, str], caller: Caller | None) -> Direction:
        """As told; else by who rings whom: one of OWN_NUMBERS calls out, two extensions talk among themselves."""
        told = DIRECTIONS.get((fields.get("direction") or "").strip().casefold())
        if told is not None:
            return told
        if caller is not None and numbers.is_own(caller, self._own_numbers, region=self._region):
            return Direction.OUTBOUND
        is_internal = caller is not None and numbers.is_extension(caller.raw) and numbers.is_extension(fields.get("dnid"))
        return Direction.INTERNAL if is_internal else Direction.INBOUND


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """What stands in X-PBX-Signature."""
    return "sha256=" + hmac.digest(secret.encode(), f"{timestamp}.".encode() + body, "sha256").hex()


def _status(fields: Mapping[str, str]) -> Status:
    """An end tells its disposition; a word that we do not know is one."""
    disposition = reading.told(fields.get("disposition"))
    if disposition is not None:
        return DISPOSITIONS.get(re.sub(r"[_-]", " ", disposition.casefold()), Status.UNKNOWN)
    return STATUS_OF_EVENT.get((fields.get("event") or "").strip().casefold(), Status.UNKNOWN)


def _inputs(fields: Mapping[str, str], what: str) -> tuple[Input, ...]:
    """What was pressed; the time of the event tells the same key pressed twice from a repeat."""
    digits = fields.get("digits")
    is_asked = digits is not None and (digits.strip() or fields.get("event") == "input")
    return (Input("digits", (digits or "").strip(), fields.get("prompt") or what, fields.get("ts")),) if is_asked else ()


def _recordings(fields: Mapping[str, str], channel_id: str) -> tuple[Recording, ...]:
    url = documents.web_address(fields.get("recording_url"))
    return (Recording(channel_id, url, None),) if url else ()

"""Aircall, Asterisk, Bandwidth, Dialpad, Quo, RingCentral and 3CX under the contract: how each tells of a made-up call."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from urllib.parse import urlencode

from bridge.sandbox import hosted
from bridge.sandbox.phone import Delivery, PhoneCall, new_call
from tests.providers.case import Case
from tests.providers.support import NOW, PUBLIC_URL

CALL = new_call(random.Random(7), caller="+15550101234")

OTHER = "another-secret-of-the-same-kind-made-up"
STRANGER = "a-secret-that-the-bridge-has-never-heard-of"
QUO_KEY, QUO_OTHER, QUO_LEGACY = (
    "whsec_cXVvLW1hZGUtdXAtc2lnbmluZy1zZWNyZXQtYnl0ZXM=",
    "whsec_" + "b3RoZXItbWFkZS11cC1zaWduaW5nLXNlY3JldC1ieXRlcw==",
    "cXVvLWxlZ2FjeS1tYWRlLXVwLXNpZ25pbmctYnl0ZXM=",
)
# The secrets of the recorded samples and vectors.
ENVIRONMENT: dict[str, dict[str, str]] = {
    "3cx": {"THREECX_TOKEN": "3cx-template-token-made-up"},
    "aircall": {"AIRCALL_WEBHOOK_TOKEN": "aircall-webhook-token-made-up"},
    "asterisk": {"ASTERISK_HMAC_SECRET": "asterisk-shared-secret-made-up"},
    "bandwidth": {"BANDWIDTH_USER": "bw-hook-user", "BANDWIDTH_PASSWORD": "bw-hook-pass-made-up"},
    "dialpad": {"DIALPAD_SECRET": "dialpad-webhook-secret-made-up-32ch"},
    "quo": {"QUO_SECRET": QUO_KEY, "QUO_LEGACY_KEY": QUO_LEGACY},
    "ringcentral": {"RINGCENTRAL_VALIDATION_TOKEN": "rc-validation-token-made-up"},
}
SWITCH = {
    "3cx": "THREECX_TOKEN",
    "aircall": "AIRCALL_WEBHOOK_TOKEN",
    "asterisk": "ASTERISK_HMAC_SECRET",
    "bandwidth": "BANDWIDTH_PASSWORD",
    "dialpad": "DIALPAD_SECRET",
    "quo": "QUO_SECRET",
    "ringcentral": "RINGCENTRAL_VALIDATION_TOKEN",
}


def signed(provider: str, told: object, *, secret: str | None = None, what: str = "events") -> Delivery:
    """A genuine request, signed with the case's secret or another one."""
    environment = ENVIRONMENT[provider] | ({SWITCH[provider]: secret} if secret else {})
    body = told if isinstance(told, bytes) else json.dumps(told).encode()
    return hosted.sign(provider, environment.__getitem__, PUBLIC_URL, body, now=NOW, what=what)


def at(call: PhoneCall, after_s: float) -> str:
    return datetime.fromtimestamp(call.started + after_s, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def aircall(call: PhoneCall, status: str, **extra: object) -> dict[str, object]:
    ended = {"answered_at": call.started + 4, "ended_at": call.started + 98, "duration": 94} if status != "initial" else {}
    data = {"id": call.sid, "direction": "inbound", "status": status, "raw_digits": call.caller, "started_at": call.started}
    return {"resource": "call", "event": f"call.{status}", "data": data | {"number": {"digits": call.dialled}} | ended} | extra


def asterisk(call: PhoneCall, event: str, **extra: str) -> bytes:
    told = {"uniqueid": call.sid, "linkedid": call.sid, "callerid_num": call.caller, "callerid_pres": "allowed", "dnid": call.dialled}
    return urlencode(told | {"event": event, "ts": str(int(call.started))} | extra).encode()


def bandwidth(call: PhoneCall, event: str, **extra: object) -> dict[str, object]:
    told = {"eventType": event, "callId": call.sid, "direction": "inbound", "from": call.caller, "to": call.dialled}
    return told | {"startTime": at(call, 0)} | extra


def dialpad(call: PhoneCall, state: str, **extra: object) -> dict[str, object]:
    told = {"call_id": call.sid, "direction": "inbound", "external_number": call.caller, "internal_number": call.dialled}
    return told | {"state": state, "date_started": int(call.started * 1000)} | extra


def quo(call: PhoneCall, kind: str, *, top: dict[str, object] | None = None, **extra: object) -> dict[str, object]:
    resource = {"id": call.sid, "direction": "incoming", "createdAt": at(call, 0)} | extra
    context = {"participants": {"external": [call.caller], "workspace": [call.dialled]}}
    return {"id": f"EV{call.sid}", "type": kind, "data": {"resource": resource, "context": context}} | (top or {})


def ringcentral(call: PhoneCall, code: str, *, after_s: float = 0, **extra: object) -> dict[str, object]:
    numbers = {"from": {"phoneNumber": call.caller}, "to": {"phoneNumber": call.dialled}}
    party = {"id": "p-made-up-2", "direction": "Inbound", "status": {"code": code}} | numbers
    return {
        "uuid": f"{call.sid}{code}",
        "body": {"telephonySessionId": call.sid, "eventTime": at(call, after_s), "parties": [party]},
    } | extra


def threecx(call: PhoneCall, kind: str, **extra: object) -> dict[str, object]:
    return {"CallId": call.sid, "CallType": kind, "Number": call.caller, "CallStartTimeUTC": at(call, 0)} | extra


def case(provider: str, started: Callable[..., object], ended: Callable[..., object], **differs: object) -> Case:
    """A case; `started(call, **extra)` and `ended(call, status, **extra)` make what is told."""

    def ring(call: PhoneCall = CALL, **extra: object) -> Delivery:
        return signed(provider, started(call, **extra))

    def end(call: PhoneCall = CALL, status: str = "", **extra: object) -> Delivery:
        return signed(provider, ended(call, status, **extra))

    own = ENVIRONMENT[provider][SWITCH[provider]]
    other, stranger = (QUO_OTHER, "whsec_" + "QUJD" * 10) if provider == "quo" else (OTHER, STRANGER)
    raw = differs.pop("raw", partial(signed, provider))
    return Case(
        ENVIRONMENT[provider] | {SWITCH[provider]: f"{own} {other}"},
        ring,
        end,
        raw,
        lambda: signed(provider, started(CALL), secret=stranger),
        lambda: signed(provider, started(CALL), secret=other),
        **differs,
    )


def without_token(delivery: Delivery) -> Delivery:
    told = json.loads(delivery.body)
    del told["token"]
    return replace(delivery, body=json.dumps(told).encode())


HOSTED = {
    "3cx": case(
        "3cx",
        lambda call, **extra: threecx(call, "Started", **extra),
        lambda call, status, **extra: threecx(call, status or "Inbound", Duration="00:01:34", **extra),
        proof=("authorization",),
        words=("INBOUND", "Missed"),
        covers_body=False,
        dialled=None,
    ),
    "aircall": case(
        "aircall",
        lambda call, **extra: aircall(call, "initial", **extra),
        lambda call, status, **extra: aircall(call, status or "done", **extra),
        raw=None,
        words=("DONE", "Answered", "initial"),
        covers_body=False,
        without_proof=without_token,
    ),
    "asterisk": case(
        "asterisk",
        lambda call, **extra: asterisk(call, "start", **extra),
        lambda call, status, **extra: asterisk(call, "end", disposition=status or "ANSWERED", duration="94", **extra),
        has_time=True,
        words=("ANSWERED", "no answer", "No-Answer", "BUSY"),
    ),
    "bandwidth": case(
        "bandwidth",
        lambda call, **extra: bandwidth(call, "initiate", **extra),
        lambda call, status, **extra: bandwidth(
            call, "disconnect", cause=status or "hangup", answerTime=at(call, 4), endTime=at(call, 98), **extra
        ),
        proof=("authorization",),
        words=("HANGUP", "Busy", "cancel", "timeout"),
        covers_body=False,
    ),
    "dialpad": case(
        "dialpad",
        lambda call, **extra: dialpad(call, "ringing", date_connected=None, **extra),
        lambda call, status, **extra: dialpad(
            call, status or "hangup", date_connected=int(call.started * 1000) + 4000, duration=94_000.0, **extra
        ),
        words=("HANGUP", "Missed", "connected"),
        without_proof=lambda delivery: replace(delivery, body=json.dumps(dialpad(CALL, "ringing")).encode()),
    ),
    "quo": case(
        "quo",
        lambda call, **extra: quo(call, "call.ringing", status="ringing", top=extra),
        lambda call, status, **extra: quo(
            call, "call.completed", status=status or "completed", answeredAt=at(call, 4), completedAt=at(call, 98), duration=94, top=extra
        ),
        has_time=True,
    ),
    "ringcentral": case(
        "ringcentral",
        lambda call, **extra: ringcentral(call, "Setup", **extra),
        lambda call, status, **extra: ringcentral(call, status or "Disconnected", after_s=98, **extra),
        proof=("token",),
        words=("DISCONNECTED", "Answered", "voicemail"),
        covers_body=False,
        duration_s=None,
    ),
}

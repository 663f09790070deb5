"""Aircall: call events of a webhook.

https://developer.aircall.io/docs/webhooks-overview · https://developer.aircall.io/api-references/#call-events

A call is identified by `data.id`, the same in each of its events, transfers included. Nothing is signed: each body holds the `token`
that Aircall showed when the webhook was made, and that is all the proof there is. Retries: Aircall switches a webhook off after repeated
failures, so the answer to whatever was kept is 200; nothing waits with a caller on the line.

Known to get wrong: events come in any order; `call.hungup` comes at once and `call.ended` some 30 s later with what was missing
(duration, recording); links to recordings end within the hour; numbers are formatted for people (`+1 555-010-1234`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bridge import numbers
from bridge.call import Call, Direction, Input, Recording, Status
from bridge.errors import Refused
from bridge.providers import documents, reading, shared_secrets
from bridge.providers.base import Answer, Heard, Ignored, Kind, Sender, WebhookRequest
from bridge.settings import ProviderSetting, Settings

STATUSES: Mapping[str, Status] = {
    "initial": Status.RINGING,
    "answered": Status.IN_PROGRESS,
    "done": Status.COMPLETED,  # unless it was missed: see _status
}
# Why a call was missed (https://developer.aircall.io/api-references/#call); a reason that is not here is no answer.
MISSED: Mapping[str, Status] = {
    "short_abandoned": Status.CANCELED,
    "abandoned_in_ivr": Status.CANCELED,
    "abandoned_in_classic": Status.CANCELED,
    "out_of_opening_hours": Status.NO_ANSWER,
    "no_available_agent": Status.NO_ANSWER,
    "agents_did_not_answer": Status.NO_ANSWER,
}
DIRECTIONS: Mapping[str, Direction] = {"inbound": Direction.INBOUND, "outbound": Direction.OUTBOUND}

TOKEN = ProviderSetting(
    "AIRCALL_WEBHOOK_TOKEN",
    "Token of the webhook (Aircall Dashboard, Integrations, Webhook); several, one for each webhook, separated by spaces.",
    secret=True,
    switches_on=True,
    several=True,
)


class Aircall:
    """The adapter. Raises WrongSettings where AIRCALL_WEBHOOK_TOKEN holds no usable token."""

    name = "aircall"
    settings = (TOKEN,)

    def __init__(self, settings: Settings) -> None:
        self._region = settings.default_region
        self._tokens = shared_secrets.listed(settings, TOKEN.name)

    def verify(self, request: WebhookRequest) -> Sender:
        """Whoever knows the token is Aircall."""
        if not request.body:
            raise Refused("The body is empty, so it holds no token.", reason="token missing", status=401)
        given = reading.told((reading.json_object(request.body) or {}).get("token")) or ""
        shared_secrets.prove(given, self._tokens, what="The token in the body", setting=TOKEN.name)
        return Sender()

    def parse(self, request: WebhookRequest, sender: Sender) -> Heard | Ignored:
        """One event of one call; each holds the whole call as Aircall knows it then."""
        payload = reading.json_object(request.body)
        if payload is None:
            return Ignored("the body is no JSON object")
        if reading.told(payload.get("resource")) not in {None, "call"}:
            return Ignored("not about a call", is_understood=payload.get("resource") in ("contact", "message", "number", "user"))
        data = documents.part(payload, "data")
        call_id = reading.told(data.get("id"))
        if not call_id:
            return Ignored("no call id")
        call = self._call(sender.account, call_id, data)
        if call.direction is not Direction.INBOUND:
            return Ignored(f"{call.direction} call", call=call)
        said = {"event": payload.get("event"), "data": data}  # without the token and the time of sending
        return Heard(call, Kind.NEWS, None, reading.canonical(request.what, said))

    def warnings(self) -> tuple[str, ...]:
        """What the token is worth."""
        return (f"Aircall signs nothing: {TOKEN.name} stands in each request, so keep bodies out of logs and proxies, and rotate it.",)

    def answer(self, kind: Kind, request: WebhookRequest | None = None) -> Answer:
        del kind, request
        return Answer(200, "application/json", b"{}")

    def _call(self, account: str, call_id: str, data: Mapping[str, Any]) -> Call:
        raw_from = reading.word(data.get("raw_digits"))
        status, raw_status = _status(data)
        return Call(
            provider=self.name,
            account=account,
            root_id=call_id,
            direction=DIRECTIONS.get((reading.told(data.get("direction")) or "").casefold(), Direction.INBOUND),
            caller=None if raw_from is None else numbers.identify(raw_from, region=self._region),
            dialled=numbers.dialled(reading.word(documents.part(data, "number").get("digits")), self._region),
            status=status,
            raw_status=raw_status,
            caller_name=_name(documents.part(data, "contact")),
            started_at=reading.instant(data.get("started_at")),
            answered_at=reading.instant(data.get("answered_at")),
            ended_at=reading.instant(data.get("ended_at")),
            duration_s=reading.seconds(data.get("duration")) if status.is_final else None,  # 0 until the call has ended
            inputs=_inputs(data),
            recordings=_recordings(call_id, data),
        )


def _status(data: Mapping[str, Any]) -> tuple[Status, str | None]:
    """Ours and theirs. A call that is done was missed where there is a reason, or nobody ever answered."""
    raw = reading.told(data.get("status"))
    status = STATUSES.get((raw or "").casefold(), Status.UNKNOWN)
    if status is not Status.COMPLETED:
        return status, raw
    if reason := reading.told(data.get("missed_call_reason")):
        return MISSED.get(reason.casefold(), Status.NO_ANSWER), reason
    was_answered = documents.is_told(data, "answered_at") or "answered_at" not in data
    return (Status.COMPLETED if was_answered else Status.NO_ANSWER), raw


def _name(contact: Mapping[str, Any]) -> str | None:
    """The caller's name in Aircall's address book."""
    parts = (reading.told(contact.get(name)) for name in ("first_name", "last_name"))
    return " ".join(part for part in parts if part) or None


def _inputs(data: Mapping[str, Any]) -> tuple[Input, ...]:
    """Which branches of the IVR the caller chose, where Aircall tells (numbers with a Smartflow)."""
    chosen = documents.few(data, "ivr_options_selected")
    told = [(reading.told(one.get("key")), reading.told(one.get("title")), reading.told(one.get("id"))) for one in chosen]
    return tuple(Input("digits", key, title or "", option_id) for key, title, option_id in told if key)


def _recordings(call_id: str, data: Mapping[str, Any]) -> tuple[Recording, ...]:
    """The recording and the voicemail. `asset` is a page that stays, the direct link ends within the hour."""
    page = documents.web_address(data.get("asset"))
    links = ((kind, documents.web_address(data.get(kind))) for kind in ("recording", "voicemail"))
    return tuple(Recording(f"{call_id}-{kind}", page or link) for kind, link in links if link)

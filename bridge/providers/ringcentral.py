"""RingCentral: telephony session notifications of a webhook subscription.

https://developers.ringcentral.com/guide/voice/telephony-session-notifications ·
https://developers.ringcentral.com/guide/notifications/webhooks/creating-webhooks

A call is identified by `body.telephonySessionId`; each party in it (the caller at the main line, then whoever it is passed on to) has an
id that ends in its number: -1 and -2 are the two ends of the first leg, any higher one was reached by a transfer or a queue.
Nothing is signed. A token set with the subscription (`deliveryMode.verificationToken`) comes with each event as `Verification-Token`;
other versions of the API call both `validationToken` and `Validation-Token`; and some send neither, so a token in the webhook's own
URL counts too. A subscription is made by a handshake: an empty body with a one-time `Validation-Token` that the answer has to repeat
within 3 s, as application/json and in 1024 bytes. Retries: none; failures suspend the subscription for good, so the answer is 200.

Known to get wrong: events come in any order; `from.phoneNumber` is missing for withheld callers and an extension for colleagues; no
digits and no duration are told; a party that is `Disconnected` because it was transferred is not the end of the call.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from bridge import numbers
from bridge.call import Call, Caller, CallerKind, Leg, Status
from bridge.providers import documents, forms, reading, shared_secrets
from bridge.providers.base import Answer, Heard, Ignored, Kind, Sender, WebhookRequest
from bridge.settings import ProviderSetting, Settings

HANDSHAKE = "validation-token"
TOKEN_HEADERS = ("verification-token", HANDSHAKE)
TOKEN_PARAMETERS = (b"auth_token", b"token")  # in the webhook's own URL: …/webhooks/ringcentral/events?auth_token=…

STATUSES: Mapping[str, Status] = {
    "setup": Status.RINGING,
    "proceeding": Status.RINGING,
    "answered": Status.IN_PROGRESS,
    "hold": Status.IN_PROGRESS,
    "parked": Status.IN_PROGRESS,
    "voicemail": Status.IN_PROGRESS,  # the caller is speaking to it
    "voicemailscreening": Status.IN_PROGRESS,
    "faxreceive": Status.IN_PROGRESS,
    "gone": Status.IN_PROGRESS,  # moved into another session or to another device
    "disconnected": Status.COMPLETED,  # unless its reason says otherwise: see REASONS
}
# What `Disconnected` means with a reason. Most of them end a party, not the call.
REASONS: Mapping[str, Status] = {
    **dict.fromkeys(
        (
            "pickup", "supervising", "takeover", "blindtransfer", "rcctransfer", "attendedtransfer", "callerinputredirect", "callflip",
            "parklocation", "dtmftransfer", "agentanswered", "agentdropped", "callredirected", "voicemail", "voicemailscreening",
        ),
        Status.IN_PROGRESS,
    ),
    **dict.fromkeys(("noanswer", "timeout", "callreplied"), Status.NO_ANSWER),
    **dict.fromkeys(("targetbusy", "rejected"), Status.BUSY),
    "cancelled": Status.CANCELED,
    **dict.fromkeys(
        (
            "internalerror", "invalidnumber", "internationaldisabled", "destinationblocked", "notenoughfunds", "nosuchuser",
        ),
        Status.FAILED,
    ),
    **dict.fromkeys(("callfinished", "calldropped"), Status.COMPLETED),
}  # fmt: skip

TOKEN = ProviderSetting(
    "RINGCENTRAL_VALIDATION_TOKEN",
    "A secret that you make up and set with the subscription (deliveryMode.verificationToken), or put into its URL (?auth_token=).",
    secret=True,
    switches_on=True,
    several=True,
)


class RingCentral:
    """The adapter. Raises WrongSettings where RINGCENTRAL_VALIDATION_TOKEN holds no usable token."""

    name = "ringcentral"
    settings = (TOKEN,)

    def __init__(self, settings: Settings) -> None:
        self._region = settings.default_region
        self._tokens = shared_secrets.listed(settings, TOKEN.name)

    def verify(self, request: WebhookRequest) -> Sender:
        """Whoever knows the token is RingCentral. A handshake proves nothing and says nothing: it is let through to be answered."""
        if _is_handshake(request):
            return Sender()
        given = _tokens(request)
        known = next((one for one in given if shared_secrets.is_one_of(one, self._tokens)), next(iter(given), ""))
        shared_secrets.prove(known, self._tokens, what="Verification-Token", setting=TOKEN.name)
        return Sender()

    def parse(self, request: WebhookRequest, sender: Sender) -> Heard | Ignored:
        """One notification: the parties of one session that have changed."""
        if _is_handshake(request):
            return Ignored("handshake of a new subscription", keep=False)
        payload = reading.json_object(request.body)
        if payload is None:
            return Ignored("the body is no JSON object")
        session = documents.part(payload, "body")
        session_id = reading.told(session.get("telephonySessionId"))
        if not session_id:
            is_reminder = documents.is_told(session, "expiresIn")
            reason = "reminder: the subscription is about to expire, renew it" if is_reminder else "no call id"
            return Ignored(reason, is_understood=is_reminder)
        parties = documents.few(session, "parties")
        incoming = [party for party in parties if _is_inbound(party)]
        if not incoming:
            return Ignored("outbound call" if parties else "no parties", is_understood=bool(parties))
        if all(_is_colleague(party) for party in incoming):
            return Ignored("internal call", is_understood=True)
        call = Call(provider=self.name, account=sender.account, root_id=session_id)
        for party in incoming:
            call = self._with_party(call, party, reading.instant(session.get("eventTime")))
        return Heard(call, Kind.NEWS, reading.told(payload.get("uuid")), reading.canonical(request.what, session))

    def warnings(self) -> tuple[str, ...]:
        """What the token is worth."""
        return (f"RingCentral signs nothing: {TOKEN.name} proves only that the sender knows it, so keep it secret, and rotate it.",)

    def answer(self, kind: Kind, request: WebhookRequest | None = None) -> Answer:
        """200; to a handshake with its token, as the subscription is refused otherwise (SUB-525 without the content type)."""
        del kind
        echo = {"Validation-Token": request.headers[HANDSHAKE]} if request is not None and _is_handshake(request) else {}
        return Answer(200, "application/json", b"{}", echo)

    def _with_party(self, call: Call, party: Mapping[str, Any], at: datetime | None) -> Call:
        """The call with what one party tells. Only the first leg tells the dialled number: later ones are colleagues."""
        status, raw_status = _status(party)
        raw_to = reading.word(documents.part(party, "to").get("phoneNumber"))
        leg_id = None if _is_first(party) else reading.told(party.get("id"))
        dialled = numbers.identify(raw_to, region=self._region).e164 if leg_id is None else call.dialled
        caller = self._caller(party, is_first=leg_id is None)
        name = forms.display_name(reading.told(documents.part(party, "from").get("name"))) if caller else None
        return replace(
            call,
            caller=call.caller or caller,
            dialled=dialled or call.dialled,
            status=status,
            raw_status=raw_status,
            caller_name=call.caller_name or name,
            started_at=at if status is Status.RINGING and leg_id is None else call.started_at,
            answered_at=at if raw_status == "Answered" else call.answered_at,
            ended_at=at if status.is_final else call.ended_at,
            legs=call.legs if leg_id is None else (*call.legs, Leg(leg_id, raw_to, status)),
        )

    def _caller(self, party: Mapping[str, Any], *, is_first: bool) -> Caller | None:
        """Who rings, on any leg from outside; that no number was told counts on the first one only."""
        if _is_colleague(party):
            return None
        raw = reading.word(documents.part(party, "from").get("phoneNumber")) or ""
        caller = numbers.identify(raw, region=self._region)
        return caller if is_first or caller.kind is CallerKind.PSTN else None


def _is_handshake(request: WebhookRequest) -> bool:
    """An event always has a body; one-time tokens are short and plain, so that nothing else is ever repeated in a header."""
    token = request.headers.get(HANDSHAKE, "")
    return request.method.upper() == "POST" and not request.body.strip() and re.fullmatch(r"[\x21-\x7e]{1,256}", token) is not None


def _tokens(request: WebhookRequest) -> list[str]:
    """Each token that came along, in headers and in the URL."""
    headers = [request.headers.get(name, "") for name in TOKEN_HEADERS]
    query = reading.form_fields(request.query.encode("utf-8", "replace"))
    return [one for one in (*headers, *(reading.text_of(value) for name, value in query if name in TOKEN_PARAMETERS)) if one]


def _is_inbound(party: Mapping[str, Any]) -> bool:
    return (reading.told(party.get("direction")) or "inbound").casefold() != "outbound"


def _is_colleague(party: Mapping[str, Any]) -> bool:
    """Whether an extension rings. Some events name it as `phoneNumber` alone; the telephone network has no numbers that short."""
    caller = documents.part(party, "from")
    is_named = any(reading.told(caller.get(name)) is not None for name in ("extensionId", "extensionNumber"))
    return is_named or re.fullmatch(r"[0-9]{2,5}", reading.told(caller.get("phoneNumber")) or "") is not None


def _is_first(party: Mapping[str, Any]) -> bool:
    match = re.search(r"-([0-9]+)$", reading.told(party.get("id")) or "")
    return match is None or int(match[1]) <= 2


def _status(party: Mapping[str, Any]) -> tuple[Status, str | None]:
    """Ours and theirs: the code, or the reason of a `Disconnected` that has one."""
    told = documents.part(party, "status")
    code, reason = reading.told(told.get("code")), reading.told(told.get("reason"))
    status = STATUSES.get((code or "").casefold(), Status.UNKNOWN)
    if status is not Status.COMPLETED:
        return status, code
    if reason:
        return REASONS.get(reason.casefold(), Status.COMPLETED), reason
    was_missed = reading.word(party.get("missedCall")) == "true"
    return (Status.NO_ANSWER if was_missed else Status.COMPLETED), code

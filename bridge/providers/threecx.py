"""3CX: the call report of a CRM template (docs/providers/3cx.md has one), or a request of a call flow.

https://www.3cx.com/docs/server-side-crm-template-xml-description/

3CX tells of a call once, when it is over, and never by an id: `[CallID]` in a template stays empty. So a call is identified by what
makes it one: the second it started and the number that rang; a report of each agent whom a queue rang is the same call. Where a call
flow of yours knows an id, it may send one as `CallId`. Nothing is signed: a token that you make up comes in the header
`Authorization: Bearer …`, which the template sets. Retries: none.

Known to get wrong: a variable without a value is sent as its own name in brackets (`[Name]`); `Duration` is seconds or hh:mm:ss, by
version; the dialled number is not told.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from bridge import numbers
from bridge.call import Call, Caller, Direction, Input, Recording, Status, Transcript
from bridge.errors import Refused
from bridge.providers import documents, forms, reading, shared_secrets
from bridge.providers.base import Answer, Heard, Ignored, Kind, Sender, WebhookRequest
from bridge.settings import ProviderSetting, Settings

# [CallType] in its four words; the others are for call flows of your own.
STATUSES: Mapping[str, Status] = {
    "inbound": Status.COMPLETED,
    "missed": Status.NO_ANSWER,
    "outbound": Status.COMPLETED,
    "notanswered": Status.NO_ANSWER,
    "started": Status.RINGING,
    "input": Status.IN_PROGRESS,
}
_NEVER = re.compile(r"\b0001\b")  # the year of a time that was never set, in any order of its parts
OUTBOUND_TYPES = frozenset({"outbound", "notanswered"})

TOKEN = ProviderSetting(
    "THREECX_TOKEN",
    "Token that you made up and typed into the template's field in 3CX; several, while you rotate, separated by spaces.",
    secret=True,
    switches_on=True,
    several=True,
)


class ThreeCx:
    """The adapter. Raises WrongSettings where THREECX_TOKEN holds no usable token."""

    name = "3cx"
    settings = (TOKEN,)

    def __init__(self, settings: Settings) -> None:
        self._region = settings.default_region
        self._own_numbers = settings.own_numbers
        self._tokens = shared_secrets.listed(settings, TOKEN.name)

    def verify(self, request: WebhookRequest) -> Sender:
        """Whoever knows the token is 3CX."""
        scheme, _, given = request.headers.get("authorization", "").strip().partition(" ")
        if not given or scheme.casefold() != "bearer":
            raise Refused("Authorization: Bearer … is missing.", reason="token missing", status=401)
        shared_secrets.prove(given.strip(), self._tokens, what="The bearer token", setting=TOKEN.name)
        return Sender()

    def parse(self, request: WebhookRequest, sender: Sender) -> Heard | Ignored:
        """The report of one call."""
        report = reading.json_object(request.body)
        if report is None:
            return Ignored("the body is no JSON object")
        raw_from = _told(report, "Number", blank_too=True)
        if raw_from is None and _told(report, "CallId") is None:
            return Ignored("no caller and no call id")
        caller = None if raw_from is None else numbers.identify(raw_from, region=self._region)
        if self._is_outbound(report, caller):
            return Ignored("outbound call", is_understood=True)
        call = self._call(report, sender.account, caller)
        return Heard(call, Kind.NEWS, None, reading.canonical(request.what, report))

    def warnings(self) -> tuple[str, ...]:
        """What the token is worth, and what there is not."""
        return (
            f"3CX signs nothing: {TOKEN.name} comes with each request, so keep it secret, and rotate it.",
            "3CX reports a call when it is over and never again: what is lost on the way is not told twice.",
        )

    def answer(self, kind: Kind, request: WebhookRequest | None = None) -> Answer:
        del kind, request
        return Answer(200, "application/json", b"{}")

    def _is_outbound(self, report: Mapping[str, Any], caller: Caller | None) -> bool:
        is_own = caller is not None and numbers.is_own(caller, self._own_numbers, region=self._region)
        direction = (_told(report, "CallDirection") or "").casefold()
        return is_own or direction == "outbound" or _call_type(report) in OUTBOUND_TYPES

    def _call(self, report: Mapping[str, Any], account: str, caller: Caller | None) -> Call:
        started_at = reading.instant(_told(report, "CallStartTimeUTC"))
        status = STATUSES.get(_call_type(report), Status.UNKNOWN)
        digits = _told(report, "Digits", blank_too=True)
        root_id = _told(report, "CallId") or _derived_id(report, caller)
        recording = documents.web_address(report.get("RecordingUrl"))
        texts = {name: _told(report, name) for name in ("Transcription", "Summary")}
        return Call(
            provider=self.name,
            account=account,
            root_id=root_id,
            direction=Direction.INBOUND,
            caller=caller,
            dialled=numbers.dialled(_told(report, "Dialled"), self._region),
            status=status,
            raw_status=_told(report, "CallType"),
            caller_name=forms.display_name(_told(report, "Name")),
            started_at=started_at,
            answered_at=reading.instant(_told(report, "CallEstablishedTimeUTC")),
            ended_at=reading.instant(_told(report, "CallEndTimeUTC")),
            duration_s=_seconds(_told(report, "Duration")) if status.is_final else None,
            inputs=() if digits is None else (Input("digits", digits, _told(report, "Prompt") or ""),),
            recordings=(Recording(f"{root_id}-recording", recording),) if recording else (),
            transcripts=tuple(Transcript(f"{root_id}-{name}", text) for name, text in texts.items() if text),
        )


def _told(report: Mapping[str, Any], name: str, *, blank_too: bool = False) -> str | None:
    """A variable's value; None where the template had none and left its name in brackets."""
    text = reading.word(report.get(name))
    if text is None or re.fullmatch(r"\s*\[[A-Za-z]+\]\s*", text):
        return None
    return text.strip() if blank_too else text.strip() or None


def _call_type(report: Mapping[str, Any]) -> str:
    return re.sub(r"[\s_-]", "", (_told(report, "CallType") or "").casefold())


def _derived_id(report: Mapping[str, Any], caller: Caller | None) -> str:
    """What makes a call one: when it started, to the second, and who rang.

    Callers without a number are told apart by the agent who took the call, and a report without a time by all that it says.
    """
    started = next((text for name in ("CallStartTimeUTC", "DateTime") if (text := _told(report, name)) and not _NEVER.search(text)), None)
    who = (caller.e164 if caller else None) or f"{_told(report, 'Number')} at {_told(report, 'Agent')}"
    at = reading.instant(started)
    second = str(int(at.timestamp())) if at else started
    what = f"{second}\n{who}" if second else json.dumps(report, sort_keys=True)
    return hashlib.sha256(what.encode()).hexdigest()[:32]


def _seconds(text: str | None) -> int | None:
    """Seconds, or hh:mm:ss."""
    match = re.fullmatch(r"([0-9]{1,4}):([0-9]{2}):([0-9]{2})(?:\.[0-9]+)?", text or "")
    return int(match[1]) * 3600 + int(match[2]) * 60 + int(match[3]) if match else reading.seconds(text)

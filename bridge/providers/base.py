"""What an adapter is given, what it must answer, and the contract that all of them keep.

An adapter never touches Redis, Flask or the CRM: it gets a small value and returns one, so that samples are enough to test it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from bridge.call import Call
from bridge.settings import ProviderSetting, Settings


@dataclass(frozen=True, slots=True)
class WebhookRequest:
    """A webhook as it came over the wire. Signatures cover these bytes, so nothing here is decoded or rebuilt."""

    method: str
    path: str  # as sent, percent-encoding kept: /webhooks/twilio/voice
    query: str  # as sent, without the question mark; "" where there is none
    headers: Mapping[str, str]  # names in lower case; repeated headers joined by ", "
    body: bytes
    public_url: str  # PUBLIC_URL: scheme, host and, where one is configured, port and base path; no trailing slash
    now: float  # seconds since the epoch, for signatures with a time in them
    has_bare_mark: bool = False  # the URL ended in a question mark with nothing behind it, which a signature covers

    @property
    def url(self) -> str:
        """The URL that the provider called: the configured base, never what a proxy made of it, with the raw path and query."""
        return f"{self.public_url}{self.path}" + (f"?{self.query}" if self.query or self.has_bare_mark else "")

    @property
    def what(self) -> str:
        """The part of the path after the provider's name, without slashes around it: `voice`, `status`, `""`."""
        return "/".join(part for part in self.path.split("/webhooks/", 1)[-1].split("/")[1:] if part)


@dataclass(frozen=True, slots=True)
class Sender:
    """Who sent a webhook, as the signature proves it. `account` is "" for the deployment's own account."""

    account: str = ""


class Kind(StrEnum):
    """What an event is to the provider, which decides what it wants to hear back."""

    VOICE = "voice"  # the provider waits for call instructions while the caller is on the line
    NEWS = "news"  # a status, a recording, …: a 2xx is enough


@dataclass(frozen=True, slots=True)
class Heard:
    """An event that was understood."""

    call: Call
    kind: Kind = Kind.NEWS
    delivery_id: str | None = None  # the provider's id of this delivery, the same for each of its retries
    content: str = ""  # what the event says, canonical, without what changes between retries: repeats are told by its digest
    # That the call came in was not told: should another event of the call tell otherwise, this one makes no lead.
    is_guess: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Ignored:
    """A genuine event that makes no call of ours. `reason` is shown and counted: one short line, no personal data.

    With neither `call` nor `is_understood` it counts as one that could not be understood, which is kept whole and for longer. These two
    say what becomes of the event, not what it is, so two are equal without them.
    """

    reason: str
    kind: Kind = Kind.NEWS
    keep: bool = True  # False: it proves nothing about its sender (a handshake), so it leaves a counter and nothing else
    # Outbound or internal: later events of this call that do not tell a direction make no lead either.
    call: Call | None = field(default=None, compare=False)
    is_understood: bool = field(default=False, compare=False)  # it is plain what this is, and that it is no call


@dataclass(frozen=True, slots=True)
class Answer:
    """What the provider gets to hear."""

    status: int = 204
    content_type: str | None = None
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


class Provider(Protocol):
    """One phone system.

    You must write `name`, `settings`, the constructor, `verify`, `parse` and `answer`. The webhook room does the rest: size limit,
    counting, keeping what was not understood, storing, and turning any exception of `verify` into a refusal and any exception of
    `parse` into `Ignored("could not be read: …")`.
    """

    name: str  # lower-case letters and digits; the last part of /webhooks/<name>
    settings: tuple[ProviderSetting, ...]

    def __init__(self, settings: Settings) -> None:
        """Take what is needed from `settings`. Raises WrongSettings with a line for each of them that cannot be used (`Faults` gathers)."""

    def verify(self, request: WebhookRequest) -> Sender:
        """Prove the sender. Raises Refused naming the setting to check. A request without a signature must cost nothing else."""

    def parse(self, request: WebhookRequest, sender: Sender) -> Heard | Ignored:
        """What the event says. Unknown fields, statuses and types are values, never errors."""

    def warnings(self) -> tuple[str, ...]:
        """What works, but not as well as it could: a sentence each, for `doctor`, naming the setting to change."""

    def answer(self, kind: Kind, request: WebhookRequest | None = None) -> Answer:
        """What this provider wants to hear once the event is kept. It never depends on the CRM.

        `request` has been verified; without it the answer is the one to a call's first request.
        """

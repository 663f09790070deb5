"""What a list of calls is to the bridge: where to ask, how to turn the page, and how to read a row.

A list touches nothing: it says which requests to send (bridge/providers/lists/http.py sends them) and reads what came back.
"""

from __future__ import annotations

import base64
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from bridge.errors import BridgeError
from bridge.providers import documents, reading
from bridge.providers.base import Heard, Ignored, Provider, Sender, WebhookRequest
from bridge.settings import Settings

WEBHOOK_WITHIN_S = 60.0  # a webhook that is on its way has come by then


class Unset(BridgeError):
    """The list has no credentials. The message names the settings."""


@dataclass(frozen=True, slots=True)
class Window:
    """Which calls: those that began from `since` on and before `until`, seconds since the epoch."""

    since: float
    until: float


@dataclass(frozen=True, slots=True)
class Ask:
    """One request. `url` may be relative to the list's base, or one that an answer named for its next page."""

    url: str
    query: tuple[tuple[str, str], ...] = ()

    @property
    def target(self) -> str:
        joint = "&" if "?" in self.url else "?"
        return self.url + (joint + urlencode(self.query) if self.query else "")

    def turned(self, **changed: str) -> Ask:
        """The same request with these parameters set anew. A link to the next page need not hold our filter; this does."""
        return replace(self, query=(*(pair for pair in self.query if pair[0] not in changed), *changed.items()))


@dataclass(frozen=True, slots=True)
class Page:
    """What came back. Numbers in `document` are text, as the adapters read them."""

    document: Any
    headers: Mapping[str, str] = field(default_factory=dict)


Post = Callable[[Ask, Mapping[str, str], Mapping[str, str]], Page]


class Lister(ABC):
    """The list of one account. What is abstract here each list writes; the rest has a default that most lists share.

    `name` and `account` are those of the webhooks, so that the call keys agree. `credentials` names the settings that an access error is
    about. `webhook_within_s`: how long after a call's beginning its webhook may still come.
    """

    name: str
    webhook_within_s = WEBHOOK_WITHIN_S

    def __init__(
        self, settings: Settings, adapter: Provider, base_url: str, headers: Mapping[str, str], credentials: str, account: str = ""
    ) -> None:
        self.base_url = (settings.list_base_url(self.name) or base_url).rstrip("/")
        self.account = account
        self.credentials = credentials
        self._adapter = adapter
        self._headers = headers

    def authorize(self, post: Post) -> Mapping[str, str]:
        """The headers that prove who asks. `post(ask, headers, form)` is there for those that have to log in first."""
        del post
        return self._headers

    @abstractmethod
    def first(self, window: Window) -> Ask: ...

    @abstractmethod
    def following(self, ask: Ask, page: Page, rows: int) -> Ask | None:
        """The request for the page after this one, which had `rows` rows; None where it was the last."""

    @abstractmethod
    def rows(self, page: Page) -> list[Mapping[str, Any]]: ...

    @abstractmethod
    def read(self, row: Mapping[str, Any]) -> Heard | Ignored: ...

    # ---- For the lists themselves

    def as_form(self, fields: Mapping[str, object], what: str = "status") -> Heard | Ignored:
        """Read a row as the adapter reads a form with these fields."""
        told = {name: text for name, value in fields.items() if (text := reading.word(value)) is not None}
        return self._parse(urlencode(told).encode(), "application/x-www-form-urlencoded", what)

    def as_json(self, document: Mapping[str, object], what: str = "status") -> Heard | Ignored:
        """Read a row as the adapter reads a JSON body."""
        return self._parse(json.dumps(document).encode(), "application/json", what)

    def as_body(self, body: bytes, what: str = "status") -> Heard | Ignored:
        return self._parse(body, "application/jwt", what)

    def _parse(self, body: bytes, content_type: str, what: str) -> Heard | Ignored:
        path = f"/webhooks/{self.name}/{what}"
        request = WebhookRequest("POST", path, "", {"content-type": content_type}, body, "", 0.0)
        return self._adapter.parse(request, Sender(self.account))


def with_times(
    heard: Heard | Ignored, *, started: datetime | None, answered: datetime | None = None, ended: datetime | None = None
) -> Heard | Ignored:
    """The call with the times of its row, which the webhook's shape has no place for."""
    if isinstance(heard, Ignored):
        return heard
    call = heard.call
    timed = replace(
        call,
        started_at=started or call.started_at,
        answered_at=answered or call.answered_at,
        ended_at=ended or call.ended_at,
    )
    return replace(heard, call=timed)


def needed(settings: Settings, *names: str) -> tuple[str, ...]:
    """The values of these settings. Raises Unset, naming those that are missing."""
    values = tuple(settings.value(name).strip() for name in names)
    missing = [name for name, value in zip(names, values, strict=True) if not value]
    if missing:
        raise Unset(f"its list of calls is not read: set {' and '.join(missing)}")
    return values


def basic(user: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


def iso(at: float) -> str:
    """2026-01-15T15:04:05Z."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%SZ}"


def day(at: float) -> str:
    """The day in UTC: 2026-01-15."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d}"


def members(page: Page, *names: str) -> list[Mapping[str, Any]]:
    """The rows under the last of `names`, one inside the other."""
    document = page.document if isinstance(page.document, dict) else {}
    return documents.members(documents.part(document, *names[:-1]), names[-1])


def number_in(page: Page, name: str) -> int | None:
    """A whole number at the top of the document; None where there is none."""
    return reading.seconds(page.document.get(name)) if isinstance(page.document, dict) else None


def parameter(uri: str | None, name: str) -> str | None:
    """A parameter in the query of an address; None where it has none."""
    return next(iter(parse_qs(urlsplit(uri or "").query).get(name, ())), None)


def link(page: Page, *names: str) -> str | None:
    """The address under these names, absolute or relative; None where there is none."""
    document = page.document if isinstance(page.document, dict) else {}
    return reading.told(documents.part(document, *names[:-1]).get(names[-1]))

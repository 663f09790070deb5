"""The bridge and the GoHighLevel stand-in as seen from outside: over HTTP, as any other program sees them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import requests

PAGE = 200
_TIMEOUT_S = 15.0


@dataclass(frozen=True, slots=True)
class RemoteBridge:
    """The bridge's own word on its calls (bridge/console/api.py). Raises requests.RequestException where it does not answer."""

    url: str
    token: str

    def is_ready(self) -> bool:
        """Whether /readyz says 200. A bridge that cannot be reached is not ready."""
        try:
            return _ask("GET", f"{self.url}/readyz").status_code == 200
        except requests.RequestException:
            return False

    def call(self, call_key: str) -> dict[str, Any] | None:
        """One call with its trail; None where the bridge knows no such call."""
        answer = _ask("GET", f"{self.url}/api/calls/{call_key}", token=self.token)
        return None if answer.status_code == 404 else _read(answer)

    def calls(self, state: str | None = None) -> Iterator[dict[str, Any]]:
        """All calls, oldest first, or those of one state."""
        asked: dict[str, Any] = {"limit": PAGE} | ({"state": state} if state else {})
        while True:
            page = _read(_ask("GET", f"{self.url}/api/calls", token=self.token, params=asked))
            yield from page["calls"]
            if page["next_cursor"] is None:
                return
            asked["cursor"] = page["next_cursor"]


@dataclass(frozen=True, slots=True)
class RemoteGhl:
    """The stand-in's truth and its faults (docs/sandbox.md). Raises requests.RequestException, also for what the stand-in refuses."""

    url: str

    def counts(self) -> dict[str, Any]:
        return _read(_ask("GET", f"{self.url}/_truth/counts"))

    def contacts(self, phone: str | None = None) -> list[dict[str, Any]]:
        """All that ever were, or those with that phone now; `alive` tells which are still there."""
        return list(_read(_ask("GET", f"{self.url}/_truth/contacts", params={"phone": phone}))["contacts"])

    def notes(self, containing: str = "") -> list[dict[str, Any]]:
        """All that ever were and hold this text; `deleted` tells which are gone. Give a call key to find a call's note."""
        return list(_read(_ask("GET", f"{self.url}/_truth/notes", params={"containing": containing}))["notes"])

    def requests(self, *, endpoint: str | None = None, phone: str | None = None, since: int = 0) -> list[dict[str, Any]]:
        """The requests that came, from number `since` on; with `phone`, those about that caller or a contact of theirs."""
        asked = {"endpoint": endpoint, "phone": phone, "since": since}
        return list(_read(_ask("GET", f"{self.url}/_truth/requests", params=asked))["requests"])

    def next_request(self) -> int:
        """The number that the next request gets, as a `since` for `requests`."""
        return 1 + max((served["number"] for served in self.requests()), default=-1)

    def add_fault(self, kind: str, **details: object) -> int:
        """Switch a fault on (bridge/sandbox/ghl/faults.py). Returns its number for `remove_fault`."""
        return int(_read(_ask("POST", f"{self.url}/_control/faults", json={"kind": kind, **details}))["number"])

    def faults(self) -> list[dict[str, Any]]:
        """Those that are on, with how many requests each has hit."""
        return list(_read(_ask("GET", f"{self.url}/_control/faults"))["faults"])

    def remove_fault(self, number: int) -> None:
        _read(_ask("DELETE", f"{self.url}/_control/faults/{number}"))

    def clear_faults(self) -> None:
        _read(_ask("DELETE", f"{self.url}/_control/faults"))

    def configure(self, **changes: object) -> dict[str, Any]:
        """Change settings of the location (bridge/sandbox/ghl/world.py). Returns all of them."""
        return _read(_ask("PATCH", f"{self.url}/_control/settings", json=changes))


def _ask(method: str, url: str, *, token: str = "", **details: Any) -> requests.Response:  # noqa: ANN401 - handed on to requests as it is
    """One request past any proxy of the environment: both servers are on this machine, where no proxy finds them."""
    with requests.Session() as session:
        session.trust_env = False
        if token:
            session.headers["Authorization"] = f"Bearer {token}"
        return session.request(method, url, timeout=_TIMEOUT_S, **details)


def _read(answer: requests.Response) -> dict[str, Any]:
    answer.raise_for_status()
    document: dict[str, Any] = answer.json()
    return document

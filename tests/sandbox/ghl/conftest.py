"""One stand-in for each test file, reset before each test; and a client of it that is `requests` and nothing more."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
import requests

from bridge.sandbox.ghl import GhlStandIn

PHONE = "+12025550143"
OTHER_PHONE = "+12025550144"
MANY = 1_000_000


class Api:
    """The API as a client sees it. Every answer is a `requests.Response`; nothing is raised for a status."""

    def __init__(self, stand_in: GhlStandIn) -> None:
        self.stand_in = stand_in
        self.session = requests.Session()
        self.location = stand_in.world.location_id
        self.headers = {"Authorization": f"Bearer {stand_in.world.token}", "Version": "2021-07-28"}

    def ask(self, method: str, path: str, body: object = None, *, timeout: float = 5, **more) -> requests.Response:
        more.setdefault("headers", self.headers)
        return self.session.request(method, self.stand_in.url + path, json=body, timeout=timeout, **more)

    def create(self, phone: str = PHONE, **more) -> requests.Response:
        return self.ask("POST", "/contacts/", {"locationId": self.location, "phone": phone, **more.pop("fields", {})}, **more)

    def created(self, phone: str = PHONE, **fields) -> str:
        """The id of a new contact."""
        return self.create(phone, fields=fields).json()["contact"]["id"]

    def upsert(self, phone: str = PHONE, **fields) -> requests.Response:
        return self.ask("POST", "/contacts/upsert", {"locationId": self.location, "phone": phone, **fields})

    def find(self, phone: str = PHONE, **more) -> dict | None:
        """What search/duplicate finds."""
        query = {"locationId": self.location, "number": phone}
        return self.ask("GET", "/contacts/search/duplicate", params=query, **more).json()["contact"]

    def search(self, phone: str = PHONE, **more) -> list[dict]:
        filters = [{"field": "phone", "operator": "eq", "value": phone}]
        return self.ask("POST", "/contacts/search", {"locationId": self.location, "pageLimit": 20, "filters": filters, **more}).json()[
            "contacts"
        ]

    def note(self, contact_id: str, body: str = "a call", **more) -> requests.Response:
        return self.ask("POST", f"/contacts/{contact_id}/notes", {"body": body}, **more)

    def control(self, method: str, path: str, body: object = None) -> requests.Response:
        return requests.request(method, self.stand_in.url + path, json=body, timeout=5)


@pytest.fixture(scope="module")
def server() -> Iterator[GhlStandIn]:
    with GhlStandIn(burst=MANY) as stand_in:
        yield stand_in


@pytest.fixture
def ghl(server: GhlStandIn) -> GhlStandIn:
    """A stand-in without contacts, faults or a log."""
    server.reset()
    return server


@pytest.fixture
def api(ghl: GhlStandIn) -> Iterator[Api]:
    client = Api(ghl)
    yield client
    client.session.close()


def eventually(condition: Callable[[], object], within_s: float = 5) -> None:
    """Wait until `condition` is true."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)

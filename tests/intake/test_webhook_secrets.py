"""What proves a sender is not kept with what it sent, and what proves nothing is not kept at all."""

from __future__ import annotations

import json

import pytest
from pydantic import SecretStr

from app import build_parts
from bridge.intake.accept import Acceptor
from bridge.intake.raw import masks, raw
from bridge.intake.spool import Spool
from bridge.intake.webhook import Receiver
from bridge.ledger import keys
from bridge.ledger.ignored import IgnoredEvents, Shelf
from bridge.providers import registry
from bridge.providers.base import Answer, Ignored, Kind, Sender, WebhookRequest
from tests.support.builders import Clock, make_settings
from tests.support.house import House, make_store


class Talkative:
    """A provider whose token stands in the query and in the body."""

    name = "talkative"
    settings = ()

    def __init__(self, keep: bool) -> None:
        self.keep = keep

    def verify(self, request):
        return Sender()

    def parse(self, request, sender):
        return Ignored("a test", keep=self.keep)

    def warnings(self):
        return ()

    def answer(self, kind, request=None):
        return Answer(200 if kind is Kind.NEWS else 500)


def receive(connection, tmp_path, *, keep: bool) -> Receiver:
    house = House(connection)
    store = make_store(connection, Clock())
    receiver = Receiver({}, Acceptor(store, house.needs.plan, house.settings), store, Spool(tmp_path / "spool"), ["a-secret-token"])
    request = WebhookRequest("POST", "/webhooks/talkative", "token=a-secret-token", {}, b'{"token": "a-secret-token"}', "https://x", 1.0)
    assert receiver.receive(Talkative(keep), request).status == 200
    receiver.flush_counts()
    return receiver


def test_a_configured_secret_is_taken_out_of_query_and_body(connection, tmp_path):
    receive(connection, tmp_path, keep=True)
    (document,) = IgnoredEvents(connection).page(Shelf.UNREAD, limit=9).events
    assert document["query"] == "token=***"
    assert document["body"] == '{"token": "***"}'


def test_what_proves_nothing_leaves_a_counter_only(connection, tmp_path):
    receive(connection, tmp_path, keep=False)
    assert set(IgnoredEvents(connection).counts().values()) == {0}
    assert connection.hget(keys.COUNT, "events.ignored:a test") == b"1"


ONE, OTHER = "first-made-up-secret", "second/made-up+secret"
SEVERAL = {
    "one": ONE,
    "separated by spaces": f"{ONE} {OTHER}",
    "separated by commas": f"{ONE},{OTHER}",
    "on lines of their own": f"{ONE}\n{OTHER}",
    "JSON object": json.dumps({"AC1": ONE, "AC2": OTHER}),
    "JSON list, with escapes": json.dumps([ONE, OTHER]).replace("-", "\\u002d"),
}


SEVERAL_ALLOWED = [spec.name for spec in registry.SETTINGS if spec.secret and (spec.several or spec.free)]


def secrets(name: str, held: str) -> list[str]:
    """Those of a deployment with this one setting, whatever its adapter says to its form."""
    settings = make_settings().model_copy(update={"provider": {name: SecretStr(held)}})
    return build_parts(settings).secrets


@pytest.mark.parametrize("held", SEVERAL.values(), ids=SEVERAL)
@pytest.mark.parametrize("name", SEVERAL_ALLOWED)
def test_of_several_secrets_in_one_setting_each_is_taken_out_for_itself(name, held):
    body = json.dumps({"one": ONE, "other": OTHER}).encode()
    request = WebhookRequest("POST", "/webhooks/x", f"t={ONE}", {"x-key": OTHER}, body, "https://x", 1.0)
    kept = raw(request, "webhook", masks(secrets(name, held)))
    assert "first" not in kept
    assert ("second" in kept) is (held == ONE)


def test_a_password_with_a_comma_is_taken_out_whole():
    assert "pass,word-of-mine" in secrets("BANDWIDTH_API_PASSWORD", "pass,word-of-mine")

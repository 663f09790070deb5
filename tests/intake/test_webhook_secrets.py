"""What proves a sender is not kept with what it sent, and what proves nothing is not kept at all."""

from __future__ import annotations

from bridge.intake.accept import Acceptor
from bridge.intake.spool import Spool
from bridge.intake.webhook import Receiver
from bridge.ledger import keys
from bridge.ledger.ignored import IgnoredEvents, Shelf
from bridge.providers.base import Answer, Ignored, Kind, Sender, WebhookRequest
from tests.support.builders import Clock
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

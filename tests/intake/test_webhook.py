"""A webhook's way in: proven, read, kept and answered, also while Redis or the disk is away."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import redis
from pydantic import SecretStr

from bridge.errors import Refused
from bridge.intake.accept import Acceptor
from bridge.intake.drainer import Drainer
from bridge.intake.raw import RAW_LIMIT
from bridge.intake.spool import MAX_FAILURES, Spool
from bridge.intake.webhook import REST_S, Receiver
from bridge.ledger import keys
from bridge.ledger.entry import State, Taken
from bridge.ledger.ignored import Shelf
from bridge.providers.base import Ignored, Sender, WebhookRequest
from bridge.providers.reading import form_fields
from bridge.providers.signatures import twilio_signature
from bridge.providers.twilio import Twilio
from bridge.sandbox.phone import TwilioPhone, new_call
from tests.intake.events import until
from tests.providers.support import received
from tests.support.broken import unreachable
from tests.support.builders import ENVIRONMENT, TWILIO_TOKEN
from tests.support.house import House, make_store

PHONE = TwilioPhone(ENVIRONMENT["PUBLIC_URL"], TWILIO_TOKEN)
CALL = new_call(random.Random(1))
KEY = f"twilio-{CALL.sid}"
VOICE = received(PHONE.voice(CALL))
STATUS = received(PHONE.status(CALL, "completed", after_s=30))
OUTBOUND = received(PHONE.status(CALL, "completed", Direction="outbound-api"))


class Door:
    """The webhook room with one provider."""

    def __init__(self, house: House, spool: Path) -> None:
        self.house = house
        self.twilio = Twilio(house.settings)
        self.receiver = Receiver({"twilio": self.twilio}, house.acceptor, house.store, Spool(spool), flush_after_s=60)

    def post(self, request: WebhookRequest):
        return self.receiver.receive(self.twilio, request)

    def lose_redis(self) -> None:
        self.receiver.store = make_store(unreachable(), self.house.clock)
        self.receiver.acceptor = Acceptor(self.receiver.store, self.house.plan, self.house.settings)

    def find_redis(self) -> None:
        self.receiver.store, self.receiver.acceptor = self.house.store, self.house.acceptor


@pytest.fixture
def door(connection: redis.Redis, tmp_path: Path) -> Iterator[Door]:
    yield Door(House(connection), tmp_path / "var" / "spool.sqlite3")
    for timer in threading.enumerate():
        if isinstance(timer, threading.Timer):  # it would write into the next test's Redis
            timer.cancel()
            timer.join()


def ignored(door: Door) -> list[dict[str, Any]]:
    return [event for shelf in Shelf for event in door.house.store.ignored.page(shelf, limit=100).events]


def forged(request: WebhookRequest = VOICE) -> WebhookRequest:
    return replace(request, body=request.body + b"&Digits=9")


# ---- Genuine events


def test_a_call_is_stored_and_the_caller_hears_instructions(door: Door) -> None:
    answer = door.post(VOICE)
    assert (answer.status, answer.content_type) == (200, "text/xml; charset=utf-8")
    assert answer.body.startswith(b"<Response>")
    assert door.house.entry(KEY).state is State.ACCEPTED
    assert door.house.jobs() == [KEY]


def test_news_get_a_plain_yes(door: Door) -> None:
    assert door.post(STATUS).status == 204


def test_a_redelivery_gets_the_same_answer(door: Door) -> None:
    assert door.post(VOICE) == door.post(VOICE)
    assert len(door.house.entry(KEY).events) == 1


def test_a_caller_who_has_pressed_a_key_does_not_hear_the_beginning_again(door: Door, tmp_path: Path) -> None:
    menu = tmp_path / "menu.xml"
    menu.write_text("<Response><Say>Press one.</Say></Response>")
    door.house.settings = door.house.settings.model_copy(update={"provider": door.house.settings.provider | secrets(menu)})
    door.twilio = Twilio(door.house.settings)
    assert b"Press one" in door.post(VOICE).body
    assert b"Press one" not in door.post(received(PHONE.gather(CALL, digits="1"))).body


def secrets(menu: Path) -> dict[str, SecretStr]:
    return {"TWILIO_TWIML_FILE": SecretStr(str(menu))}


def test_the_raw_event_is_kept_without_what_could_be_used_again(door: Door) -> None:
    door.post(replace(VOICE, headers=dict(VOICE.headers) | {"authorization": "Basic x", "cookie": "x", "x-api-token": "x", "x-real": "y"}))
    (raw,) = [json.loads(item) for item in door.house.connection.lrange(keys.raw(KEY), 0, -1)]
    assert raw["body"] == VOICE.body.decode()
    assert (raw["path"], raw["source"]) == ("/webhooks/twilio/voice", "webhook")
    assert raw["headers"]["x-real"] == "y"
    assert not {"x-twilio-signature", "authorization", "cookie", "x-api-token"} & set(raw["headers"])


def test_a_huge_event_is_kept_up_to_a_limit(door: Door) -> None:
    fields = {"CallSid": CALL.sid, "From": CALL.caller, "To": CALL.dialled, "CallStatus": "ringing", "Direction": "inbound"}
    door.post(received(PHONE.post("voice", fields | {"Filler": "x" * 2 * RAW_LIMIT})))
    (raw,) = [json.loads(item) for item in door.house.connection.lrange(keys.raw(KEY), 0, -1)]
    assert len(raw["body"]) == RAW_LIMIT
    assert raw["body_bytes"] > 2 * RAW_LIMIT


# ---- Events that make no call


def test_an_ignored_event_is_kept_raw_with_its_reason_counted(door: Door) -> None:
    assert door.post(OUTBOUND).status == 204
    assert [event["reason"] for event in ignored(door)] == ["outbound call"]
    assert door.house.counted("events.ignored:outbound call") == 1
    assert door.house.store.get(KEY) is None


def test_a_genuine_event_that_cannot_be_read_is_kept_and_the_caller_hears_instructions(
    door: Door, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def crash(_request: WebhookRequest, _sender: Sender) -> Ignored:
        raise KeyError(CALL.caller)

    monkeypatch.setattr(door.twilio, "parse", crash, raising=False)
    answer = door.post(VOICE)
    assert (answer.status, answer.body[:10]) == (200, b"<Response>")
    assert door.house.counted("events.ignored:could not be read: KeyError") == 1
    assert "could not be read" in caplog.text


# ---- Refusals


def commands(connection: redis.Redis) -> int:
    """How many commands were run, those that ask for this number apart."""
    return sum(stat["calls"] for name, stat in connection.info("commandstats").items() if name not in {"cmdstat_info", "cmdstat_hello"})


def test_a_forged_request_costs_no_command_and_leaves_only_a_counter(door: Door) -> None:
    before = commands(door.house.connection)
    answer = door.post(forged())
    assert commands(door.house.connection) == before
    assert (answer.status, answer.content_type) == (403, "application/json")
    assert "TWILIO_AUTH_TOKEN" in json.loads(answer.body)["error"]
    assert not door.receiver.spool.path.exists()
    door.receiver.flush_counts()
    assert door.house.connection.hgetall(keys.COUNT) == {b"refused.twilio:signature wrong": b"1"}


def test_a_request_without_a_signature_is_unauthorized(door: Door) -> None:
    assert door.post(replace(VOICE, headers={"content-type": VOICE.headers["content-type"]})).status == 401


def test_a_signature_that_crashes_the_check_is_a_refusal(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(_request: WebhookRequest) -> Sender:
        raise UnicodeError

    monkeypatch.setattr(door.twilio, "verify", crash, raising=False)
    assert door.post(VOICE).status == 403
    door.receiver.flush_counts()
    assert door.house.counted("refused.twilio:unreadable") == 1


def test_refusals_are_written_by_themselves_after_a_while(door: Door) -> None:
    door.receiver.flush_after_s = 0.01
    for _ in range(3):
        door.post(forged())
    until(lambda: door.house.counted("refused.twilio:signature wrong") == 3)
    door.post(forged())
    until(lambda: door.house.counted("refused.twilio:signature wrong") == 4)
    assert door.receiver._refusals == {}, "what is written is not written again"


def test_refusals_outlast_an_outage(door: Door) -> None:
    door.lose_redis()
    door.post(forged())
    door.receiver.flush_counts()
    door.find_redis()
    door.receiver.flush_counts()
    door.receiver.flush_counts()
    assert door.house.counted("refused.twilio:signature wrong") == 1


# ---- Outages


def test_without_redis_the_event_is_spooled_and_the_caller_hears_the_same(door: Door) -> None:
    wanted = door.post(VOICE)
    door.house.connection.flushall()
    door.lose_redis()
    assert door.post(VOICE) == wanted
    assert door.receiver.spool.count() == 1


def test_the_spool_is_drained_into_the_ledger(door: Door) -> None:
    door.lose_redis()
    for request in (VOICE, STATUS, OUTBOUND):
        door.post(request)
    with pytest.raises(redis.RedisError):
        door.receiver.take_spooled(spooled(door))
    assert door.receiver.spool.count() == 3
    door.find_redis()
    assert door.receiver.spool.drain(door.receiver.take_spooled, limit=10) == 3
    entry = door.house.entry(KEY)
    assert (entry.source, len(entry.events), door.house.jobs()) == ("spool", 2, [KEY])
    assert len(ignored(door)) == 1


def spooled(door: Door):
    """The first event of the spool, which stays."""
    seen = []

    def look(item):
        seen.append(item)
        raise redis.ConnectionError

    door.receiver.spool.drain(look, limit=1)
    return seen[0]


@pytest.mark.parametrize("signed", [f"{VOICE.url}?", VOICE.url])
def test_a_question_mark_that_stands_alone_may_be_signed_or_not_also_by_way_of_the_spool(door: Door, signed: str) -> None:
    proof = twilio_signature(TWILIO_TOKEN, signed, form_fields(VOICE.body))
    request = replace(VOICE, headers={**VOICE.headers, "x-twilio-signature": proof}, has_bare_mark=True)
    door.lose_redis()
    assert door.post(request).status == 200
    door.find_redis()
    assert door.receiver.spool.drain(door.receiver.take_spooled, limit=10) == 1
    assert door.house.entry(KEY).source == "spool"
    elsewhere = twilio_signature(TWILIO_TOKEN, f"{VOICE.url}?x", form_fields(VOICE.body))
    assert door.post(replace(request, headers={**VOICE.headers, "x-twilio-signature": elsewhere})).status == 403


def test_a_spooled_event_that_had_arrived_is_a_repeat(door: Door) -> None:
    """The answer of Redis was lost: the event is in the ledger and in the spool."""
    door.lose_redis()
    door.post(VOICE)
    door.find_redis()
    door.receiver._rest_until = 0
    door.post(VOICE)
    door.receiver.spool.drain(door.receiver.take_spooled, limit=10)
    assert len(door.house.entry(KEY).events) == 1
    assert door.house.counted("events.repeat") == 1


def test_a_redis_that_failed_is_left_alone_for_a_moment(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[int] = []

    def fail(_event) -> Taken:
        tries.append(1)
        raise redis.ConnectionError

    monkeypatch.setattr(door.receiver.acceptor, "accept", fail)
    door.post(VOICE)
    door.post(STATUS)
    assert (len(tries), door.receiver.spool.count()) == (1, 2)
    door.receiver._rest_until -= REST_S
    door.post(STATUS)
    assert len(tries) == 2


def test_without_redis_and_disk_the_provider_is_asked_to_send_again(door: Door, tmp_path: Path) -> None:
    door.lose_redis()
    (tmp_path / "file").write_text("in the way of a folder")
    door.receiver.spool = Spool(tmp_path / "file" / "spool.sqlite3")
    answer = door.post(VOICE)
    assert (answer.status, answer.headers["Retry-After"]) == (503, "5")


def test_a_secret_that_changes_while_redis_is_away_costs_no_event_that_was_proven_before(door: Door) -> None:
    door.lose_redis()
    assert door.post(VOICE).status == 200
    door.find_redis()
    renewed = {"TWILIO_AUTH_TOKEN": SecretStr("another_auth_token_made_up_00002")}
    door.receiver.providers = {"twilio": Twilio(door.house.settings.model_copy(update={"provider": renewed}))}
    assert door.receiver.spool.drain(door.receiver.take_spooled, limit=1) == 1
    assert door.house.entry(KEY).source == "spool"


def test_an_event_of_an_older_release_is_proven_again(door: Door) -> None:
    """Version 1.0.0 did not write down whose signature it had been."""
    door.lose_redis()
    door.post(VOICE)
    item = replace(spooled(door), account=None)
    door.find_redis()
    with pytest.raises(Refused):
        door.receiver.take_spooled(replace(item, body=item.body + b"&x=1"))
    assert door.house.store.get(KEY) is None
    door.receiver.take_spooled(item)
    assert door.house.entry(KEY).source == "spool"


def test_an_event_of_a_call_whose_entry_cannot_be_read_is_kept_until_it_can(door: Door, caplog: pytest.LogCaptureFixture) -> None:
    door.post(VOICE)
    name = keys.entry(KEY)
    entry = door.house.connection.get(name)
    door.house.connection.set(name, json.dumps(json.loads(entry) | {"state": "a word of a newer release"}))
    assert door.post(STATUS).status == 204
    for _ in range(MAX_FAILURES):
        assert door.receiver.spool.drain(door.receiver.take_spooled, limit=1) == 0
    assert (door.receiver.spool.count(), door.receiver.spool.parked()) == (0, 1)
    assert "an event could not be taken; it waits in the spool" in [record.getMessage() for record in caplog.records]
    door.house.connection.set(name, entry)
    drainer = Drainer(door.receiver.spool, door.receiver.take_spooled)
    drainer.start()
    until(lambda: len(door.house.entry(KEY).events) == 2)
    drainer.stop()

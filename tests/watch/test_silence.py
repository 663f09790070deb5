"""Silence: one alert with its likely cause, and its own end when calls flow again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bridge.ledger import keys
from bridge.watch import silence
from bridge.watch.notify import Message
from bridge.watch.silence import Quiet, Signs, Silence, judge
from bridge.watch.standing import Book, Kind
from tests.support.builders import NOW, make_call, make_entry
from tests.support.house import House

URL = "https://ivr.example.com"
WEEK_S = 7 * 86_400.0
DIALLED = "+15550109999"


class Owner:
    """A route that remembers."""

    name = "owner"

    def __init__(self) -> None:
        self.heard: list[Message] = []

    def send(self, message: Message) -> None:
        self.heard.append(message)


@pytest.fixture
def house(connection):
    return House(connection)


@pytest.fixture
def owner():
    return Owner()


@pytest.fixture
def alarm(house, owner):
    return Silence(
        store=house.store,
        book=Book(house.connection),
        routes=[owner],
        public_url=URL,
        owner="anna",
        process="calls",
        after_calls=8,
        probe=lambda _url: True,
    )


def webhook(house, number, at=None):
    if at is not None:
        house.clock.at = at
    call = make_call(root_id=f"CA{number}")
    house.accept(call)
    return call.key


def missed(house, number):
    """A call that a list alone has told, on its way."""
    return house.put(make_entry(facts=make_call(root_id=f"CA{number}"), source="backfill", accepted_at=house.clock.at)).call_key


def look(alarm, *keys_missed):
    found = alarm.look(["twilio"], {"twilio": keys_missed})
    alarm.teller.outbox.join()
    return found.get("twilio")


# ---- What is said


def test_all_is_well_where_nothing_was_missed_and_nobody_is_quiet() -> None:
    assert judge(Signs("twilio", refused={"signature wrong": 3}), URL) is None


@pytest.mark.parametrize(
    ("signs", "cause", "do"),
    [
        (Signs("twilio", missed=2, web_answers=False, refused={"x": 1}), "the web process does not answer", "/healthz"),
        (
            Signs("twilio", missed=2, web_answers=True, refused={"signature wrong": 7}),
            "7 requests were refused (signature wrong)",
            "PUBLIC_URL",
        ),
        (Signs("twilio", missed=2, web_answers=True), "twilio does not call the bridge", "https://ivr.example.com/webhooks/twilio"),
    ],
)
def test_most_telling_sign_is_named_with_what_to_do(signs, cause, do) -> None:
    breach = judge(signs, URL)
    assert "twilio lists 2 calls that no webhook announced" in breach.say
    assert cause in breach.say
    assert do in breach.do


def test_quiet_numbers_are_named_with_what_is_usual() -> None:
    breach = judge(Signs("twilio", quiet=(Quiet("+1555***9999", 7200, 12.3),), web_answers=True), URL)
    assert "+1555***9999 (2 h, usually 12 calls)" in breach.say


def test_expectation_is_the_mean_of_the_weeks_by_the_share_of_each_hour() -> None:
    assert silence.expected_calls([(1.0, 8), (0.5, 4)], weeks=4) == 2.5


# ---- Missed calls


def test_missed_calls_are_told_once_and_the_next_webhook_ends_it(house, alarm, owner) -> None:
    webhook(house, 1)
    house.clock.advance(600)
    breach = look(alarm, missed(house, 2), missed(house, 3))
    assert breach.cause == "silence.twilio"
    assert breach.count == 2
    house.clock.advance(60)
    assert look(alarm) is not None, "nothing has come since"
    house.clock.advance(60)
    webhook(house, 4)
    assert look(alarm) is None
    assert [message.kind for message in owner.heard] == [Kind.OPEN, Kind.OVER]
    assert "twilio announces calls again" in owner.heard[1].title
    assert owner.heard[0].owner == "anna"


def test_alert_shows_no_number_of_anybody(house, alarm, owner) -> None:
    look(alarm, missed(house, 2))
    text = f"{owner.heard[0].title} {owner.heard[0].lines}"
    assert "5550101234" not in text
    assert "5550109999" not in text


def test_calls_from_before_the_ledger_are_no_silence(house, alarm) -> None:
    key = house.put(make_entry(facts=make_call(root_id="CA2"), source="backfill", suspect_since=NOW)).call_key
    assert look(alarm, key) is None


def test_refusals_since_all_was_well_are_the_likely_cause(house, alarm) -> None:
    house.store.count_many({"refused.twilio:signature wrong": 5, "refused.telnyx:signature wrong": 9})
    assert look(alarm) is None
    house.store.count_many({"refused.twilio:signature wrong": 3})
    breach = look(alarm, missed(house, 2))
    assert "3 requests were refused (signature wrong)" in breach.say


def test_web_is_only_asked_where_something_is_wrong(house, alarm) -> None:
    asked = []
    alarm.probe = asked.append
    look(alarm)
    assert asked == []
    look(alarm, missed(house, 2))
    assert asked == ["https://ivr.example.com/healthz"]


def test_web_that_is_not_there_does_not_answer() -> None:
    assert silence.web_answers("http://127.0.0.1:9/healthz") is False


# ---- Quiet numbers


def busy_weeks(house, an_hour=10, weeks=4) -> None:
    """So many calls in each of the three hours around now, in each of the last weeks."""
    rows = {}
    for week in range(1, weeks + 1):
        for number in range(3 * an_hour):
            rows[f"old-{week}-{number}"] = NOW - week * WEEK_S - 3600 + number * 3600 / an_hour
    house.connection.zadd(keys.index("dialled", keys.digest(DIALLED)), rows)


def test_number_that_is_quiet_for_longer_than_ever_is_told(house, alarm) -> None:
    busy_weeks(house)
    webhook(house, 1, at=NOW)
    assert look(alarm) is None
    house.clock.at = NOW + 1800
    assert look(alarm) is None, "five calls would have come: that may be chance"
    house.clock.at = NOW + 3600
    breach = look(alarm)
    assert "usually 10 calls" in breach.say
    assert breach.count == 1
    webhook(house, 2)
    assert look(alarm) is None


def test_same_silence_at_an_hour_without_calls_is_nothing(house, alarm) -> None:
    busy_weeks(house)
    webhook(house, 1, at=NOW + 3 * 3600)
    assert look(alarm) is None
    house.clock.advance(12 * 3600)
    assert look(alarm) is None


def test_young_ledger_does_not_know_what_is_usual(house, alarm) -> None:
    busy_weeks(house, weeks=1)
    webhook(house, 1, at=NOW)
    look(alarm)
    house.clock.at = NOW + 2 * 3600
    assert look(alarm) is None


def test_two_weeks_are_enough_and_are_not_read_as_four(house, alarm) -> None:
    busy_weeks(house, an_hour=10, weeks=2)
    webhook(house, 1, at=NOW + 3500)
    look(alarm)
    row = alarm.connection.zrange(silence.NUMBERS, 0, -1, withscores=True)[0]
    assert row[0].decode().startswith("twilio ")
    assert DIALLED not in row[0].decode()
    quiet = alarm._expected(keys.digest(DIALLED), NOW, NOW + 3600)
    assert quiet == pytest.approx(10, abs=1)


def test_listed_calls_do_not_count_as_announced(house, alarm) -> None:
    busy_weeks(house)
    webhook(house, 1, at=NOW)
    look(alarm)
    house.clock.at = NOW + 3600
    missed(house, 2)
    assert look(alarm) is not None


def test_signs_say_when_nothing_has_come_since_calls_were_missed() -> None:
    signs = Signs("twilio", missed_since=NOW, web_answers=True)
    assert "no webhook has come since calls were missed" in judge(signs, URL).say
    assert judge(replace(signs, missed_since=None), URL) is None

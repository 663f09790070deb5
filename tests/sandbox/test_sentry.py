"""The sandbox's Sentry reads envelopes as the real one does and answers as it is told."""

from __future__ import annotations

import gzip
import http.client
import json

import pytest
import requests

from bridge.sandbox.sentry import Item, Mood, SentryServer, decompress, parse_envelope

EVENT = b'{"event_id": "1"}\n{"type": "event", "length": 16}\n{"message": "a"}\n{"type": "check_in"}\n{"status": "ok"}\n'


@pytest.fixture
def sentry():
    with SentryServer() as server:
        yield server


def post(server, body, **headers):
    host = server.dsn.split("@")[1].removesuffix("/1")
    return requests.post(f"http://{host}/api/1/envelope/", data=body, headers=headers, timeout=5)


def test_items_with_and_without_a_length_are_read():
    assert parse_envelope(EVENT) == [Item("event", {"message": "a"}), Item("check_in", {"status": "ok"})]


def test_a_payload_may_hold_line_ends_and_bytes():
    assert parse_envelope(b'{}\n{"type": "attachment", "length": 4}\n\xff\n\x00a\n') == [Item("attachment", b"\xff\n\x00a")]


def test_a_cut_envelope_is_refused():
    with pytest.raises(ValueError, match="3 bytes before"):
        parse_envelope(b'{}\n{"type": "event", "length": 5}\n{}')


def test_compressed_envelopes_are_kept_by_type(sentry):
    assert post(sentry, gzip.compress(EVENT), **{"Content-Encoding": "gzip"}).status_code == 200
    assert sentry.wait_for(1) == [{"message": "a"}]
    assert sentry.check_ins == [{"status": "ok"}]
    assert sentry.texts == [EVENT.decode()]
    assert decompress(b"plain", "") == b"plain"


def test_what_is_no_envelope_gets_400(sentry):
    assert post(sentry, b"{}\nnonsense").status_code == 400
    assert sentry.refused == 1


def test_a_full_sentry_answers_429_and_keeps_nothing(sentry):
    sentry.mood = Mood.FULL
    answer = post(sentry, EVENT)
    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "60")
    assert (sentry.events, sentry.refused) == ([], 1)


def test_a_slow_sentry_keeps_first_and_answers_later():
    with SentryServer(Mood.SLOW, delay_s=0.2) as server:
        assert post(server, EVENT).elapsed.total_seconds() >= 0.2
        assert server.events


def test_a_gone_sentry_cuts_the_connection(sentry):
    sentry.mood = Mood.GONE
    with pytest.raises(requests.ConnectionError):
        post(sentry, EVENT)


def test_waiting_in_vain_says_what_came_instead(sentry):
    post(sentry, b'{}\n{"type": "check_in"}\n' + json.dumps({"status": "ok"}).encode())
    with pytest.raises(TimeoutError, match="check_in"):
        sentry.wait_for(1, timeout_s=0.05)


def test_it_listens_on_this_machine_alone(sentry):
    host, port = sentry.dsn.split("@")[1].removesuffix("/1").split(":")
    assert host == "127.0.0.1"
    connection = http.client.HTTPConnection(host, int(port), timeout=5)
    connection.connect()
    connection.close()

"""The JSON API: behind its token, without personal data, and complete from page to page."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import replace

import pytest
import redis
from flask import Flask
from flask.testing import FlaskClient

from bridge.console import api
from bridge.ledger import by_hand, keys, moves
from bridge.ledger.entry import Cause, State
from bridge.ledger.store import Change
from bridge.ledger.trail import line
from tests.support.broken import unreachable
from tests.support.builders import KEY, NOW, make_call, make_entry, parked_entry
from tests.support.house import House, make_store

TOKEN = "api-token-made-up"
NEEDED = {"call_key", "state", "cause", "owner", "contact_id", "age_s", "due_at", "next_try_at", "steps_done", "attempts"}


class Client:
    def __init__(self, flask: FlaskClient) -> None:
        self.flask = flask

    def get(self, path: str, token: str | None = f"Bearer {TOKEN}"):
        return self.flask.get(path, headers={"Authorization": token} if token is not None else {})


def client_of(store) -> Client:
    app = Flask("test")
    app.register_blueprint(api.blueprint(store, TOKEN))
    return Client(app.test_client())


@pytest.fixture
def house(connection: redis.Redis) -> House:
    return House(connection)


@pytest.fixture
def client(house: House) -> Client:
    return client_of(house.store)


# ---- Who may ask


@pytest.mark.parametrize("token", [None, "", "Bearer", "Bearer ", "Bearer wrong", f"Bearer {TOKEN}x", f"Basic {TOKEN}", f"Bearer {TOKEN}é"])
@pytest.mark.parametrize("path", ["/api/calls", f"/api/calls/{KEY}"])
def test_nobody_gets_in_without_the_token(client: Client, token: str | None, path: str) -> None:
    answer = client.get(path, token)
    assert answer.status_code == 401
    assert "API_TOKEN" in answer.get_json()["error"]


@pytest.mark.parametrize("token", [f"bearer {TOKEN}", f"BEARER  {TOKEN}"])
def test_the_name_of_the_scheme_may_be_written_in_any_case(client: Client, token: str) -> None:
    assert client.get("/api/calls", token).status_code == 200


def test_a_token_without_its_scheme_is_none(client: Client) -> None:
    assert client.get("/api/calls", TOKEN).status_code == 401


def test_a_state_may_be_written_as_people_read_it(client: Client) -> None:
    assert client.get("/api/calls?state=needs+attention").status_code == 200


@pytest.mark.parametrize("query", ["stat=done", "state=done&ownr=anna", "like=twilio-CA1"])
def test_a_filter_that_does_not_exist_is_no_question_for_everything(client: Client, query: str) -> None:
    answer = client.get(f"/api/calls?{query}")
    assert answer.status_code == 400
    assert "owner" in answer.get_json()["error"]


ODD = [
    ("POST", "/api/calls", 405),
    ("DELETE", "/api/calls", 405),
    ("PATCH", f"/api/calls/{KEY}", 405),
    ("PUT", "/api/calls/", 405),
    ("GET", "/api/calls/", 404),
    ("GET", f"/api/calls/{KEY}/trail", 404),
    ("GET", "/api/call", 404),
    ("POST", "/api/nothing", 404),
    ("GET", "/api/calls/%2e%2e%2fconsole", 404),
    ("GET", "/api/calls/twilio-%F0%9F%98%80%00", 404),
]


@pytest.mark.parametrize(("method", "path", "status"), ODD)
def test_a_program_that_asks_wrongly_gets_json_and_a_stranger_only_the_door(client: Client, method: str, path: str, status: int) -> None:
    answer = client.flask.open(path, method=method, headers={"Authorization": f"Bearer {TOKEN}"})
    assert (answer.status_code, answer.is_json) == (status, True)
    assert answer.get_json()["error"]
    assert answer.headers["Cache-Control"] == "no-store"
    assert ("GET" in answer.headers.get("Allow", "")) is (status == 405)
    assert client.flask.open(path, method=method).status_code == 401


@pytest.mark.parametrize("path", ["/api/calls", f"/api/calls/{KEY}"])
def test_head_is_get_without_its_body_and_options_says_what_there_is(house: House, client: Client, path: str) -> None:
    house.accept(make_call())
    head, got = (client.flask.open(path, method=method, headers={"Authorization": f"Bearer {TOKEN}"}) for method in ("HEAD", "GET"))
    assert (head.status_code, head.data, head.content_length) == (200, b"", len(got.data))
    assert client.flask.options(path, headers={"Authorization": f"Bearer {TOKEN}"}).headers["Allow"].count("GET") == 1
    assert client.flask.head(path).status_code == client.flask.options(path).status_code == 401


def test_a_fault_of_our_own_is_json_and_an_error_in_the_log(house: House, client: Client, caplog: pytest.LogCaptureFixture) -> None:
    house.connection.set(keys.entry(KEY), '{"written": "by another version"}')
    answer = client.get(f"/api/calls/{KEY}")
    assert (answer.status_code, answer.is_json) == (500, True)
    assert [record.levelname for record in caplog.records] == ["ERROR"]


@pytest.mark.parametrize("query", ["state=done&state=accepted", "limit=1&limit=2", "cursor=&cursor="])
def test_no_value_of_a_question_is_left_out_without_a_word(client: Client, query: str) -> None:
    answer = client.get(f"/api/calls?{query}")
    assert answer.status_code == 400
    assert "more than once" in answer.get_json()["error"]


# ---- One call


def in_every_state(house: House) -> Iterator[tuple[str, dict[str, bool]]]:
    """The call in one state after the other, and which of its fields say something then."""
    nothing = dict.fromkeys(("cause", "due_at", "next_try_at", "waiting_for", "contact_id", "reason", "closed_by"), False)
    house.accept(make_call())
    yield "accepted", nothing
    house.change(lambda entry, now: moves.begin(entry, now, lease_s=30, worker="w"))
    yield "running", nothing
    again = {"delay": 9.0, "spend": True, "cause": "crm.429", "message": "wait", "step": "find_or_create_lead", "trace_id": None}
    house.change(lambda entry, now: moves.wait(entry, now, **again))
    yield "accepted", nothing | {"next_try_at": True, "waiting_for": True}
    house.run_again()
    yield "done", nothing | {"contact_id": True}
    for cause in Cause:
        house.put(parked_entry(cause))
        yield "needs_attention", nothing | {"cause": True, "due_at": True}
    house.change(lambda entry, _now: by_hand.close(entry, reason="rang back", by="olga"))
    yield "done", nothing | {"reason": True, "closed_by": True}


def test_every_field_says_something_in_those_states_in_which_it_has_something_to_say(house: House, client: Client) -> None:
    for state, fields in in_every_state(house):
        call = client.get(f"/api/calls/{KEY}").get_json()
        assert call["state"] == state
        assert {name: call[name] is not None for name in fields} == fields, state
        [listed] = client.get(f"/api/calls?state={state}").get_json()["calls"]
        assert {**call, "trail": None} == {**listed, "trail": None}
        assert [client.get(f"/api/calls?state={other}").get_json()["calls"] for other in State if other != state] == [[], [], []]


def test_a_done_call_is_told_with_its_trail(house: House, client: Client) -> None:
    house.accept(make_call(caller_name="JANE DOE"))
    house.run()
    house.clock.advance(5)
    answer = client.get(f"/api/calls/{KEY}")
    call = answer.get_json()
    assert answer.status_code == 200
    assert set(call) >= NEEDED
    assert (call["state"], call["cause"], call["contact_id"], call["owner"], call["age_s"]) == ("done", None, "c1", "anna", 5.0)
    assert call["steps_done"] == ["find_or_create_lead", "tag_lead", "note_call"]
    assert [attempt["outcome"] for attempt in call["attempts"]] == ["done"]
    assert call["accepted_at"] == "2026-01-15T15:04:05.000Z"
    assert [told["what"] for told in call["trail"]] == ["event new", "attempt began", "lead", "note written", "attempt ended"]
    assert call["trail"][0]["at"] == "2026-01-15T15:04:05.000Z"


def test_no_caller_shows_in_any_answer(house: House, client: Client) -> None:
    house.accept(make_call(caller_name="JANE DOE"))
    house.accept(make_call(dialled="+15550100000"))
    for path in ("/api/calls", f"/api/calls/{KEY}"):
        text = client.get(path).get_data(as_text=True)
        assert "5550" not in text
        assert "JANE" not in text


def test_a_parked_call_says_why_and_what_to_do(house: House, client: Client) -> None:
    house.put(parked_entry())
    call = client.get(f"/api/calls/{KEY}").get_json()
    assert (call["state"], call["cause"], call["cause_word"], call["hint"]) == (
        "needs_attention",
        "permanent",
        "crm.403",
        "Check GHL_TOKEN.",
    )
    assert call["due_at"] == "2026-01-15T15:05:05.000Z"


def test_a_waiting_call_says_until_when_and_for_what(house: House, client: Client) -> None:
    house.accept(make_call(caller=None))
    call = client.get(f"/api/calls/{KEY}").get_json()
    assert (call["next_try_at"], call["waiting_for"]) == ("2026-01-15T15:19:05.000Z", "no event has named the caller yet")


def test_times_in_the_trail_are_instants(house: House, client: Client) -> None:
    told_then = line(NOW, "x", next_try_at=NOW + 1.5, attempt=1)
    house.store.change(KEY, lambda _old, _moment: Change(make_entry(), (told_then,)))
    (told,) = client.get(f"/api/calls/{KEY}").get_json()["trail"]
    assert told == {"at": "2026-01-15T15:04:05.000Z", "what": "x", "next_try_at": "2026-01-15T15:04:06.500Z", "attempt": 1}


def test_an_unknown_call_is_not_found(client: Client) -> None:
    assert client.get("/api/calls/twilio-nobody").status_code == 404


# ---- Many calls


def fill(house: House, count: int, *, state: State = State.ACCEPTED) -> list[str]:
    call_keys = []
    for number in range(count):
        call = make_call(root_id=f"{state.value.replace('_', '')}{number:03d}")
        house.put(replace(make_entry(facts=call), accepted_at=NOW + number // 3, state=state))
        call_keys.append(call.key)
    return call_keys


def pages(client: Client, query: str) -> Iterator[list[str]]:
    cursor = ""
    while cursor is not None:
        page = client.get(f"/api/calls?{query}&cursor={cursor}").get_json()
        yield [call["call_key"] for call in page["calls"]]
        cursor = page["next_cursor"]


def test_every_call_stands_on_exactly_one_page(house: House, client: Client) -> None:
    accepted, done = fill(house, 10), fill(house, 5, state=State.DONE)
    found = list(pages(client, "state=accepted&limit=3"))
    assert [len(page) for page in found] == [3, 3, 3, 1]
    assert [call_key for page in found for call_key in page] == accepted
    assert {call_key for page in pages(client, "limit=4") for call_key in page} == {*accepted, *done}


def test_calls_that_have_expired_do_not_end_the_list(house: House, client: Client) -> None:
    call_keys = fill(house, 12)
    house.connection.delete(*(keys.entry(call_key) for call_key in call_keys[2:9]))
    assert [call_key for page in pages(client, "limit=2") for call_key in page] == call_keys[:2] + call_keys[9:]


def test_a_full_last_page_has_no_next(house: House, client: Client) -> None:
    fill(house, 2)
    answer = client.get("/api/calls?limit=2").get_json()
    assert (len(answer["calls"]), answer["next_cursor"]) == (2, None)


def test_an_empty_ledger_has_no_calls(client: Client) -> None:
    assert client.get("/api/calls?state=done").get_json() == {"calls": [], "next_cursor": None}


def cursor(*values: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(values).encode()).decode()


@pytest.mark.parametrize(
    "query",
    [
        "state=finished",
        "limit=many",
        "cursor=%%%",
        "cursor=nonsense",
        f"cursor={cursor(1)}",
        f"cursor={cursor('nan', 'x')}",
        f"cursor={cursor(float('inf'), 'x')}",
        "cursor=" + base64.urlsafe_b64encode(b"5").decode(),
    ],
)
def test_a_wrong_question_is_answered_with_the_right_ones(client: Client, query: str) -> None:
    answer = client.get(f"/api/calls?{query}")
    assert answer.status_code == 400
    assert "needs_attention" in answer.get_json()["error"]


@pytest.mark.parametrize(("limit", "count"), [("0", 1), ("-5", 1), ("99999", 7)])
def test_the_limit_stays_within_bounds(house: House, client: Client, limit: str, count: int) -> None:
    fill(house, 7)
    assert len(client.get(f"/api/calls?limit={limit}").get_json()["calls"]) == count


@pytest.mark.parametrize("path", ["/api/calls", f"/api/calls/{KEY}"])
def test_without_redis_it_says_to_try_again(path: str) -> None:
    answer = client_of(make_store(unreachable())).get(path)
    assert answer.status_code == 503
    assert "Redis" in answer.get_json()["error"]

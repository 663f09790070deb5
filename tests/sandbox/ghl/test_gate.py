"""Token, version, location, rate limits: what every request has to pass."""

from __future__ import annotations

from http.client import HTTPConnection

import pytest

from bridge.sandbox.ghl.limits import RateLimiter
from bridge.sandbox.ghl.world import World

RATE_HEADERS = {
    "X-RateLimit-Limit-Daily",
    "X-RateLimit-Daily-Remaining",
    "X-RateLimit-Interval-Milliseconds",
    "X-RateLimit-Max",
    "X-RateLimit-Remaining",
}


def test_location_tells_its_duplicate_switch(api, ghl):
    ghl.configure(allow_duplicate_contact=True, timezone="Europe/Berlin", country="DE")
    location = api.ask("GET", f"/locations/{api.location}").json()["location"]
    assert location["settings"]["allowDuplicateContact"] is True
    assert (location["id"], location["timezone"], location["country"]) == (api.location, "Europe/Berlin", "DE")


@pytest.mark.parametrize("headers", [{"Authorization": "Bearer wrong"}, {"Authorization": "pit-sandbox"}, {"Authorization": ""}])
def test_wrong_token_answers_401_invalid_jwt(api, headers):
    answer = api.create(headers={**api.headers, **headers})
    assert (answer.status_code, answer.json()["message"]) == (401, "Invalid JWT")


@pytest.mark.parametrize(("version", "message"), [(None, "version header was not found."), ("2021-04-15", "version header is invalid")])
def test_wrong_version_answers_401_that_is_no_matter_of_the_token(api, version, message):
    answer = api.create(headers={**api.headers, "Version": version})
    assert (answer.status_code, answer.json()["message"]) == (401, message)


def test_version_v3_is_taken_and_spells_success_both_ways(api):
    answer = api.ask("DELETE", f"/contacts/{api.created()}", headers={**api.headers, "Version": "v3"})
    assert (answer.json()["succeeded"], answer.json()["succeded"]) == (True, True)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/locations/another", None),
        ("GET", "/contacts/search/duplicate?locationId=another&number=1", None),
        ("POST", "/contacts/search", {"locationId": "another", "pageLimit": 1}),
        ("POST", "/contacts/", {"locationId": "another"}),
        ("POST", "/contacts/upsert", {"locationId": "another"}),
    ],
)
def test_another_location_answers_403(api, method, path, body):
    answer = api.ask(method, path, body)
    assert (answer.status_code, answer.json()["message"]) == (403, "The token does not have access to this location.")


@pytest.mark.parametrize(
    ("state", "status", "message"),
    [
        ("revoked", 401, "Invalid JWT"),
        ("scope_missing", 401, "The token is not authorized for this scope."),
        ("wrong_location", 403, "The token does not have access to this location."),
    ],
)
def test_token_can_lose_its_worth_and_regain_it(api, ghl, state, status, message):
    ghl.configure(token_state=state)
    answer = api.create()
    assert (answer.status_code, answer.json()["message"]) == (status, message)
    ghl.configure(token_state="valid")
    assert api.create().status_code == 201


@pytest.mark.parametrize("body", ["{", "[]", '"text"'])
def test_body_that_is_no_object_is_refused_with_400(api, body):
    answer = api.session.post(f"{api.stand_in.url}/contacts/", data=body, headers=api.headers, timeout=5)
    assert answer.status_code == 400


def test_unknown_path_answers_404(api):
    answer = api.ask("GET", "/opportunities/search")
    assert (answer.status_code, answer.json()["message"]) == (404, "Cannot GET /opportunities/search")


def test_path_without_its_trailing_slash_is_the_same(api):
    assert api.ask("POST", "/contacts", {"locationId": api.location}).status_code == 201


@pytest.mark.parametrize(("header", "status"), [(("Transfer-Encoding", "chunked"), 411), (("Content-Length", "1000001"), 413)])
def test_body_without_a_length_or_beyond_a_megabyte_is_refused(ghl, header, status):
    connection = HTTPConnection("127.0.0.1", ghl.port, timeout=5)
    connection.putrequest("POST", "/contacts/")
    connection.putheader(*header)
    connection.endheaders()
    assert connection.getresponse().status == status
    connection.close()


def test_every_answer_carries_the_rate_headers(api, ghl):
    ghl.configure(burst=50, burst_window_s=7, daily=1000)
    answers = [api.create(), api.create(), api.create(headers={}), api.ask("GET", "/nowhere")]
    assert all(set(answer.headers) >= RATE_HEADERS for answer in answers)
    first = answers[0].headers
    assert (first["X-RateLimit-Max"], first["X-RateLimit-Remaining"]) == ("50", "49")
    assert (first["X-RateLimit-Interval-Milliseconds"], first["X-RateLimit-Daily-Remaining"]) == ("7000", "999")


def test_burst_beyond_the_limit_answers_429_and_does_nothing(api, ghl):
    ghl.configure(burst=3)
    statuses = [api.create(f"+1202555014{number}").status_code for number in range(5)]
    assert statuses == [201, 201, 201, 429, 429]
    assert len(ghl.truth.contacts()) == 3


def test_daily_limit_is_told_apart_by_its_header(api, ghl):
    ghl.configure(daily=1)
    api.create()
    answer = api.create()
    assert (answer.status_code, answer.headers["X-RateLimit-Daily-Remaining"]) == (429, "0")
    assert answer.headers["X-RateLimit-Remaining"] != "0"
    assert "Retry-After" not in answer.headers


def test_rate_headers_and_retry_after_can_be_switched(api, ghl):
    ghl.configure(burst=1, rate_headers=False, retry_after_s=3)
    api.create()
    answer = api.create()
    assert answer.headers["Retry-After"] == "3"
    assert not RATE_HEADERS & set(answer.headers)


def test_limit_slides_with_its_window_and_the_day_starts_anew():
    now = [0.0]
    limiter, world = RateLimiter(clock=lambda: now[0]), World(burst=2, burst_window_s=10, daily=3, day_s=100)
    assert [limiter.take(world) for _ in range(3)] == [True, True, False]
    now[0] = 10
    assert [limiter.take(world) for _ in range(2)] == [True, False]
    now[0] = 100
    assert limiter.take(world)
    assert limiter.headers(world)["X-RateLimit-Daily-Remaining"] == "2"


def test_documented_limits_are_the_default():
    world = World()
    assert (world.burst, world.burst_window_s, world.daily) == (100, 10, 200_000)

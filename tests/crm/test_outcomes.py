import json

import pytest

from bridge.crm.causes import Cause
from bridge.crm.outcomes import Broken, Kind, Request, Response, Success, judge, rate_limit_wait_s, retry_after_s, unreadable
from bridge.errors import Gone, Permanent, Transient, Uncertain

READ = Request("find contact", Kind.READ, "contacts.readonly")
NOTES = Request("list notes", Kind.READ, "contacts.readonly", on_contact=True)
TAGS = Request("add tags", Kind.IDEMPOTENT_WRITE, "contacts.write", on_contact=True)
CREATE = Request("create contact", Kind.CREATE, "contacts.write")
NOTE = Request("add note", Kind.CREATE, "contacts.write", on_contact=True)
EVERY = (READ, NOTES, TAGS, CREATE, NOTE)


def answer(status, data=None, *, body=None, headers=None, broken=None):
    return Response(status, headers or {}, json.dumps(data).encode() if body is None else body, broken)


def said(status, message, **more):
    return answer(status, {"statusCode": status, "message": message, "traceId": "t-1"} | more)


def verdict(request, outcome):
    error = judge(request, outcome)
    return type(error), error.cause


OPEN = (Transient, Transient, Transient, Uncertain, Uncertain)


@pytest.mark.parametrize(
    ("outcome", "cause"),
    [
        (Broken.TIMEOUT, Cause.TIMEOUT),
        (Broken.RESET, Cause.RESET),
        (answer(200, body=b'{"contact": {"i', broken=Broken.TIMEOUT), Cause.TIMEOUT),
        (answer(201, body=b"{", broken=Broken.RESET), Cause.RESET),
        (said(408, "Request Timeout"), Cause.NOT_NOW),
        (said(500, "Internal server error"), Cause.SERVER),
        (said(500, "402 Payment Required: plan"), Cause.SERVER),
        (answer(502, body=b"<html>Bad gateway</html>"), Cause.SERVER),
        (answer(524, body=b""), Cause.SERVER),
        (answer(201, body=b""), Cause.UNREADABLE),
        (answer(204, body=b""), Cause.UNREADABLE),
        (answer(200, body=b"<html>", headers={"content-type": "text/html"}), Cause.UNREADABLE),
        (answer(200, body=b"Sorry, duplicate contact found with the same email address."), Cause.UNREADABLE),
        (answer(200, ["a list"]), Cause.UNREADABLE),
        (answer(200, body=b"\xff\xfe{}"), Cause.UNREADABLE),
        (answer(200, body=b"[" * 100_000), Cause.UNREADABLE),
    ],
)
def test_lost_or_unreadable_answer_leaves_creates_open_and_lets_the_rest_come_again(outcome, cause):
    assert [verdict(request, outcome) for request in EVERY] == [(error, cause) for error in OPEN]


@pytest.mark.parametrize(
    ("outcome", "cause", "retry_in"),
    [
        (Broken.NOT_SENT, Cause.CONNECT, None),
        (answer(425, body=b"", headers={"retry-after": "3"}), Cause.NOT_NOW, 3),
        (said(429, "Too Many Requests"), Cause.RATE_LIMIT, 10),
        (answer(429, {}, headers={"retry-after": "7", "x-ratelimit-interval-milliseconds": "10000"}), Cause.RATE_LIMIT, 7),
        (answer(429, {}, headers={"retry-after": "0", "x-ratelimit-interval-milliseconds": "4000"}), Cause.RATE_LIMIT, 4),
        (answer(429, {}, headers={"retry-after": "999999999999"}), Cause.RATE_LIMIT, 3600),
        (answer(429, {}, headers={"x-ratelimit-daily-remaining": "0"}), Cause.DAILY_LIMIT, 900),
        (answer(429, {}, headers={"x-ratelimit-daily-remaining": "0", "retry-after": "4000"}), Cause.DAILY_LIMIT, 4000),
        (answer(429, {}, headers={"x-ratelimit-daily-remaining": "150"}), Cause.RATE_LIMIT, 10),
        (answer(429, body=b"", broken=Broken.RESET), Cause.RATE_LIMIT, 10),
    ],
)
def test_refusal_for_now_changed_nothing_whatever_was_asked(outcome, cause, retry_in):
    for request in EVERY:
        error = judge(request, outcome)
        assert (type(error), error.cause, error.retry_in) == (Transient, cause, retry_in)


@pytest.mark.parametrize(
    ("outcome", "cause", "hint"),
    [
        (said(401, "Invalid JWT"), Cause.TOKEN, "GHL_TOKEN"),
        (said(401, "Invalid token: access token is invalid"), Cause.TOKEN, "GHL_TOKEN"),
        (answer(401, body=b"", broken=Broken.TIMEOUT), Cause.TOKEN, "GHL_TOKEN"),
        (said(401, "The token is not authorized for this scope."), Cause.SCOPE, "contacts."),
        (said(401, "This route is not yet supported by the IAM Service."), Cause.SCOPE, "contacts."),
        (said(403, "The token does not have access to this location."), Cause.FORBIDDEN, "GHL_LOCATION_ID"),
        (said(400, "Endpoint /x not available in API version v3. It was removed."), Cause.VERSION, "Callbridge"),
        (said(400, "Invalid field additional_phones"), Cause.INVALID, "field"),
        (said(400, ["phone must be a valid phone number"]), Cause.INVALID, "field"),
        (said(400, "No."), Cause.BAD_REQUEST, "trace id"),
        (answer(404, {"message": "Cannot POST /contact/"}), Cause.NOT_FOUND, "GHL_BASE_URL"),
        (answer(301, body=b"", headers={"location": "https://elsewhere.example"}), Cause.REDIRECT, "GHL_BASE_URL"),
        (answer(402, body=b""), Cause.STATUS, "status"),
        (answer(418, {"error": {"message": "teapot"}}), Cause.STATUS, "status"),
    ],
)
def test_refusal_for_good_is_permanent_and_names_what_to_change(outcome, cause, hint):
    for request in EVERY:
        error = judge(request, outcome)
        assert (type(error), error.cause) == (Permanent, cause)
        assert hint in error.hint


def test_422_on_a_contact_may_have_created_it_and_is_final_elsewhere():
    outcome = said(422, ["property X should not exist"])
    assert [verdict(request, outcome)[0] for request in EVERY] == [Permanent, Permanent, Permanent, Uncertain, Permanent]
    assert {verdict(request, outcome)[1] for request in EVERY} == {Cause.UNPROCESSABLE}


@pytest.mark.parametrize(
    "outcome",
    [
        said(400, "Contact with id sGB7PXqVfLmWbS5yPXaM not found"),
        said(422, "Contact not found"),
        said(404, "Note not found"),
        answer(404, body=b""),
        answer(410, body=b""),
    ],
)
def test_not_found_below_a_contact_means_gone(outcome):
    assert [verdict(request, outcome) for request in (NOTES, TAGS, NOTE)] == [(Gone, Cause.GONE)] * 3
    assert type(judge(READ, outcome)) is not Gone


DUPLICATE = "This location does not allow duplicated contacts."


@pytest.mark.parametrize("status", [400, 409])
def test_refused_duplicate_with_an_id_is_a_success(status):
    outcome = said(status, DUPLICATE, meta={"contactId": "c1", "contactName": "Ann", "matchingField": "phone"})
    result = judge(CREATE, outcome)
    assert isinstance(result, Success)
    assert (result.existing_id, result.trace_id) == ("c1", "t-1")


@pytest.mark.parametrize(
    "outcome",
    [
        said(400, DUPLICATE),
        said(400, DUPLICATE, meta={}),
        said(400, DUPLICATE, meta="none"),
        said(400, DUPLICATE, meta={"contactId": ""}),
        said(400, DUPLICATE, meta={"contactId": 7}),
        said(400, DUPLICATE, meta={"contactId": "c1", "matchingField": "email"}),
        said(409, "Conflict"),
        answer(400, body=b'{"message": "This loc', broken=Broken.RESET),
    ],
)
def test_refused_duplicate_without_a_usable_id_is_looked_for(outcome):
    assert verdict(CREATE, outcome) == (Uncertain, Cause.DUPLICATE_UNNAMED)


def test_duplicate_means_nothing_special_on_a_note():
    assert verdict(NOTE, said(400, DUPLICATE, meta={"contactId": "c1"}))[0] is Permanent


def test_success_carries_data_and_trace_id():
    assert judge(READ, answer(200, {"contact": None, "traceId": "t-9"})) == Success({"contact": None, "traceId": "t-9"}, "t-9")


def test_too_large_an_answer_to_a_read_is_final():
    outcome = answer(200, body=b"{", broken=Broken.TOO_LARGE)
    assert verdict(NOTES, outcome) == (Permanent, Cause.TOO_LARGE)
    assert verdict(CREATE, outcome) == (Uncertain, Cause.UNREADABLE)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"message": "one\\n two"}', "one two"),
        (b'{"message": ["one", {"two": 2}]}', 'one; {"two": 2}'),
        (b'{"message": {"en": "one"}}', '{"en": "one"}'),
        (b'{"error": {"code": 7, "message": "one"}}', "one"),
        (b'{"error": "Bad Request"}', "Bad Request"),
        (b"{}", "an empty body"),
        (b"", "an empty body"),
        (b"<html>one</html>", "<html>one</html>"),
        (b"\xff", "\ufffd"),
        (b"x" * 5000, "x" * 200),
    ],
)
def test_every_shape_of_message_is_read(body, words):
    error = judge(READ, Response(400, {}, body))
    assert str(error) == "GoHighLevel answered 400 to `find contact`"
    assert error.said == words


@pytest.mark.parametrize("personal", ["+12025550143", "(202) 555-0143", "ann@example.com"])
def test_words_of_the_crm_are_masked(personal):
    for request in EVERY:
        assert personal not in str(judge(request, said(400, f"No: {personal} is not welcome")))


def test_trace_id_is_kept_in_errors_and_never_too_long():
    assert judge(READ, said(403, "no")).trace_id == "t-1"
    assert len(judge(READ, answer(403, {"traceId": "x" * 500})).trace_id) == 100
    assert judge(READ, answer(403, {"traceId": {"a": 1}})).trace_id is None


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("7", 7),
        ("1.5", 1.5),
        ("999999999999", 86_400),
        ("Wed, 21 Oct 2015 07:28:30 GMT", 30),
        ("Wed, 21 Oct 2015 07:27:00 GMT", 0),
        ("-5", None),
        ("soon", None),
        ("", None),
        ("1e9", None),
        ("٣", None),
    ],
)
def test_retry_after_is_read_as_seconds_or_date(value, seconds):
    assert retry_after_s({"retry-after": value, "date": "Wed, 21 Oct 2015 07:28:00 GMT"}) == seconds


def test_date_without_a_clock_to_compare_with_is_ignored():
    assert retry_after_s({"retry-after": "Wed, 21 Oct 2015 07:28:30 GMT"}) is None


@pytest.mark.parametrize("value", ["", "x", "1.5", "9" * 40])
def test_unreadable_rate_header_falls_back_to_ten_seconds(value):
    assert rate_limit_wait_s({"x-ratelimit-interval-milliseconds": value}) == 10


def test_promise_not_kept_in_a_2xx_leaves_a_create_open():
    assert type(unreadable(CREATE, "t", "no id")) is Uncertain
    assert type(unreadable(READ, "t", "no id")) is Transient


def test_server_error_on_a_create_keeps_the_servers_word_on_time():
    assert judge(CREATE, answer(503, {}, headers={"retry-after": "30"})).retry_in == 30

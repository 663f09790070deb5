"""K12, privacy and exposure: no number, name or key in a log, a job's description, an alert, or a page for anybody."""

from __future__ import annotations

import io
import json
import logging

import pytest
from rq.job import Job
from rq.serializers import JSONSerializer

import app
from bridge.watch import logs
from bridge.watch.masking import mask
from tests.cases.support import ADA, AT_CREATE, AT_NOTE, TOKEN, settings, twilio_key
from tests.console.support import USERS, Browser
from tests.roads.support import joined
from tests.support.builders import TWILIO_TOKEN

NAME = "Zebulon Quartermaine"
SAID = "my account is in Poughkeepsie"
PRIVATE = ("2025550143", "Zebulon", "Quartermaine", "Poughkeepsie", TOKEN, TWILIO_TOKEN)
API_TOKEN = "api-token-made-up-for-tests"
OPEN = ("/healthz", "/readyz", "/metrics")


@pytest.fixture
def written():
    """Everything that is logged at DEBUG, as the formatter lets it out."""
    stream, root = io.StringIO(), logging.getLogger()
    handler, level = logging.StreamHandler(stream), root.level
    handler.setFormatter(logs.formatter())
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield stream
    root.removeHandler(handler)
    root.setLevel(level)


def shown(text):
    plain = joined(text)
    return [one for one in PRIVATE if one in text or one in plain]


@pytest.mark.parametrize("fault", [None, AT_CREATE, AT_NOTE], ids=["success", "create fails", "note fails"])
def test_b121_nothing_personal_is_written_at_any_level(make_crew, written, fault):
    crew = make_crew(workers=1, MAX_ATTEMPTS="2")
    if fault:
        told = json.dumps({"message": f"phone {ADA} of {NAME} is already taken"})
        crew.ghl.add_fault("plain_text", status=400, text=told, **fault)
    call = crew.phones.call()
    crew.post(crew.phones.ended(call, CallerName=NAME, TranscriptionSid="TR1", TranscriptionText=SAID))
    job = Job.fetch(twilio_key(call), connection=crew.connection, serializer=JSONSerializer)
    assert job.description == "call"
    crew.rest()
    assert crew.state(call) == ("needs_attention" if fault else "done")
    assert shown(written.getvalue()) == []
    assert twilio_key(call) in written.getvalue()


def test_b124_what_the_crm_echoes_reaches_neither_exception_nor_log(make_crew, written):
    crew = make_crew(workers=1)
    told = json.dumps({"message": f"phone {ADA} for {NAME} already taken"})
    crew.ghl.add_fault("plain_text", status=403, text=told, path="/contacts/search/duplicate")
    call = crew.phones.call()
    crew.post(crew.phones.ended(call, CallerName=NAME))
    crew.rest()
    [failure] = crew.failed
    assert shown(f"{failure} {failure.hint} {failure.args} {failure.__cause__}") == []
    logging.getLogger("test").error("the CRM said %s", told.replace(NAME, ""), exc_info=failure)
    logging.getLogger("urllib3").debug("GET /contacts/search/duplicate?number=%%2B12025550143&locationId=L1")
    assert shown(written.getvalue()) == []
    assert "already taken" in crew.entry(call).trouble.message, "the ledger keeps the words"
    assert "2025550143" not in crew.entry(call).trouble.message


@pytest.mark.parametrize(
    "text",
    [
        "12025550143",
        "(202) 555-0143",
        "202.555.0143",
        "tel:+12025550143",
        "%2B12025550143",
        "sip:+12025550143@pbx.example",
        "+1 202 555 0143",
    ],
)
def test_b125_every_form_of_a_number_is_masked(text):
    assert "5550143" not in joined(mask(f"the caller {text} rang"))


@pytest.mark.parametrize("text", ["CA0123456789abcdef0123456789abcdef", "2026-07-05T04:05:00Z", "costs 12.50 USD", "in 1250 ms"])
def test_b125_what_is_no_number_stays_readable(text):
    assert mask(f"call {text} ended") == f"call {text} ended"


@pytest.fixture
def site(redis_url, monkeypatch, tmp_path):
    """The app as production builds it, without its hold on the process's log and alerts."""
    monkeypatch.setattr(app.logs, "configure", lambda *_args, **_options: None)
    monkeypatch.setattr(app.alerts, "configure", lambda *_args, **_options: False)
    console = {"CONSOLE_USERS": USERS, "PUBLIC_URL": "http://127.0.0.1:8000", "GHL_BASE_URL": "http://127.0.0.1:9"}
    made = app.create_app(settings(REDIS_URL=redis_url, API_TOKEN=API_TOKEN, SPOOL_PATH=str(tmp_path / "spool.sqlite3"), **console))
    yield made
    made.extensions["callbridge"].connection.close()


def paths(site, call_key):
    """Every route of the app, with what exists in each of its places; and what other programs would have there."""
    bound, places = site.url_map.bind("localhost"), {"call_key": call_key, "action": "replay"}
    found = [
        bound.build(rule.endpoint, {name: places.get(name, "1") for name in rule.arguments}, method=method)
        for rule in site.url_map.iter_rules()
        for method in rule.methods - {"OPTIONS", "HEAD"}
    ]
    return [*dict.fromkeys(found), "/rq", "/dashboard", "/debug", "/rq/rq-instances.json"]


def test_b122_nothing_is_open_without_credentials_and_nothing_shows_a_caller(bridge, site):
    call = bridge.phones.call()
    bridge.take(bridge.phones.ended(call, CallerName=NAME))
    client = site.test_client()
    asked = paths(site, twilio_key(call))
    assert {"/console", "/console/attention", f"/console/calls/{twilio_key(call)}", "/console/all/replay", "/api/calls"} <= set(asked)
    for path in asked:
        answer = client.get(path)
        text = answer.get_data(as_text=True)
        assert shown(text) == [], path
        assert "redis.sock" not in text, path
        if not (path.startswith(OPEN) or "static" in path or "login" in path):
            assert answer.status_code in {302, 303, 401, 403, 404, 405}, path
            assert twilio_key(call) not in text or path in answer.headers.get("Location", ""), path


def test_b122_an_operator_sees_no_caller_unasked_and_no_redis_at_all(bridge, site):
    call = bridge.phones.call()
    bridge.take(bridge.phones.ended(call, CallerName=NAME))
    browser = Browser(site.test_client())
    assert browser.log_in("otto").status_code == 302
    seen = {}
    for path in paths(site, twilio_key(call)):
        answer = browser.get(path)
        text = answer.get_data(as_text=True)
        seen[path] = answer.status_code
        assert shown(text) == [], path
        assert "redis.sock" not in text, path
    page = f"/console/calls/{twilio_key(call)}"
    assert seen["/console"] == seen["/console/calls"] == seen[page] == seen[f"{page}/replay"] == 200
    assert (seen["/console/ignored"], seen["/api/calls"]) == (403, 401), "that is the owner's, and a program's"


def test_b122_a_program_with_its_token_sees_no_caller_and_no_redis_either(bridge, site):
    call = bridge.phones.call()
    bridge.take(bridge.phones.ended(call, CallerName=NAME))
    client = site.test_client()
    answers = [
        client.get(path, headers={"Authorization": f"Bearer {API_TOKEN}"}) for path in ("/api/calls", f"/api/calls/{twilio_key(call)}")
    ]
    assert [answer.status_code for answer in answers] == [200, 200]
    for answer in answers:
        text = answer.get_data(as_text=True)
        assert twilio_key(call) in text
        assert shown(text) == []
        assert "redis.sock" not in text

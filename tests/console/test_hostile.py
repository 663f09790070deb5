"""What somebody tries who means ill, or has a stale page: the console answers with care, and gives nothing away."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
import redis

from bridge.console import access, api
from bridge.ledger.store import Change
from tests.console.support import NUMBERS, Browser, Site, flashed

# ---- Headers, on whatever is answered

ODD = [
    ("GET", "/console/nothing", 404),
    ("GET", "/console/calls/", 404),
    ("GET", "/console/calls/twilio-CA0/close", 404),
    ("POST", "/console/attention", 404),
    ("PUT", "/console/calls", 405),
    ("DELETE", "/console/login", 405),
    ("GET", "/console/", 308),
    ("GET", "/console//calls", 308),
    ("HEAD", "/console/calls", 200),
    ("OPTIONS", "/console/calls", 200),
    ("GET", "/console/calls?state=gone", 400),
    ("GET", "/console/ignored", 403),
    ("GET", "/console/static/users.py", 404),
]


@pytest.mark.parametrize(("method", "path", "status"), ODD)
def test_the_headers_stand_on_every_answer_also_where_no_route_made_it(operator: Browser, method: str, path: str, status: int) -> None:
    data = {"csrf_token": operator.token("/console")} if method == "POST" else None
    answer = operator.client.open(path, method=method, data=data)
    assert answer.status_code == status
    assert {name: answer.headers.get(name) for name in access.HEADERS} == access.HEADERS
    assert answer.headers["Cache-Control"] == "no-store"


def test_the_rest_of_the_app_keeps_its_own_headers(site: Site) -> None:
    assert "Content-Security-Policy" not in site.app.test_client().get("/consoles").headers


@pytest.mark.parametrize("name", [None, "vera"])
def test_an_address_without_a_page_is_explained(site: Site, name: str | None) -> None:
    answer = site.browser(name).get("/console/calls/twilio-CA0/close")
    assert answer.status_code == 404
    assert "it belongs to a button and not to a link" in answer.text


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS"])
def test_a_stranger_learns_nothing_by_another_method(site: Site, method: str) -> None:
    call_key = site.fail(0)
    answer = site.browser().client.open(f"/console/calls/{call_key}", method=method)
    assert answer.status_code in {302, 401}
    assert call_key not in answer.text


def test_a_program_s_answer_is_kept_by_nobody(site: Site) -> None:
    site.app.register_blueprint(api.blueprint(site.store, "token"))
    headers = site.app.test_client().get("/api/calls", headers={"Authorization": "Bearer token"}).headers
    assert (headers["Cache-Control"], headers["X-Content-Type-Options"]) == ("no-store", "nosniff")


def test_a_form_is_not_read_without_end(site: Site) -> None:
    stranger = site.browser()
    large = {"csrf_token": stranger.token(), "file": (io.BytesIO(b"x" * (access.FORM_LIMIT + 1)), "file")}
    answer = stranger.client.post("/console/login", data=large)
    assert answer.status_code == 413
    assert "Too much was sent" in answer.text


# ---- Sessions


def cookie(browser: Browser) -> str:
    kept = browser.client.get_cookie("callbridge")
    assert kept is not None
    return kept.value


def with_cookie(site: Site, value: str) -> Browser:
    browser = site.browser()
    browser.client.set_cookie("callbridge", value)
    return browser


def test_a_copied_cookie_is_worth_nothing_after_the_logout(site: Site, operator: Browser) -> None:
    thief = with_cookie(site, cookie(operator))
    assert thief.get("/console").status_code == 200
    operator.send("/console/logout")
    assert thief.get("/console").status_code == 302


def test_other_sessions_of_the_same_person_go_on(site: Site, operator: Browser) -> None:
    telephone = site.browser("otto")
    operator.send("/console/logout")
    assert telephone.get("/console").status_code == 200


def test_a_session_from_before_the_login_is_not_the_one_after(site: Site) -> None:
    """Whoever plants a session in somebody's browser and waits for the login has nothing of it."""
    victim = site.browser()
    token = victim.token()
    planted = cookie(victim)
    victim.log_in("otto")
    assert with_cookie(site, planted).get("/console").status_code == 302
    assert victim.client.post("/console/logout", data={"csrf_token": token}).status_code == 400


def test_a_form_of_a_session_that_is_over_leads_back_to_its_page(site: Site, operator: Browser) -> None:
    call_key = site.fail(0)
    with operator.client.session_transaction() as session:
        session["began_at"] -= access.SESSION_S + 1
    came_from = {"Referer": f"http://localhost/console/calls/{call_key}?a=b"}
    answer = operator.client.post(f"/console/calls/{call_key}/close", data={"reason": "r"}, headers=came_from)
    assert answer.status_code == 401
    assert "You were logged out" in answer.text
    assert f'href="/console/login?next=/console/calls/{call_key}?a%3Db"' in answer.text
    foreign = operator.client.post("/console/logout", headers={"Referer": "https://evil.example/"})
    assert 'href="/console/login?next=/console"' in foreign.text


@pytest.mark.parametrize("wanted", ["/console/../metrics", "/console/..", "/console/calls?x=../"])
def test_a_login_leads_out_of_the_console_by_no_detour(site: Site, wanted: str) -> None:
    assert site.browser().log_in("vera", next=wanted).headers["Location"] == "/console"


def test_an_identity_header_is_nothing_where_none_is_set_up(site: Site) -> None:
    for header in ("X-Auth-Request-Email", "X-Forwarded-User", "Remote-User", "X-User"):
        answer = site.app.test_client().get("/console", headers={header: "olga", "X-Console-Proxy": ""})
        assert answer.status_code == 302, header


def test_without_redis_a_session_is_no_fault_of_ours(site: Site, operator: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object, **__: object) -> None:
        raise redis.ConnectionError("away")

    monkeypatch.setattr(site.parts.connection, "execute_command", away)
    assert operator.get("/console/attention").status_code == 503


# ---- Made-up questions


def packed(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode("utf-8", "surrogatepass")).decode()


BROKEN = {
    "nested without end": packed("[" * 5000),
    "a number beyond all numbers": packed(json.dumps([10**400, "x"])),
    "infinity": packed('["1e999", "x"]'),
    "an object": packed('{"a": 1}'),
    "cut off": packed("[1,"),
    "too short": packed("[1]"),
    "no base64": "%%%",
}


@pytest.fixture
def program(site: Site) -> Browser:
    site.app.register_blueprint(api.blueprint(site.store, "token"))
    return Browser(site.app.test_client())


@pytest.mark.parametrize("cursor", BROKEN.values(), ids=BROKEN)
def test_a_cursor_that_no_page_gave_is_refused_everywhere(program: Browser, operator: Browser, cursor: str) -> None:
    for path in ("/console/calls", "/console/attention", "/console/all/close"):
        answer = operator.get(path, query_string={"cursor": cursor})
        assert answer.status_code == 400, path
        assert "This filter cannot be read" in answer.text
    assert program.get("/api/calls", query_string={"cursor": cursor}, headers={"Authorization": "Bearer token"}).status_code == 400


@pytest.mark.parametrize("place", [[1, "\ud800"], [True, ["x"]], [-1e308, "x" * 3000], [1e308, ""], [0, None]])
def test_a_cursor_of_another_place_shows_a_page_and_no_fault(site: Site, operator: Browser, place: list) -> None:
    site.fail(0)
    for path in ("/console/calls", "/console/attention", "/console/all/close"):
        assert operator.get(path, query_string={"cursor": packed(json.dumps(place))}).status_code == 200, path


GARBAGE = ["\0", "ÿ", "*", "../..", "%00", "9" * 500, "😀", "\ud800", "a\r\nb", "{{7*7}}", "' OR 1=1", "١٢٣٤", "-1", "1e9", " "]


@pytest.mark.parametrize("value", GARBAGE)
def test_no_filter_takes_a_page_down(site: Site, operator: Browser, value: str) -> None:
    site.fail(0)
    for path in ("/console/calls", "/console/attention", "/console/all/replay"):
        for name in ("state", "cause", "provider", "dialled", "location", "day", "contact", "last4", "owner", "like", "step"):
            answer = operator.get(path, query_string={name: value.encode("utf-8", "surrogatepass")})
            assert answer.status_code in {200, 302, 400}, (path, name)


# ---- Whole numbers


def asked(browser: Browser, number: str) -> str:
    return browser.send("/console/search", "/console/calls", q=number).headers["Location"]


def test_a_viewer_cannot_find_out_whether_a_whole_number_has_rung(site: Site, viewer: Browser) -> None:
    """Else the eight digits that are hidden from him could be tried one by one."""
    site.accept(0)
    rang, never_rang = NUMBERS[0], NUMBERS[0].replace("+1202", "+1303")
    assert asked(viewer, rang) == asked(viewer, never_rang) == f"/console/calls?last4={rang[-4:]}"
    assert "found by their last four digits" in flashed(viewer)


def test_a_search_leaves_the_number_in_no_address(site: Site, operator: Browser) -> None:
    """Routers and proxies log addresses."""
    call_key = site.accept(0)
    assert asked(operator, NUMBERS[0]) == f"/console/calls?like={call_key}"
    assert asked(operator, NUMBERS[5]) == "/console/calls"
    assert 'method="post" class="search"' in operator.page("/console/calls")


def test_a_number_that_is_typed_as_an_owner_is_masked(site: Site, operator: Browser) -> None:
    first, second = site.fail(0), site.fail(1)
    operator.send(f"/console/calls/{first}/assign", f"/console/calls/{first}", owner="bert +12025550143")
    operator.send(f"/console/calls/{second}/assign", f"/console/calls/{second}", owner="bert@example.com")
    assert [site.entry(call_key).owner for call_key in (first, second)] == ["bert +…43", "bert@example.com"]


# ---- What GoHighLevel said in its own words

SAID = "Contact Zebulon Quartermaine of Acme is taken"


@pytest.fixture
def refused(site: Site) -> Iterator[str]:
    """A call that GoHighLevel refused in words that name somebody."""
    fault = site.ghl.add_fault("plain_text", status=400, text=json.dumps({"message": SAID}), method="POST", path="/contacts/")
    call_key = site.accept(0, caller_name="QUARTERMAINE ZEB")
    site.run(call_key)
    yield call_key
    site.ghl.remove_fault(fault)


def test_a_viewer_reads_that_it_was_refused_and_not_in_which_words(site: Site, viewer: Browser, refused: str) -> None:
    for path in ("/console", "/console/attention", f"/console/calls/{refused}", f"/console/calls/{refused}/live"):
        page = viewer.page(path)
        assert "GoHighLevel answered 400 to “create contact”." in page, path
        assert "Zebulon" not in page, path


def test_an_operator_reads_the_words_without_the_caller_s_name(operator: Browser, refused: str) -> None:
    for path in ("/console", "/console/attention", f"/console/calls/{refused}"):
        assert "Contact Zebulon *** of Acme is taken" in operator.page(path), path


def test_a_program_is_told_no_words_of_theirs(program: Browser, refused: str) -> None:
    for path in ("/api/calls", f"/api/calls/{refused}"):
        answer = program.get(path, headers={"Authorization": "Bearer token"}).text
        assert "GoHighLevel answered 400" in answer
        assert "Quartermaine" not in answer, path


# ---- A page that is out of date


def test_what_somebody_else_was_given_meanwhile_is_not_given_away_again(site: Site, operator: Browser, owner: Browser) -> None:
    call_key = site.fail(0)
    there = f"/console/calls/{call_key}/assign"
    seen = re.search(r'name="seen" value="([^"]+)"', operator.page(f"/console/calls/{call_key}"))
    assert seen is not None
    owner.send(there, f"/console/calls/{call_key}", owner="carl")
    operator.client.post(there, data={"seen": seen[1], "owner": "bert", "csrf_token": operator.token("/console")})
    assert "has moved on" in flashed(operator)
    assert site.entry(call_key).owner == "carl"


def test_news_of_the_call_make_every_open_page_of_it_old(site: Site, operator: Browser) -> None:
    call_key = site.fail(0)
    seen = re.search(r'name="seen" value="([^"]+)"', operator.page(f"/console/calls/{call_key}"))
    assert seen is not None
    site.store.change(call_key, lambda entry, _: Change(replace(entry, version=entry.version + 1)))
    for action, fields in (("close", {"reason": "r"}), ("assign", {"owner": "bert"}), ("adopt", {"contact_id": "c"})):
        data = {"seen": seen[1], "csrf_token": operator.token("/console")} | fields
        operator.client.post(f"/console/calls/{call_key}/{action}", data=data)
        assert "has moved on" in flashed(operator), action

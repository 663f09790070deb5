"""Who gets in, and what keeps everybody else out."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest
from flask import Flask

from bridge.console import access
from bridge.console import site as console
from bridge.console.users import Role
from tests.console.support import PASSWORD, USERS, Browser, Site

ANYBODY = {"console.login", "console.static", "console.missing"}
ROLES = {
    Role.VIEWER: {
        "console.logout",
        "console.today",
        "console.today_live",
        "console.calls",
        "console.search",
        "console.call",
        "console.call_live",
        "console.attention",
    },
    Role.OPERATOR: {
        "console.reveal",
        "console.preview",
        "console.replay",
        "console.adopt",
        "console.close",
        "console.assign",
        "console.bulk",
        "console.press",
        "console.work",
        "console.go_on",
        "console.stop",
    },
    Role.OWNER: {"console.ignored"},
}
GUARDS = {endpoint: (role,) for role, endpoints in ROLES.items() for endpoint in endpoints} | dict.fromkeys(ANYBODY, (None,))


SAMPLES = {"<call_key>": "twilio-CA0", "<action>": "replay", "<path:name>": "live.js", "<work_id>": "0" * 16, "<path:path>": "nothing"}


def addresses(site: Site) -> list[tuple[str, str, str]]:
    """(endpoint, method, path) of every route of the console."""
    found = []
    for rule in site.app.url_map.iter_rules():
        path = functools.reduce(lambda path, sample: path.replace(*sample), SAMPLES.items(), rule.rule)
        found += [(rule.endpoint, method, path) for method in rule.methods & {"GET", "POST"} if rule.endpoint.startswith("console.")]
    return found


def test_every_route_states_its_guard(site: Site) -> None:
    stated = {
        rule.endpoint: access.guard_of(site.app.view_functions[rule.endpoint])
        for rule in site.app.url_map.iter_rules()
        if rule.endpoint != "static"
    }
    assert stated == GUARDS, "a new route says who may use it here and above its function"


def test_a_route_without_a_guard_does_not_answer(site: Site, owner: Browser) -> None:
    site.app.view_functions["console.today"] = lambda: "open to all"
    assert owner.get("/console").status_code == 404


def test_without_a_login_nothing_is_shown(site: Site) -> None:
    site.accept(0)
    stranger = site.browser()
    for endpoint, method, path in addresses(site):
        answer = stranger.client.open(path, method=method, buffered=True)
        if endpoint in ANYBODY:
            continue
        expected = {302, 308} if method == "GET" else {401}
        assert answer.status_code in expected, (endpoint, method)
        assert "twilio-CA0" not in answer.text.replace("next=", "") or answer.status_code == 302


@pytest.mark.parametrize("role", Role)
def test_each_role_reaches_what_it_may_and_nothing_else(site: Site, role: Role) -> None:
    site.fail(0)
    browser = site.browser({Role.VIEWER: "vera", Role.OPERATOR: "otto", Role.OWNER: "olga"}[role])
    token = browser.token("/console")
    for endpoint, method, path in addresses(site):
        needed = GUARDS[endpoint][0]
        if needed is None or endpoint == "console.logout":
            continue
        answer = browser.client.open(path, method=method, data={"csrf_token": token} if method == "POST" else None)
        assert (answer.status_code == 403) is (role < needed), (endpoint, method, answer.status_code)


def test_without_users_the_console_does_not_exist(redis_url: str, ghl) -> None:
    site = Site(redis_url, ghl, CONSOLE_USERS="")
    assert not [rule for rule in site.app.url_map.iter_rules() if "console" in rule.rule]
    assert site.app.test_client().get("/console").status_code == 404
    site.close()


def test_a_login_leads_to_where_somebody_wanted_to_go(site: Site) -> None:
    browser = site.browser()
    wanted = browser.get("/console/calls?state=done").headers["Location"]
    assert wanted == "/console/login?next=/console/calls?state%3Ddone"
    assert browser.log_in("vera", next="/console/calls?state=done").headers["Location"] == "/console/calls?state=done"


@pytest.mark.parametrize(
    "wanted", ["https://evil.example/console", "//evil.example", "/console\\@evil.example", "/consolex", "/console/\nx", ""]
)
def test_a_login_leads_nowhere_else(site: Site, wanted: str) -> None:
    assert site.browser().log_in("vera", next=wanted).headers["Location"] == "/console"


def test_a_wrong_password_says_neither_name_nor_password_was_wrong(site: Site) -> None:
    browser = site.browser()
    known, unknown = (browser.log_in(name, "wrong password").text for name in ("vera", "nobody"))
    assert "The name or the password is wrong." in known
    assert re.sub(r"value=\"[^\"]*\"", "", known) == re.sub(r"value=\"[^\"]*\"", "", unknown)


def test_the_eleventh_failed_login_of_a_name_is_not_even_tried(site: Site) -> None:
    for number in range(10):
        address = {"X-Forwarded-For": f"198.51.100.{number}"}
        assert post_login(site.browser(), "wrong password", address).status_code == 401
    late = post_login(site.browser(), PASSWORD, {"X-Forwarded-For": "198.51.100.99"})
    assert late.status_code == 429
    assert "Too many failed logins" in late.text


def test_an_address_that_tries_many_names_is_stopped_whatever_it_claims_to_be(site: Site) -> None:
    for number in range(10):
        claimed = {"X-Forwarded-For": f"198.51.100.{number}, 203.0.113.7"}
        assert post_login(site.browser(), "wrong password", claimed, name=f"name{number}").status_code == 401
    assert post_login(site.browser(), PASSWORD, {"X-Forwarded-For": "1.1.1.1, 203.0.113.7"}).status_code == 429
    assert post_login(site.browser(), PASSWORD, {"X-Forwarded-For": "203.0.113.8"}).status_code == 302, "somebody else logs in"


def test_logins_that_succeed_are_not_counted(site: Site) -> None:
    assert {site.browser().log_in("vera").status_code for _ in range(12)} == {302}


def test_what_was_not_even_tried_keeps_nobody_out_for_longer(site: Site) -> None:
    """Else thirty requests in a minute closed a name for an hour, and a form without its token was as good as a guess."""
    for _ in range(40):
        answer = site.browser().client.post("/console/login", data={"name": "vera", "password": "wrong", "csrf_token": "forged"})
        assert answer.status_code == 400
    assert site.browser().log_in("vera").status_code == 302
    tries = [post_login(site.browser(), "wrong", {"X-Forwarded-For": f"198.51.100.{number}"}).status_code for number in range(40)]
    assert tries == [401] * 10 + [429] * 30
    names = [name.decode() for name in site.parts.connection.scan_iter("cb:login*")]
    assert {int(site.parts.connection.get(name)) for name in names if "name:" in name} == {10}


def post_login(browser: Browser, password: str, headers: dict[str, str], name: str = "vera"):
    data = {"name": name, "password": password, "csrf_token": browser.token()}
    return browser.client.post("/console/login", data=data, headers=headers)


def test_no_typed_name_stands_in_redis(site: Site) -> None:
    post_login(site.browser(), "x", {}, name="my-password-by-mistake")
    names = [name.decode() for name in site.parts.connection.scan_iter("*")]
    assert [name for name in names if name.startswith("cb:login")]
    assert not [name for name in names if "mistake" in name]


@pytest.mark.parametrize("token", ["", "forged"])
def test_a_form_without_its_token_changes_nothing(site: Site, operator: Browser, token: str) -> None:
    call_key = site.fail(0)
    answer = operator.client.post(f"/console/calls/{call_key}/close", data={"reason": "r", "seen": "x", "csrf_token": token})
    assert answer.status_code == 400
    assert "This page is out of date" in answer.text
    assert site.entry(call_key).state == "needs_attention"


def test_the_token_of_another_session_is_of_no_use(site: Site, operator: Browser) -> None:
    call_key = site.fail(0)
    theirs = site.browser("olga").token("/console")
    answer = operator.client.post(f"/console/calls/{call_key}/reveal", data={"csrf_token": theirs})
    assert answer.status_code == 400


def test_logging_out_ends_the_session(viewer: Browser) -> None:
    assert viewer.send("/console/logout").status_code == 302
    assert viewer.get("/console").status_code == 302


def test_a_session_ends_after_a_working_day(site: Site, viewer: Browser) -> None:
    with viewer.client.session_transaction() as session:
        session["began_at"] -= access.SESSION_S + 1
    assert viewer.get("/console").status_code == 302


def test_the_cookie_is_hardened(redis_url: str, ghl) -> None:
    site = Site(redis_url, ghl, PUBLIC_URL="https://ivr.example.com")
    client = site.app.test_client()
    answer = client.get("/console/login", base_url="https://ivr.example.com")
    cookie = answer.headers["Set-Cookie"]
    assert cookie.startswith("__Host-callbridge=")
    assert {"Secure", "HttpOnly", "Path=/", "SameSite=Lax"} <= {part.strip() for part in cookie.split(";")}
    assert answer.headers["Strict-Transport-Security"] == "max-age=31536000"
    site.close()


def test_every_answer_carries_the_headers(site: Site, viewer: Browser) -> None:
    for path in ("/console", "/console/login", "/console/calls/none", "/console/ignored", "/console/static/live.js"):
        headers = viewer.get(path).headers
        assert headers["Content-Security-Policy"] == access.CSP
        assert headers["X-Content-Type-Options"] == "nosniff"
    assert viewer.get("/console").headers["Cache-Control"] == "no-store"
    assert "unsafe" not in access.CSP


def test_templates_have_nothing_inline_and_nothing_foreign() -> None:
    for path in Path(console.__file__).parent.rglob("templates/**/*.html"):
        text = path.read_text("utf-8")
        assert not re.search(r"<style|style=|\son\w+=|<script(?![^>]*\ssrc=)|javascript:", text), path.name
        assert not re.search(r"(src|href|action)=\"https?:", text), path.name
        assert "| safe" not in text, path.name


def test_webhooks_need_no_csrf_token(redis_url: str, ghl) -> None:
    site = Site(redis_url, ghl)
    site.app.add_url_rule("/webhooks/twilio", "hook", lambda: "kept", methods=["POST"])
    assert site.app.test_client().post("/webhooks/twilio").status_code == 200
    site.close()


def test_a_proxy_logs_people_in_without_a_password(redis_url: str, ghl) -> None:
    line = f"{USERS} @proxy:X-Auth-Request-Email:secret-of-the-proxy anna@example.com:operator:@proxy"
    site = Site(redis_url, ghl, CONSOLE_USERS=line)
    headers = {"X-Auth-Request-Email": "anna@example.com", "X-Console-Proxy": "secret-of-the-proxy"}
    client = site.app.test_client()
    assert "anna@example.com, operator" in client.get("/console", headers=headers).text
    assert client.get("/console", headers=headers | {"X-Console-Proxy": "guessed"}).status_code == 302
    assert "Log out" not in client.get("/console", headers=headers).text, "the next request would be logged in again"
    site.close()


@pytest.mark.parametrize(
    "told", ["", "otto", "anna@example.com,otto", " anna@example.com x", "anna@example.com\x00", "änna@example.com", "@proxy", "x" * 5000]
)
def test_an_odd_word_of_the_proxy_logs_nobody_in(redis_url: str, ghl, told: str) -> None:
    line = f"{USERS} @proxy:X-Auth-Request-Email:secret-of-the-proxy anna@example.com:operator:@proxy"
    site = Site(redis_url, ghl, CONSOLE_USERS=line)
    environ = {"HTTP_X_AUTH_REQUEST_EMAIL": told, "HTTP_X_CONSOLE_PROXY": "secret-of-the-proxy"}
    assert site.app.test_client().get("/console", environ_overrides=environ).status_code == 302
    site.close()


def test_wrong_users_stop_the_start(redis_url: str, ghl) -> None:
    with pytest.raises(ValueError, match="CONSOLE_USERS"):
        Site(redis_url, ghl, CONSOLE_USERS="anna:owner:plain")


def test_without_redis_the_page_says_what_happens_to_calls(site: Site, viewer: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(site.app.view_functions, "console.today", access.guard(Role.VIEWER)(raise_redis))
    answer = viewer.get("/console")
    assert answer.status_code == 503
    assert "Redis cannot be reached" in answer.text


def test_a_fault_of_ours_shows_nothing_of_itself(site: Site, viewer: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(site.app.view_functions, "console.today", access.guard(Role.VIEWER)(lambda: {}["+12025550100"]))
    answer = viewer.get("/console")
    assert answer.status_code == 500
    assert "This did not work" in answer.text
    assert "2025550100" not in answer.text


def test_the_address_with_a_slash_is_the_same_page(viewer: Browser) -> None:
    assert viewer.get("/console/", follow_redirects=True).request.path == "/console"


def raise_redis() -> str:
    import redis

    raise redis.ConnectionError("away")


def test_installing_touches_no_redis(ghl) -> None:
    site = Site("redis://127.0.0.1:1/0", ghl)
    assert isinstance(site.app, Flask)
    assert site.app.test_client().get("/console").status_code == 302

"""A browser from which somebody has logged in before: strangers' guesses do not keep it out, and it gives nobody more guesses."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from bridge.console import devices
from bridge.ledger import keys
from tests.console.support import PASSWORD, USERS, Browser, Site

WRONG = "wrong password"


def attempt(browser: Browser, name: str, password: str, address: str = "192.0.2.1") -> int:
    """The status of a login: 302 let in, 401 wrong, 429 not even tried."""
    data = {"name": name, "password": password, "csrf_token": browser.token()}
    return browser.client.post("/console/login", data=data, headers={"X-Forwarded-For": address}).status_code


def lock(site: Site, name: str) -> None:
    """A stranger, or many of them, try until the name is closed."""
    for number in range(10):
        assert attempt(site.browser(), name, WRONG, f"198.51.100.{number}") == 401
    assert attempt(site.browser(), name, PASSWORD, "198.51.100.99") == 429


def device(browser: Browser) -> str:
    """The Cookie header's part of what the browser remembers of its logins."""
    kept = [cookie for cookie in browser.client._cookies.values() if "device" in cookie.key]
    return "; ".join(f"{cookie.key}={cookie.value}" for cookie in kept)


def with_device(site: Site, told: str) -> Browser:
    browser = site.browser()
    for part in told.split("; "):
        name, _, value = part.partition("=")
        browser.client.set_cookie(name, value, path="/console")
    return browser


@pytest.fixture
def own(site: Site) -> Browser:
    """Vera's own browser, logged out."""
    browser = site.browser("vera")
    browser.send("/console/logout")
    return browser


def test_a_stranger_who_knows_a_name_does_not_keep_its_owner_out(site: Site, own: Browser) -> None:
    lock(site, "vera")
    assert attempt(own, "vera", PASSWORD) == 302


def test_nor_does_a_stranger_behind_the_same_address(site: Site, own: Browser) -> None:
    for number in range(10):
        assert attempt(site.browser(), f"name{number}", WRONG, "192.0.2.1") == 401
    assert attempt(site.browser(), "otto", PASSWORD, "192.0.2.1") == 429
    assert attempt(own, "vera", PASSWORD, "192.0.2.1") == 302


def test_a_stolen_cookie_has_ten_guesses_and_takes_none_from_anybody(site: Site, own: Browser) -> None:
    thief = with_device(site, device(own))
    assert [attempt(thief, "vera", WRONG, f"198.51.100.{number}") for number in range(12)] == [401] * 10 + [429] * 2
    assert attempt(thief, "vera", PASSWORD) == 429, "a guess that is right is not even tried"
    assert attempt(site.browser(), "vera", PASSWORD) == 302, "from elsewhere she still gets in"


def test_the_guesses_of_a_known_browser_close_no_address(site: Site, own: Browser) -> None:
    for _ in range(11):
        attempt(own, "vera", WRONG, "192.0.2.1")
    assert attempt(site.browser(), "otto", PASSWORD, "192.0.2.1") == 302


def test_a_cookie_that_is_used_up_stops_no_other_browser_of_its_owner(site: Site, own: Browser) -> None:
    tablet = site.browser("vera")
    for _ in range(11):
        attempt(with_device(site, device(own)), "vera", WRONG)
    assert attempt(tablet, "vera", PASSWORD) == 302


def test_a_cookie_is_worth_nothing_for_another_name(site: Site, own: Browser) -> None:
    lock(site, "otto")
    vera = device(own).partition("=")[2]
    assert attempt(own, "otto", PASSWORD) == 429
    of_otto = devices.Devices("/console", is_https=False)._cookie(keys.digest("otto"))
    assert attempt(with_device(site, f"{of_otto}={vera}"), "otto", PASSWORD) == 429


def test_a_browser_of_several_people_remembers_each(site: Site, own: Browser) -> None:
    own.log_in("otto")
    own.send("/console/logout")
    for name in ("vera", "otto"):
        lock(site, name)
        assert attempt(own, name, PASSWORD) == 302, name


def forged(told: str) -> str:
    return told[:-5] + ("A" if told[-5] != "A" else "B") + told[-4:]


def of_another_key(told: str) -> str:
    return told.partition("=")[0] + "=WyJhIiwiYiJd.aaaaaa.aaaaaaaaaaaaaaaaaaaaaaaaaaa"


@pytest.mark.parametrize("spoil", [forged, of_another_key, lambda told: told.partition("=")[0] + "=", lambda told: told + "." * 300])
def test_a_cookie_that_we_have_not_signed_is_none(site: Site, own: Browser, spoil: Callable[[str], str]) -> None:
    lock(site, "vera")
    assert attempt(with_device(site, spoil(device(own))), "vera", PASSWORD) == 429


def test_what_is_signed_for_a_session_is_no_device(site: Site, own: Browser) -> None:
    session = site.browser("vera").client.get_cookie("callbridge")
    lock(site, "vera")
    assert session is not None
    assert attempt(with_device(site, f"{device(own).partition('=')[0]}={session.value}"), "vera", PASSWORD) == 429


def test_a_cookie_ends_after_its_life(site: Site, own: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    lock(site, "vera")
    monkeypatch.setattr(devices, "LIFE_S", -1)
    assert attempt(own, "vera", PASSWORD) == 429


def test_a_failed_login_gives_no_cookie_and_tells_nobody_s_name(site: Site) -> None:
    """A name that exists and one that does not are answered alike, before and after they are closed."""
    answers = {}
    for name in ("vera", "nobody"):
        told = []
        for number in range(11):
            browser = site.browser()
            data = {"name": name, "password": WRONG, "csrf_token": browser.token()}
            answer = browser.client.post("/console/login", data=data, headers={"X-Forwarded-For": f"{number}.{len(name)}.2.1"})
            assert "device" not in str(answer.headers.getlist("Set-Cookie"))
            told.append((answer.status_code, re.sub(r'value="[^"]*"', "", answer.text)))
        answers[name] = told
    assert answers["vera"] == answers["nobody"]


def test_the_cookie_is_hardened_and_names_nobody(redis_url: str, ghl) -> None:
    site = Site(redis_url, ghl, PUBLIC_URL="https://ivr.example.com", CONSOLE_USERS=USERS)
    there = {"base_url": "https://ivr.example.com", "headers": {"Referer": "https://ivr.example.com/console/login"}}
    client = site.app.test_client()
    token = re.search(r'name="csrf_token" value="([^"]+)"', client.get("/console/login", **there).text)
    assert token is not None
    answer = client.post("/console/login", data={"name": "vera", "password": PASSWORD, "csrf_token": token[1]}, **there)
    cookie = next(one for one in answer.headers.getlist("Set-Cookie") if "device" in one)
    assert cookie.startswith("__Secure-callbridge-device-")
    parts = {part.strip() for part in cookie.split(";")}
    assert {"Secure", "HttpOnly", "Path=/console", "SameSite=Strict", f"Max-Age={devices.LIFE_S}"} <= parts
    assert "vera" not in cookie
    site.close()


def test_two_logins_are_two_cookies(site: Site) -> None:
    first, second = site.browser("vera"), site.browser("vera")
    assert device(first) != device(second)

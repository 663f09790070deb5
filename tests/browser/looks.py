"""Every page of the console in every state that looks different, and how to get there. A test holds the list against the URL map."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import redis
from playwright.sync_api import Page

from bridge.console import access, bulk
from bridge.console.users import Role
from bridge.intake import daily, replay
from bridge.intake.daily import Sum
from bridge.ledger.entry import State
from bridge.ledger.find import Wanted
from tests.browser.conftest import Person
from tests.console.support import NUMBERS, Site

NO_PAGE = {
    "static": "style, script and icon",
    "today_live": "a part of `today`",
    "call_live": "a part of `call`",
}


@dataclass
class Stage:
    """A person at a browser before a console with calls of every kind."""

    person: Person
    site: Site
    keys: dict[str, str] = field(default_factory=dict)

    def go(self, path: str) -> Page:
        return self.person.go(f"/console{path.format(**self.keys)}")

    def press(self, path: str, button: str, **fields: str) -> Page:
        """Go to a page, fill its form, and press."""
        page = self.go(path)
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        for name, value in fields.items():
            page.locator(f"form:has(button:text-is('{button}')) [name={name}]").fill(value)
        with page.expect_navigation():
            page.get_by_role("button", name=button, exact=True).click()
        return page


@dataclass(frozen=True)
class Look:
    """One state of one page. `endpoint` is what answers, `reach` brings the browser there."""

    endpoint: str
    what: str
    reach: Callable[[Stage], object]
    status: int = 200


def plain(endpoint: str, what: str, path: str, status: int = 200) -> Look:
    return Look(endpoint, what, lambda stage: stage.go(path), status)


# ---- How some of them are reached


def fill(stage: Stage) -> None:
    """Calls of every kind, the day's sums with a difference, and a request that made no call."""
    site = stage.site
    site.employ()
    long_ago = site.store.clock.now() - replay.FRESH_S - 86_400
    stage.keys = {"failed": site.fail(7), "again": site.fail(107), "old": site.park(2, at=long_ago), "done": site.accept(8)}
    site.run(stage.keys["done"])
    stage.keys["conflict"] = site.accept(9)
    facts = site.entry(stage.keys["conflict"]).facts
    site.take(replace(facts, caller=replace(facts.caller, raw=NUMBERS[1], e164=NUMBERS[1])))
    stage.keys["waiting"] = site.accept(10)
    stage.keys["closed"] = site.park(11)
    site.desk.close(stage.keys["closed"], by="otto", reason="They rang again, and spoke to Bert. " * 20, seen=None)
    site.store.count_repeat(stage.keys["failed"], site.entry(stage.keys["failed"]).events[0].fingerprint)
    site.store.keep_ignored('{"at": 1795978175, "method": "POST", "path": "/webhooks/twilio/voice"}', "outbound call")
    day = datetime.fromtimestamp(site.store.clock.now(), UTC).date().isoformat()
    lists = Sum(day, "telnyx", 2, leads=2), Sum(day, "twilio", 3, leads=2, missing=("twilio-CA99",), unlisted=(stage.keys["done"],))
    daily.keep(site.parts.connection, lists)


def unfinished(stage: Stage) -> None:
    """The first calls of a bulk action, as if its request had had no time for more."""
    many = bulk.Bulk(stage.site.desk)
    survey = stage.site.desk.survey(Wanted(state=State.NEEDS_ATTENTION), ask=False)
    shown = many.show(survey, by="otto", action="close", query={"cause": "permanent"}, step=None, at="", after=None)
    stage.keys["work"] = many.begin("close", shown, bulk.Order("otto", "the outage is over")).id
    stage.go("/bulk/{work}")
    stage.person.page.evaluate("document.querySelector('[data-go-on]').requestSubmit = () => {}")  # looked at, not gone on with


def forged(stage: Stage) -> None:
    page = stage.go("/calls/{failed}")
    page.evaluate("document.querySelectorAll('[name=csrf_token]').forEach((one) => { one.value = 'forged'; })")
    submit(page, "form[action$='/close']")


def logged_out(stage: Stage) -> None:
    page = stage.go("/calls/{failed}")
    page.context.clear_cookies()
    submit(page, "form[action$='/close']")


def submit(page: Page, form: str) -> None:
    with page.expect_navigation():
        page.evaluate(f'document.querySelector("{form}").submit()')


def broken(stage: Stage, error: Exception) -> None:
    def fail() -> str:
        raise error

    views = stage.site.app.view_functions
    whole = views["console.today"]
    views["console.today"] = access.guard(Role.VIEWER)(fail)
    try:
        stage.go("")
    finally:
        views["console.today"] = whole


def as_owner(stage: Stage) -> None:
    stage.person.page.context.clear_cookies()
    stage.person.log_in("olga")
    stage.go("/ignored")


def throttled(stage: Stage) -> None:
    for _ in range(10):
        stage.site.browser().log_in("vera", "not this one")
    stage.press("/login", "Log in", name="vera", password="not this one")


# ---- Before the first call, and before the login

EMPTY = (
    plain("login", "asked for", "/login"),
    Look("login", "failed", lambda stage: stage.press("/login", "Log in", name="otto", password="not this one"), 401),
    Look("today", "all is well", lambda stage: stage.person.log_in("otto")),
    plain("calls", "no call yet", "/calls"),
    plain("attention", "nothing", "/attention"),
    plain("bulk", "nothing", "/all/close"),
)

# ---- With calls

FULL = (
    plain("today", "bad", ""),
    plain("calls", "some", "/calls"),
    plain("calls", "a page behind", "/calls?cursor=WzIwMDAwMDAwMDAuMCwgIngiXQ=="),
    plain("calls", "nothing fits", "/calls?provider=none&state=done&last4=9999"),
    plain("calls", "of one caller", "/calls?like={failed}"),
    plain("calls", "a filter that cannot be read", "/calls?state=gone", 400),
    plain("attention", "some", "/attention?cause=permanent"),
    plain("call", "failed", "/calls/{failed}"),
    plain("call", "done", "/calls/{done}"),
    plain("call", "closed for a long reason", "/calls/{closed}"),
    plain("call", "in conflict", "/calls/{conflict}"),
    plain("call", "waiting", "/calls/{waiting}"),
    Look("reveal", "revealed", lambda stage: stage.press("/calls/{failed}", "Show number and raw events")),
    plain("preview", "possible", "/calls/{failed}/replay"),
    plain("preview", "doubtful", "/calls/{old}/replay?step=tag_lead"),
    plain("preview", "under way", "/calls/{waiting}/replay"),
    plain("bulk", "replay", "/all/replay"),
    plain("bulk", "replay, doubtful alone", "/all/replay?like={old}"),
    plain("bulk", "close", "/all/close"),
    plain("bulk", "assign", "/all/assign"),
    plain("bulk", "adopt for several", "/all/adopt"),
    plain("bulk", "adopt for one", "/all/adopt?like={failed}"),
    plain("bulk", "a filter that cannot be read", "/all/assign?cause=gone", 400),
    Look("work", "unfinished", unfinished),
    plain("attention", "with unfinished work", "/attention"),
    Look("work", "left", lambda stage: stage.press(f"/bulk/{stage.keys['work']}", "Leave the others as they are")),
    Look("call", "declined", lambda stage: stage.press("/calls/{failed}", "Adopt this contact", contact_id="nobody")),
    plain("ignored", "not with this role", "/ignored", 403),
    plain("call", "forgotten", "/calls/twilio-CA404", 404),
    plain("missing", "no such page", "/nothing", 404),
    Look("close", "a forged form", forged, 400),
    Look("today", "Redis away", lambda stage: broken(stage, redis.ConnectionError("away")), 503),
    Look("today", "a fault of ours", lambda stage: broken(stage, ValueError("ours")), 500),
    Look("close", "a session that is over", logged_out, 401),
    Look("ignored", "some", as_owner),
    Look("login", "throttled", throttled, 429),
)


def all_looks() -> Iterator[Look]:
    yield from EMPTY
    yield from FULL

"""A console that is served, Chromium to look at it, and workers that run calls in the background."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from playwright.sync_api import Browser as Chromium
from playwright.sync_api import Page, sync_playwright
from werkzeug.serving import WSGIRequestHandler, make_server

from bridge.sandbox.ghl import GhlStandIn
from tests.browser import axe
from tests.console.support import PASSWORD, Site

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PHONE, DESKTOP = {"width": 390, "height": 844}, {"width": 1280, "height": 900}


def skip_or_fail(reason: str) -> None:
    """At home a missing tool skips, and says so; where everything has to run it is a failure."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Chromium]:
    if CHROMIUM is None:
        skip_or_fail("Chromium is missing. On Debian: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def axe_source() -> str:
    try:
        return axe.source()
    except axe.NoAxeError as missing:
        skip_or_fail(str(missing))
        raise


@pytest.fixture(scope="session")
def stand_in() -> Iterator[GhlStandIn]:
    with GhlStandIn(burst=1_000_000) as server:
        yield server


class _Quiet(WSGIRequestHandler):
    def log(self, *_arguments: object, **_more: object) -> None:
        """The test's own output says enough."""


@dataclass
class Served:
    """The console at `url`, with workers that run what is due until the test ends."""

    site: Site
    url: str
    stop: threading.Event = field(default_factory=threading.Event)

    def work(self) -> None:
        while not self.stop.wait(0.05):
            self.site.work()


@pytest.fixture
def served(redis_url: str, stand_in: GhlStandIn) -> Iterator[Served]:
    stand_in.reset()
    site = Site(redis_url, stand_in)
    site.employ()
    server = make_server("127.0.0.1", 0, site.app, threaded=True, request_handler=_Quiet)
    made = Served(site, f"http://127.0.0.1:{server.server_port}")
    threads = [threading.Thread(target=server.serve_forever, daemon=True), threading.Thread(target=made.work, daemon=True)]
    for thread in threads:
        thread.start()
    yield made
    made.stop.set()
    server.shutdown()
    for thread in threads:
        thread.join()
    server.server_close()
    site.close()


@dataclass
class Person:
    """Somebody at a browser. Whatever the browser complains of is kept, and fails the test."""

    page: Page
    url: str
    complaints: list[str]

    def go(self, path: str) -> Page:
        self.page.goto(self.url + path)
        return self.page

    def log_in(self, name: str) -> Page:
        self.go("/console")
        self.page.get_by_label("Name").fill(name)
        self.page.get_by_label("Password").fill(PASSWORD)
        self.page.get_by_role("button", name="Log in").click()
        self.page.wait_for_url("**/console")
        return self.page


@pytest.fixture
def person(chromium: Chromium, served: Served, request: pytest.FixtureRequest) -> Iterator[Person]:
    """On a phone, unless the test asks for another `viewport` or `scheme`."""
    options = {"viewport": PHONE, "color_scheme": "light"} | getattr(request, "param", {})
    context = chromium.new_context(**options)
    context.set_default_timeout(10_000)
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text) if message.type in {"error", "warning"} else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda asked: complaints.append(f"a request to {asked.url}") if not asked.url.startswith(served.url) else None)
    yield Person(page, served.url, complaints)
    context.close()
    assert not complaints, complaints

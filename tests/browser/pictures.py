"""`bin/screenshots`: the demo's story is played against a whole deployment, and its console is looked at."""

from __future__ import annotations

import random
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import redis
from playwright.sync_api import Browser, sync_playwright
from werkzeug.security import generate_password_hash

from bridge.clock import RedisClock
from bridge.commands.demo import SETTINGS
from bridge.intake import daily
from bridge.sandbox.deployment import ROOT, Deployment
from bridge.sandbox.story import SCENES, Played, Story
from tests.browser.conftest import CHROMIUM, DESKTOP, FLAGS, PHONE
from tests.support.house import make_store

FOLDER = ROOT / "docs" / "images"
NAME, PASSWORD = "olga", "a password for pictures"
LOOKS = {"": (DESKTOP, "light"), "-phone": (PHONE, "light"), "-dark": (PHONE, "dark")}  # the end of a picture's name
PICTURES = ("today", "today-phone", "today-dark", "attention-phone", "call-phone", "replay-phone")


def main(folder: Path) -> int:
    if CHROMIUM is None:
        sys.stderr.write("bin/screenshots needs Chromium. On Debian: apt-get install chromium\n")
        return 2
    folder.mkdir(parents=True, exist_ok=True)
    users = f"{NAME}:owner:{generate_password_hash(PASSWORD)}"
    with (
        tempfile.TemporaryDirectory(prefix="callbridge-") as data,
        Deployment(Path(data), environment=SETTINGS | {"CONSOLE_USERS": users}) as demo,
    ):
        played = list(Story(demo, random.Random(1)).play([scene for scene in SCENES if not scene.killed]))
        add_up(demo, played)
        parked = next(key for one in played for key, call in zip(one.keys, one.calls, strict=True) if call["state"] == "needs_attention")
        paths = {"today": "", "attention": "/attention", "call": f"/calls/{parked}", "replay": f"/calls/{parked}/replay"}
        with chromium() as browser:
            for look in LOOKS:
                take(browser, demo.url, look, paths, folder)
    return 0


def add_up(demo: Deployment, played: Sequence[Played]) -> None:
    """The day's sum, as if Twilio's own list had been read: it names the calls that were played."""
    with redis.Redis.from_url(demo.redis.url) as connection:
        store = make_store(connection, RedisClock(connection))
        now, keys = store.clock.now(), [*dict.fromkeys(key for one in played for key in one.keys)]
        day = datetime.fromtimestamp(now, UTC).date()
        daily.keep(connection, [daily.add_up(day, "twilio", keys, store.get_many(keys), (), fault=None, at=now)])


@contextmanager
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


def take(browser: Browser, url: str, look: str, paths: dict[str, str], folder: Path) -> None:
    viewport, scheme = LOOKS[look]
    context = browser.new_context(viewport=viewport, color_scheme=scheme, device_scale_factor=2)
    page = context.new_page()
    page.goto(f"{url}/console")
    page.get_by_label("Name").fill(NAME)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url("**/console")
    for name in PICTURES:
        what, dash, side = name.partition("-")
        if dash + side == look:
            page.goto(f"{url}/console{paths[what]}")
            page.screenshot(path=folder / f"console-{name}.png", full_page=not look)  # a desk has room; a phone shows what a phone shows
            sys.stdout.write(f"{folder / f'console-{name}.png'}\n")
    context.close()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER))

"""Redis takes what is sent and does not answer: nobody waits long, and each page says what that means for what was pressed."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from bridge.console.actions import Desk
from bridge.intake.replay import Preview
from tests.console.support import PASSWORD, Browser, Site


def test_without_redis_nobody_logs_in_and_the_page_says_why(site: Site) -> None:
    stranger = site.browser()
    token = stranger.token()
    with silent(site):
        for password in (PASSWORD, "wrong password"):
            answer = stranger.client.post("/console/login", data={"name": "otto", "password": password, "csrf_token": token})
            assert answer.status_code == 503
            assert "Redis cannot be reached" in answer.text
            assert "Whether what you pressed" not in answer.text, "a login is no action on a call"


@pytest.mark.parametrize("path", ["/console/calls/twilio-CA0/close", "/console/calls/twilio-CA0/replay", "/console/all/close"])
def test_an_action_that_redis_did_not_answer_is_said_to_be_open(site: Site, operator: Browser, path: str) -> None:
    """It may have been done, and only its answer was lost."""
    site.fail(0)
    token = operator.token("/console")
    with silent(site):
        answer = operator.client.post(path, data={"csrf_token": token, "reason": "r", "shown": "0" * 48})
        assert "Whether what you pressed was done is not known" in answer.text
        assert "Whether what you pressed" not in operator.get("/console/attention").text, "who only looks has pressed nothing"


def test_without_redis_a_logout_ends_at_least_the_session_of_this_browser(site: Site, operator: Browser) -> None:
    """Somebody else takes the tablet, and Redis comes back."""
    token = operator.token("/console")
    with silent(site):
        answer = operator.client.post("/console/logout", data={"csrf_token": token})
        assert (answer.status_code, "You are logged out in this browser" in answer.text) == (503, True)
    assert operator.get("/console").status_code == 302


def test_a_redis_that_goes_in_the_middle_of_a_look_is_told_as_itself(
    site: Site, operator: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The budget is asked for last, and tells a fault of Redis as a step's."""
    site.fail(0)
    judge, stack = Desk.judge, contextlib.ExitStack()

    def then_redis_goes(desk: Desk, *told: Any) -> tuple[Preview, ...]:
        judged = judge(desk, *told)
        stack.enter_context(silent(site))
        return judged

    monkeypatch.setattr(Desk, "judge", then_redis_goes)
    with stack:
        answer = operator.get("/console/all/replay")
    assert (answer.status_code, "Redis cannot be reached" in answer.text) == (503, True)


@contextlib.contextmanager
def silent(site: Site) -> Iterator[None]:
    """Redis takes what is sent, and does not answer in time."""
    pid = int(site.parts.connection.info("server")["process_id"])
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)

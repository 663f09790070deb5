"""A look at GoHighLevel ends, however it hangs; what could not be asked is said to be unknown, and a replay then needs a reason."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator

import pytest

from bridge.console import glance
from bridge.console.glance import Glance
from bridge.crm.http import Timeouts
from bridge.crm.pacing import LONGEST_SLEEP_S
from bridge.errors import StepFailed
from bridge.ledger.entry import State
from tests.console.support import NUMBERS, Browser, Site
from tests.console.test_replay_command import replay
from tests.support.builders import ANONYMOUS

SOON_S = 1.2
FIND, NOTES = "/contacts/search/duplicate", "/contacts/{contact_id}/notes"


@pytest.fixture
def hang(site: Site, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """GoHighLevel takes the requests of this path and never answers."""
    monkeypatch.setattr(glance, "WITHIN_S", SOON_S)
    faults = []
    yield lambda path: faults.append(site.ghl.add_fault("request_held", path=path))
    for fault in faults:
        site.ghl.remove_fault(fault)


def test_no_page_outlasts_the_router_in_front_of_it() -> None:
    assert glance.WITHIN_S + LONGEST_SLEEP_S <= 10


def test_a_gohighlevel_that_hangs_holds_nobody_up(site: Site, operator: Browser, hang: Callable[[str], None]) -> None:
    call_key = site.fail(0)
    hang(FIND)
    begun = time.monotonic()
    page = operator.page(f"/console/calls/{call_key}/replay")
    assert time.monotonic() - begun < 5, "and not as long as the workers' time-outs"
    assert "Whether the cause has gone could not be asked" in page
    assert "Could not be asked: which contact the caller has, whether it wants to be contacted" in page
    assert "accepts the token" not in page


def test_what_could_not_be_asked_needs_a_reason_as_a_refusal_does(site: Site, operator: Browser, hang: Callable[[str], None]) -> None:
    call_key = site.fail(0)
    hang(FIND)
    there = f"/console/calls/{call_key}/replay"
    assert "required" in operator.page(there)
    operator.send(there, there)
    assert site.entry(call_key).state is State.NEEDS_ATTENTION
    operator.send(there, there, reason="their status page says it is mended")
    assert site.entry(call_key).waiting_for == "replay"


def test_what_was_shown_before_the_silence_still_counts(site: Site, operator: Browser, hang: Callable[[str], None]) -> None:
    """Who does not want to be contacted is known by the first answer; that the second did not come makes it no less true."""
    call_key = site.fail(0)
    site.ghl.add_contact(phone=NUMBERS[0], tags=("do not contact",))
    hang(NOTES)
    page = operator.page(f"/console/calls/{call_key}/replay")
    assert "does not want to be contacted" in page
    assert "Could not be asked: what the contact carries of this call already" in page
    preview = site.desk.preview(call_key)
    assert preview is not None
    assert preview.doubts == ("cause", "opted out")


def test_the_command_is_held_up_no_longer(site: Site, hang: Callable[[str], None]) -> None:
    call_key = site.fail(0)
    hang(FIND)
    for arguments in ((call_key,), ("--all",)):
        begun = time.monotonic()
        done = replay(site, *arguments, "--dry-run", "--json")
        assert time.monotonic() - begun < 5
        assert done.exit_code == 1
        assert "could not be asked" in json.dumps(json.loads(done.output))
        assert "Whether the cause has gone could not be asked" in replay(site, *arguments, "--dry-run").output


def test_a_refusal_is_an_answer(site: Site, operator: Browser) -> None:
    call_key = site.fail(0)
    site.ghl.configure(token_state="revoked")
    for page in (operator.page(f"/console/calls/{call_key}/replay"), operator.page("/console/all/replay")):
        assert "The cause still stands. GoHighLevel was asked just now" in page


def test_a_caller_without_a_number_is_no_reason_to_believe_an_old_answer(site: Site, operator: Browser) -> None:
    """Nobody can be asked about; that the location's settings were read within the hour says nothing of the token now."""
    call_key = site.park(0, caller=ANONYMOUS)
    page = f"/console/calls/{call_key}/replay"
    assert "accepts the token" in operator.page(page)
    site.ghl.configure(token_state="revoked")
    assert "The cause still stands" in operator.page(page)
    assert "Could not be asked" not in operator.page(page), "there is no contact that could be"


class Slow:
    """A Crm that needs `needs_s` for each answer, or waits in vain for as long as it may."""

    def __init__(self, needs_s: float) -> None:
        self.needs_s = needs_s
        self.may_s = 0.0

    def __call__(self, timeouts: Timeouts) -> Slow:
        self.may_s = timeouts.total_s
        return self

    def find_contact(self, _phone: str) -> None:
        time.sleep(min(self.needs_s, self.may_s))


def ask_without_end(look: Glance) -> None:
    while True:
        look.find_contact(NUMBERS[0])


@pytest.mark.parametrize("needs_s", [0.15, 0.35, 60])
def test_however_many_questions_there_are_their_end_is_one(needs_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glance, "WITHIN_S", 1.0)
    look, begun = Glance(Slow(needs_s), Timeouts(0.2, 0.6)), time.monotonic()  # type: ignore[arg-type]  # as far as a look goes
    with pytest.raises(StepFailed, match="were over"):
        ask_without_end(look)
    assert time.monotonic() - begun < 1.0 + 0.8

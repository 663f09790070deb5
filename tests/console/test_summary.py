"""An action on many calls in sentences: what speaks against it, and where it leads."""

from __future__ import annotations

import re
from pathlib import Path

from bridge.console import summary
from bridge.intake import replay
from bridge.intake.replay import FRESH_S
from tests.console.support import NUMBERS, Browser, Site


def test_a_press_leads_back_to_the_list_that_it_came_from(site: Site, operator: Browser) -> None:
    """Somebody who clears a long list filter by filter stays where they are."""
    site.fail(0)
    done = operator.send("/console/all/close", "/console/all/close?cause=permanent&owner=anna", reason="r")
    assert done.headers["Location"] == "/console/attention?cause=permanent&owner=anna"


def test_each_doubt_is_counted_and_what_an_empty_reason_leaves_is_said(site: Site, operator: Browser) -> None:
    """Somebody who types a reason out of politeness replays these too: which they are stands before it."""
    for number in (0, 1):
        site.age(site.fail(number), FRESH_S + 1)
    site.ghl.add_contact(phone=NUMBERS[1], tags=("do not contact",))
    site.fail(2)
    page = operator.page("/console/all/replay")
    assert "2 need a typed reason: 2 are too old, 1 has a contact that does not want to be contacted." in page
    assert "without one the 2 that need it are left as they are" in page


def test_every_doubt_of_a_replay_has_words_for_many_calls() -> None:
    """The names stand in the checks, as warnings."""
    source = Path(replay.__file__).read_text("utf-8")
    names = set(re.findall(r'Check\(\s*"([a-z ]+)",\s*Level\.WARNING', source)) | set(replay.WORDS)
    assert names == set(summary.DOUBTS)

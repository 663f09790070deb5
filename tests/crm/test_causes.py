import re
from pathlib import Path
from string import Formatter

import pytest

from bridge.crm.causes import HINTS, Cause

PAGE = Path(__file__).parents[2] / "docs" / "errors.md"


def test_page_and_code_know_the_same_causes():
    rows = re.findall(r"^\| `((?:crm\.|redis)[a-z0-9_]*)` \|", PAGE.read_text(), re.MULTILINE)
    assert sorted(rows) == sorted(Cause)


@pytest.mark.parametrize("cause", Cause)
def test_every_cause_has_a_hint_that_needs_nothing_but_the_scope(cause):
    assert {name for _, name, _, _ in Formatter().parse(HINTS[cause]) if name} <= {"scope"}

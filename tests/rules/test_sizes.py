"""Files and functions stay small enough to be read in one go."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import pytest

from tests.rules.tree import functions, name, python_files, text

FILE_LINES = 350
TEST_FILE_LINES = 500
FUNCTION_LINES = 60
MEDIAN_FUNCTION_LINES = 12

OURS = python_files("app.py", "bridge", "handlers")
ALL = OURS + python_files("tests", "model")


def lines(path: Path) -> int:
    return len((text(path) or "").splitlines())


@pytest.mark.parametrize("path", ALL, ids=name)
def test_no_file_is_too_long(path: Path) -> None:
    limit = TEST_FILE_LINES if name(path).startswith("tests/") else FILE_LINES
    assert lines(path) <= limit, (
        f"{name(path)} has {lines(path)} lines, {limit} are allowed: find the second subject in it and give it a file."
    )


@pytest.mark.parametrize("path", ALL, ids=name)
def test_no_function_is_too_long(path: Path) -> None:
    long = {f"{f.name} ({f.end_lineno - f.lineno + 1})" for f in functions(path) if f.end_lineno - f.lineno >= FUNCTION_LINES}
    assert not long, f"{name(path)}: {long} have more than {FUNCTION_LINES} lines. Split what decides from what acts."


def test_the_median_function_is_short() -> None:
    sizes = [f.end_lineno - f.lineno + 1 for path in OURS for f in functions(path)]
    assert median(sizes) < MEDIAN_FUNCTION_LINES, f"the median function has {median(sizes)} lines. Split the long ones you touched."

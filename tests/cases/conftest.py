"""A bridge and a crew for each case, on an empty Redis."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from tests.cases.support import Bridge, Crew


@pytest.fixture
def make_bridge(redis_url, tmp_path) -> Iterator[object]:
    with contextlib.ExitStack() as stack:

        def make(**options) -> Bridge:
            made = Bridge(redis_url, tmp_path, **options)
            stack.callback(made.close)
            return made

        yield make


@pytest.fixture
def bridge(make_bridge) -> Bridge:
    return make_bridge()


@pytest.fixture
def make_crew(redis_url, tmp_path) -> Iterator[object]:
    with contextlib.ExitStack() as stack:

        def make(**options) -> Crew:
            return stack.enter_context(Crew(redis_url, tmp_path, **options))

        yield make

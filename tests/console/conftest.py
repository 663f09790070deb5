from __future__ import annotations

from collections.abc import Iterator

import pytest

from bridge.sandbox.ghl import GhlStandIn
from tests.console.support import Browser, Site


@pytest.fixture(scope="session")
def stand_in() -> Iterator[GhlStandIn]:
    with GhlStandIn(burst=1_000_000) as server:
        yield server


@pytest.fixture
def ghl(stand_in: GhlStandIn) -> GhlStandIn:
    """A stand-in without contacts or faults."""
    stand_in.reset()
    return stand_in


@pytest.fixture
def site(redis_url: str, ghl: GhlStandIn) -> Iterator[Site]:
    made = Site(redis_url, ghl)
    yield made
    made.close()


@pytest.fixture
def viewer(site: Site) -> Browser:
    return site.browser("vera")


@pytest.fixture
def operator(site: Site) -> Browser:
    return site.browser("otto")


@pytest.fixture
def owner(site: Site) -> Browser:
    return site.browser("olga")

"""Two deployments for all roads: one that is left in peace, one that is ill-treated. Both are searched for leaks at their end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.roads import support
from tests.roads.support import Road


@pytest.fixture(scope="session")
def road(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Road]:
    """Two gunicorn processes, four workers under one supervisor; GoHighLevel, Redis and all processes stay up."""
    with support.road(tmp_path_factory.mktemp("calm"), workers=1, WORKERS="4") as ours:
        yield ours
        assert not ours.leaks()


@pytest.fixture(scope="session")
def battered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Road]:
    settings = support.QUICK | {"WORKERS": "2", "LOG_LEVEL": "DEBUG"}  # the most that can be written, and so the most that can leak
    with support.road(tmp_path_factory.mktemp("battered"), workers=1, **settings) as ours:
        yield ours
        ours.mend()
        assert not ours.leaks()


@pytest.fixture
def rough_road(battered: Road) -> Road:
    """Two gunicorn processes, two workers, whole at the beginning of each test; what stops or dies then is up to the test."""
    battered.mend()
    return battered

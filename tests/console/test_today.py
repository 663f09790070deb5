"""The one sentence, the sums and the picture: pure."""

from __future__ import annotations

from datetime import UTC
from zoneinfo import ZoneInfo

import pytest

from bridge.console import chart, today
from bridge.console.chart import Hour
from bridge.ledger import index
from bridge.ledger.entry import State
from tests.support.builders import NOW


def sizes(asks: int = 0) -> dict[State, int]:
    return dict.fromkeys(State, 0) | {State.NEEDS_ATTENTION: asks}


@pytest.mark.parametrize(
    ("asks", "workers", "overdue", "late", "level", "say"),
    [
        (0, 2, 0, 0, "well", "All is well"),
        (1, 2, 0, 0, "warning", "1 call needs attention; everything else is well."),
        (1200, 2, 0, 0, "warning", "1,200 calls need attention"),
        (3, 2, 0, 1, "warning", "1 call waits longer than promised."),
        (3, 2, 2, 1, "bad", "2 calls need attention and are overdue."),
        (3, 0, 2, 1, "bad", "no worker listens"),
    ],
)
def test_the_worst_thing_is_said_first(asks: int, workers: int, overdue: int, late: int, level: str, say: str) -> None:
    verdict = today.judge(sizes(asks), workers=workers, overdue=overdue, late=late)
    assert verdict.level == level
    assert say in verdict.say


def test_the_day_begins_at_the_locations_midnight() -> None:
    now_hour = index.hour(NOW)  # 15 o'clock UTC, 9 in Chicago
    hours = {(now_hour - back, "accepted"): 1 for back in range(24)}
    assert today.of_today(hours, NOW, UTC)["accepted"] == 16
    assert today.of_today(hours, NOW, ZoneInfo("America/Chicago"))["accepted"] == 10


def test_bars_stand_on_the_ground_and_reach_no_higher_than_the_top() -> None:
    drawn = chart.draw([Hour(f"{number:02}:00", number, number // 2, number % 3) for number in range(24)])
    bars = [bar for column in drawn.columns for bar in column.bars]
    assert all(abs(bar.y + bar.height - drawn.ground) < 0.2 for bar in bars)
    assert min(bar.y for bar in bars) >= drawn.upper
    assert max(bar.x + bar.width for bar in bars) <= drawn.width
    assert drawn.top == 50


def test_an_hour_without_calls_has_no_bar() -> None:
    assert chart.draw([Hour("00:00", 0, 0, 0)]).columns[0].bars == ()
    assert chart.draw([]).columns == ()


@pytest.mark.parametrize(("value", "top"), [(0, 1), (1, 1), (3, 5), (11, 20), (51, 100), (100, 100), (101, 200)])
def test_the_top_is_a_number_that_is_easy_on_the_eye(value: int, top: int) -> None:
    assert chart.round_up(value) == top

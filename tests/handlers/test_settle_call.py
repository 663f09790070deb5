"""After a lost answer: look first, with pauses that outlast the index lag."""

from __future__ import annotations

import pytest

from bridge.errors import NotYet
from handlers.settle_call import look_again_later, next_look

SCHEDULE = (2.0, 5.0, 15.0, 60.0)


@pytest.mark.parametrize(
    ("age", "pause"),
    [
        (-13.0, 15.0),
        (0.0, 2.0),
        (1.5, 0.5),
        (2.0, 5.0),
        (6.9, 0.1),
        (7.0, 15.0),
        (22.0, 60.0),
        (81.0, 1.0),
        (81.9999, None),
        (82.0, None),
        (9e9, None),
    ],
)
def test_looks_come_after_2_7_22_and_82_seconds(age: float, pause: float | None) -> None:
    assert next_look(age, SCHEDULE) == (None if pause is None else pytest.approx(pause))


def test_it_is_too_early_while_the_schedule_goes_on() -> None:
    with pytest.raises(NotYet) as early:
        look_again_later("create", 7.0, SCHEDULE)
    assert (early.value.cause, early.value.retry_in) == ("settle.create", 15.0)


def test_after_the_last_look_something_may_be_sent() -> None:
    assert look_again_later("note", 82.0, SCHEDULE) is None

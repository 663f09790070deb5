"""What closes an alert is true, whatever ended it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bridge.ledger.entry import Cause
from bridge.watch import promises
from bridge.watch.closing import lasted, over
from bridge.watch.promises import BUDGET, DIED, FAILURES, LATE, SILENCE, SLOW, TIMED_OUT, Figures
from bridge.watch.standing import Kind, Sending
from tests.support.builders import NOW, make_settings

[CALLS] = promises.processes(make_settings())
SENDING = Sending("webhook", Kind.OVER, NOW - 90, 3, "me")


def title(cause: str, figures: Figures, **of) -> str:
    return over(replace(CALLS, **of), cause, figures, SENDING, NOW)[0]


def lines(cause: str, figures: Figures) -> tuple[str, ...]:
    return over(CALLS, cause, figures, SENDING, NOW)[1]


@pytest.mark.parametrize(
    ("cause", "figures", "of", "said"),
    [
        pytest.param(SLOW, Figures(took={"60": 40}), {}, "no more than one in twenty is known to have taken longer", id="leads are fast"),
        pytest.param(SLOW, Figures(took={"+Inf": 3}), {}, "had 3 leads: too few", id="there are hardly any leads, and they are slow"),
        pytest.param(FAILURES, Figures(leads=99, failures=1), {}, "1 of the last hours' 100 calls failed for good", id="few fail"),
        pytest.param(FAILURES, Figures(failures=1), {}, "had 1 lead or failure: too few", id="hardly any call, and it failed"),
        pytest.param(DIED, Figures(), {}, "none was cut short by the death", id="two hours without a death"),
        pytest.param(TIMED_OUT, Figures(), {}, "none was cut short by the time limit", id="two hours within the limit"),
        pytest.param(BUDGET, Figures(left_today=180_000), {}, "180000 of 200000 requests", id="a new day"),
        pytest.param(SILENCE, Figures(silent_s=2), {"silence_s": 60.0}, "A call has come", id="a call came"),
        pytest.param(
            SILENCE, Figures(silent_s=90), {"silence_s": 600.0}, "SILENCE_S was changed", id="no call came, and the limit is another"
        ),
        pytest.param(SILENCE, Figures(silent_s=1e5), {}, "not watched any more", id="the setting is gone, and no call came"),
        pytest.param("attention.stale", Figures(), {}, "for this cause any more (stale)", id="nothing is left of one cause"),
    ],
)
def test_each_way_in_which_an_alert_ends_is_told_as_it_is(cause, figures, of, said) -> None:
    assert said in title(cause, figures, **of)


@pytest.mark.parametrize(
    ("figures", "left"),
    [
        (Figures(), "No call needs attention; none waits for the bridge."),
        (Figures(waiting=2), "No call needs attention; 2 calls wait for the bridge."),
        (Figures(waiting=2, late=1), "No call needs attention; 2 calls wait for the bridge, 1 of them longer than promised."),
        (Figures(attention={Cause.STALE: 1, Cause.PERMANENT: 2}), "3 calls need attention; none waits for the bridge."),
    ],
)
def test_what_is_left_is_named(figures, left) -> None:
    assert lines("attention.uncertain", figures)[-1] == left


def test_a_silence_ends_with_the_call_that_came_and_not_with_the_look_that_saw_it() -> None:
    assert "(86 s)" in over(replace(CALLS, silence_s=60.0), SILENCE, Figures(silent_s=4), SENDING, NOW)[1][0]


def test_how_long_it_lasted_is_told_from_when_to_when() -> None:
    assert lines(LATE, Figures())[:2] == (
        "It was so from 2026-01-15 15:02:35 to 15:04:05 UTC (90 s).",
        "At its height it was about 3 calls.",
    )
    assert lasted(NOW, NOW + 86_400) == "It was so from 2026-01-15 15:04:05 to 2026-01-16 15:04:05 UTC (24 h)."
    assert "(0 s)" in lasted(NOW, NOW - 5)


def test_nobody_is_told_that_nothing_is_left_to_do() -> None:
    said = [" ".join(lines(cause, Figures(attention={Cause.STALE: 1}))) for cause in promises.CAUSES]
    assert all("1 call needs attention" in one for one in said)

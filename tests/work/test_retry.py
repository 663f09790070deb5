"""The verdict on an error: again, later, or a person."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.errors import Ask, Gone, NotYet, Permanent, StepFailed, Transient, Uncertain
from bridge.ledger.entry import DUE_IN_S, Cause, Trouble
from bridge.work.retry import STALE, Again, Budget, backoff, verdict
from tests.support.builders import NOW

BUDGET = Budget(attempts=16, base_s=2, cap_s=600)
KINDS = [Transient, NotYet, Uncertain, Permanent, Gone, Ask]


def judge(error: StepFailed, *, spent: int = 0, draw: float = 0.5) -> Again | Trouble:
    return verdict(error, spent=spent, budget=BUDGET, now=NOW, draw=lambda: draw)


@pytest.mark.parametrize(
    ("error", "spent", "wanted"),
    [
        (Transient("x", cause="crm.5xx"), 0, Again(1.0, spend=True)),
        (Transient("x", cause="crm.429", retry_in=30), 0, Again(31.5, spend=True)),
        (Uncertain("x", cause="crm.timeout"), 3, Again(8.0, spend=True)),
        (NotYet("x", cause="claim.busy", retry_in=1.1), 0, Again(1.1, spend=False)),
        (NotYet("x", cause="claim.busy", retry_in=1.1), 99, Again(1.1, spend=False)),
        (NotYet("x", cause="worker.shutdown", retry_in=0.0), 0, Again(0.0, spend=False)),
        (Transient("x", cause="crm.5xx"), 14, Again(300.0, spend=True)),
        (Transient("x", cause="crm.5xx"), 15, Cause.EXHAUSTED),
        (Uncertain("x", cause="crm.timeout"), 15, Cause.UNCERTAIN),
        (Permanent("x", cause="crm.403"), 0, Cause.PERMANENT),
        (Gone("x", cause="crm.gone"), 0, Cause.PERMANENT),
        (Ask("x", cause="settle.ask"), 0, Cause.UNCERTAIN),
        (Permanent("x", cause=STALE), 0, Cause.STALE),
    ],
)
def test_each_class_of_error_has_its_verdict(error: StepFailed, spent: int, wanted: Again | Cause) -> None:
    decision = judge(error, spent=spent)
    assert decision == wanted if isinstance(wanted, Again) else decision.cause is wanted


@pytest.mark.parametrize("retry_in", [1.0, 3600.0])
def test_a_word_of_the_server_does_not_outlast_the_budget(retry_in: float) -> None:
    decision = judge(Transient("x", cause="crm.429", retry_in=retry_in), spent=15)
    assert isinstance(decision, Trouble)


def test_a_person_is_told_what_where_and_until_when() -> None:
    decision = judge(Permanent("refused", cause="crm.403", hint="check GHL_TOKEN"))
    assert decision == Trouble(Cause.PERMANENT, "crm.403", "refused", "check GHL_TOKEN", NOW, NOW + DUE_IN_S)


def test_an_exhausted_call_without_a_hint_says_how_to_go_on() -> None:
    decision = judge(Transient("down", cause="crm.5xx"), spent=15)
    assert isinstance(decision, Trouble)
    assert "replay" in decision.hint


@given(st.sampled_from([Transient, Uncertain]), st.integers(0, 200), st.floats(0, 1, exclude_max=True))
def test_backoff_stays_between_its_floor_and_its_cap(kind: type[StepFailed], spent: int, drawn: float) -> None:
    pause = backoff(kind("x", cause="c"), spent=spent, budget=BUDGET, draw=lambda: drawn)
    assert 0.2 <= pause <= min(600, 2 * 2 ** min(spent, 30))


@given(st.floats(0, 3600), st.floats(0, 1, exclude_max=True))
def test_nobody_comes_back_before_the_server_said(retry_in: float, drawn: float) -> None:
    pause = backoff(Transient("x", cause="c", retry_in=retry_in), spent=5, budget=BUDGET, draw=lambda: drawn)
    assert retry_in <= pause <= retry_in * 1.1


@given(st.sampled_from(KINDS), st.integers(0, 20))
def test_every_error_ends_again_or_with_a_person(kind: type[StepFailed], spent: int) -> None:
    decision = judge(kind("x", cause="c", retry_in=1.0), spent=spent)
    if isinstance(decision, Again):
        assert decision.delay >= 1.0
        assert not issubclass(kind, Permanent)
    else:
        assert not issubclass(kind, NotYet)
        assert decision.due_at > decision.at

"""The error tree: the class is the verdict, and each error carries what a person needs."""

from __future__ import annotations

import inspect
import re

import pytest

from bridge import errors
from bridge.errors import (
    Ask,
    BridgeError,
    Fenced,
    Gone,
    NotYet,
    Permanent,
    Refused,
    StepFailed,
    Transient,
    Uncertain,
    Unstorable,
    WrongMove,
    WrongSettings,
)

CLASSES = [cls for _, cls in inspect.getmembers(errors, inspect.isclass) if issubclass(cls, BridgeError)]
DRAWN = re.findall(r"── (\w+)", errors.__doc__ or "")


def test_every_error_stands_in_the_drawn_tree() -> None:
    assert {cls.__name__ for cls in CLASSES} - {"BridgeError"} == set(DRAWN)


@pytest.mark.parametrize(
    ("error", "parent"),
    [
        (Refused, BridgeError),
        (Unstorable, BridgeError),
        (WrongSettings, ValueError),
        (WrongMove, ValueError),
        (Fenced, BridgeError),
        (StepFailed, BridgeError),
        (Transient, StepFailed),
        (NotYet, Transient),
        (Uncertain, StepFailed),
        (Permanent, StepFailed),
        (Gone, Permanent),
        (Ask, Permanent),
    ],
)
def test_the_class_is_the_verdict(error: type, parent: type) -> None:
    assert issubclass(error, parent)


def test_being_uncertain_is_neither_transient_nor_permanent() -> None:
    assert not issubclass(Uncertain, Transient | Permanent)
    assert not issubclass(Fenced, StepFailed), "a fenced attempt writes nothing, so it must not be settled like a failed step"


def test_a_failed_step_carries_what_a_person_needs() -> None:
    error = Transient("busy", cause="crm.429", hint="lower GHL_BURST", trace_id="t1", retry_in=3.5)
    assert (str(error), error.cause, error.hint, error.trace_id, error.retry_in) == ("busy", "crm.429", "lower GHL_BURST", "t1", 3.5)


def test_a_refusal_is_forbidden_unless_credentials_are_missing() -> None:
    assert Refused("wrong", reason="signature wrong").status == 403
    assert Refused("none", reason="signature missing", status=401).status == 401


def test_wrong_settings_show_every_fault_on_its_line() -> None:
    error = WrongSettings(["A: is missing", "B: too small"])
    assert error.faults == ["A: is missing", "B: too small"]
    assert str(error).splitlines()[1:] == ["  - A: is missing", "  - B: too small"]

"""The tests say what is true, prove it, and do not wait for nothing."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rules.tree import ROOT, functions, name, nodes, parsed, python_files

TESTS = [path for path in python_files("tests") if path.name.startswith("test_")]
BESIDE_ROOMS = {"rules", "roads", "handlers", "cases", "proof", "browser"}
POLL_S = 0.1

# Files that may sleep for a fixed time, with the reason why no condition can be awaited.
MAY_SLEEP = {
    "tests/work/test_worker.py": "how long Redis stays away is what is tested there",
}


def claims_in(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (function for function in functions(path) if function.name.startswith("test_"))


def calls(node: ast.AST) -> Iterator[tuple[ast.Call, str]]:
    """Every call below a node, with the last part of the called name."""
    for call in ast.walk(node):
        if isinstance(call, ast.Call):
            yield call, call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def fixed_sleeps(path: Path) -> Iterator[int]:
    """Lines that sleep for a fixed time outside a loop, or for longer than a poll."""
    tree = parsed(path)
    polls = {id(call) for loop in ast.walk(tree) if isinstance(loop, ast.While | ast.For) for call, _ in calls(loop)}
    for call, called in calls(tree):
        seconds = call.args[0] if called == "sleep" and call.args else None
        # A computed time was told by what is tested.
        if isinstance(seconds, ast.Constant) and (seconds.value > POLL_S or id(call) not in polls):
            yield call.lineno


@pytest.mark.parametrize("path", python_files("tests"), ids=name)
def test_tests_await_conditions_and_not_the_clock(path: Path) -> None:
    if name(path) in MAY_SLEEP:
        return
    lines = list(fixed_sleeps(path))
    advice = f"await a condition in a loop with sleeps of {POLL_S} s at most, or add the file to MAY_SLEEP with its reason"
    assert not lines, f"{name(path)}, lines {lines}: {advice}"


def test_files_that_may_sleep_exist_and_have_a_reason() -> None:
    wrong = [path for path, reason in MAY_SLEEP.items() if not (ROOT / path).exists() or len(reason.split()) < 3]
    assert not wrong, f"MAY_SLEEP names {wrong}: gone, or without a reason"


@pytest.mark.parametrize("path", TESTS, ids=name)
def test_test_names_are_claims(path: Path) -> None:
    short = [function.name for function in claims_in(path) if len(function.name.split("_")) < 4]
    assert not short, f"{name(path)}: {short} say too little. A name is a claim that is true or false: test_second_delivery_finds_the_first"


@pytest.mark.parametrize("path", TESTS, ids=name)
def test_no_two_tests_of_a_file_have_the_same_name(path: Path) -> None:
    names = [function.name for function in claims_in(path)]
    twice = {one for one in names if names.count(one) > 1}
    assert not twice, f"{name(path)}: {twice} stand there twice; only the last one runs"


def proves(function: ast.AST, helpers: set[str]) -> bool:
    if any(isinstance(node, ast.Assert) for node in ast.walk(function)):
        return True
    return any(called in {"raises", "warns", "fail"} or called.startswith("assert") or called in helpers for _, called in calls(function))


def proving_helpers(path: Path) -> set[str]:
    """What the file imports from the tests, and its own functions that assert or use one that does."""
    proving = {
        alias.asname or alias.name
        for node in nodes(path)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tests")
        for alias in node.names
    }
    for _ in range(3):  # helpers of helpers of helpers
        proving |= {function.name for function in functions(path) if proves(function, proving)}
    return proving


@pytest.mark.parametrize("path", TESTS, ids=name)
def test_every_test_proves_something(path: Path) -> None:
    helpers = proving_helpers(path)
    idle = [
        function.name
        for function in claims_in(path)
        if not proves(function, helpers) and not any("given" in ast.dump(decorator) for decorator in function.decorator_list)
    ]
    assert not idle, f"{name(path)}: {idle} assert nothing. Say what must be true afterwards."


@pytest.mark.parametrize("path", TESTS, ids=name)
def test_tests_mirror_the_tree(path: Path) -> None:
    room = path.relative_to(ROOT / "tests").parts[0]
    if room == path.name or room in BESIDE_ROOMS:
        return
    assert (ROOT / "bridge" / room).is_dir(), f"{name(path)}: there is no bridge/{room}/. Tests stand where the code stands."

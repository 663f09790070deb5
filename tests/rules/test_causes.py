"""Every word that a failure can carry as its cause stands in docs/errors.md, and no row there is about a word that is gone."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import bridge.errors
from bridge.crm.causes import Cause as CrmCause
from bridge.intake import replay
from tests.rules.tree import ROOT, name, nodes, parsed, python_files, text

PAGE = ROOT / "docs" / "errors.md"
ERRORS = {found for found, value in vars(bridge.errors).items() if isinstance(value, type) and issubclass(value, bridge.errors.StepFailed)}
WAIT = "wait"  # bridge/ledger/moves.py: an attempt that has to be made again
TROUBLE = "Trouble"  # bridge/ledger/entry.py: its second argument is the word
SETTLE = "look_again_later"  # handlers/settle_call.py: its first argument follows `settle.`
# What only passes on a word that was given elsewhere, or takes one of bridge/crm/causes.py or of replay.WORDS, which are looked at whole.
PASSES_ON = ("bridge/crm/", "bridge/work/attempt.py", "bridge/work/last_look.py", "bridge/work/retry.py", "handlers/find_or_create_lead.py")
_ROW = re.compile(r"^\| `([a-z]+(?:\.[^`]+)?)` \|", re.MULTILINE)

SOURCES = [path for path in python_files("bridge", "handlers") if not name(path).startswith("bridge/sandbox/")]


def constants(path: Path) -> dict[str, str]:
    """The names of a file that stand for a text, its own and those that it imports from one of our files."""
    found: dict[str, str] = {}
    for node in parsed(path).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            found |= {target.id: node.value.value for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.ImportFrom):
            source = ROOT / f"{(node.module or '').replace('.', '/')}.py"
            theirs = constants(source) if source in SOURCES else {}
            found |= {alias.asname or alias.name: theirs[alias.name] for alias in node.names if alias.name in theirs}
    return found


def given(path: Path) -> Iterator[ast.expr]:
    """Each expression of a file that becomes the cause of a failure."""
    for node in nodes(path):
        if not isinstance(node, ast.Call):
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called in ERRORS | {WAIT}:
            yield from (keyword.value for keyword in node.keywords if keyword.arg == "cause")
        elif called == TROUBLE and len(node.args) > 1:
            yield node.args[1]
        elif called == SETTLE:
            yield ast.JoinedStr([ast.Constant("settle."), node.args[0]])


def word(expression: ast.expr, known: dict[str, str]) -> str | None:
    """The word; what is filled in at run time stands as `<>` in it. None where it is no text that can be read here."""
    if isinstance(expression, ast.Constant):
        return str(expression.value)
    if isinstance(expression, ast.Name):
        return known.get(expression.id)
    if isinstance(expression, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "<>" for part in expression.values)
    return None


def words() -> set[str]:
    """Those of the code. `settle.<>` is left out: whoever calls it is looked at instead."""
    told = {found for path in SOURCES for one in given(path) if (found := word(one, constants(path)))}
    return told - {"settle.<>"} | {cause.value for cause in CrmCause} | set(replay.WORDS.values())


def test_every_cause_of_the_code_stands_in_the_page_and_no_other() -> None:
    rows = [re.sub(r"<[^>]*>", "<>", row) for row in _ROW.findall(text(PAGE) or "")]
    assert sorted(rows) == sorted(words()), "docs/errors.md needs one row for each word, and none for a word that is gone"


def test_the_rule_on_causes_sees_words_of_every_kind() -> None:
    seen = {
        "claim.busy",
        "call.stale",
        "call.conflict",
        "worker.died",
        "worker.shutdown",
        "settle.create",
        "settle.ask",
        "bug.<>",
        "crm.403",
    }
    assert seen <= words()


def test_a_cause_that_cannot_be_read_from_the_code_only_passes_one_on() -> None:
    unread = {name(path) for path in SOURCES for one in given(path) if word(one, constants(path)) is None}
    strange = {path for path in unread if not path.startswith(PASSES_ON)}
    assert not strange, f"{strange}: write the word of a cause where the error is made, so that this rule can look it up in docs/errors.md"

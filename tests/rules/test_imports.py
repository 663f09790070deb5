"""Who may import whom: app -> handlers -> bridge, and inside bridge the rooms in the order in which a call passes them."""

from __future__ import annotations

import ast
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.rules.tree import ROOT, imports, module, name, nodes, our_modules, python_files

# A room imports itself, its own level and what stands above it in this table.
LEVELS = (
    {"call", "clock", "connections", "errors", "numbers", "settings", "values"},
    {"providers", "crm", "ledger", "watch"},
    {"work", "intake"},
    {"parts"},
    {"console", "commands", "environment"},
)
ANYTHING = {"sandbox"}
MAY_IMPORT_SANDBOX = {"sandbox", "commands"}

PURE = ("bridge/call.py", "bridge/errors.py", "bridge/numbers.py", "bridge/ledger/entry.py", "bridge/work/retry.py")
IO = {
    "redis",
    "rq",
    "flask",
    "requests",
    "urllib3",
    "http",
    "urllib.request",
    "socket",
    "sqlite3",
    "os",
    "time",
    "pathlib",
    "subprocess",
    "threading",
}
NOT_FOR_HANDLERS = {"sqlite3", "socket", "ssl", "http", "urllib.request", "subprocess", "threading", "asyncio"}

# Where the environment may be looked at. Everything else gets Settings passed in.
MAY_READ_ENVIRONMENT = ("app.py", "bridge/environment.py", "bridge/commands/", "bridge/sandbox/")

BRIDGE = python_files("bridge")
OURS = python_files("app.py", "bridge", "handlers")


def room(module_name: str) -> str:
    """`bridge.ledger.entry` is in the room `ledger`; `bridge` itself is in none."""
    return module_name.split(".")[1] if "." in module_name else ""


def level(room_name: str) -> int:
    return next(number for number, rooms in enumerate(LEVELS) if room_name in rooms)


def tops(path: Path) -> set[str]:
    return {imported.split(".")[0] for imported in imports(path)}


def among(path: Path, unwanted: set[str]) -> set[str]:
    """The imports of a file that are one of `unwanted`, or below one."""
    return {imported for imported in imports(path) if any(f"{imported}.".startswith(f"{one}.") for one in unwanted)}


@pytest.mark.parametrize("path", BRIDGE, ids=name)
def test_bridge_never_imports_what_uses_it(path: Path) -> None:
    wrong = tops(path) & {"handlers", "app", "tests"}
    assert not wrong, f"{name(path)} imports {wrong}: bridge is used by them. Pass the function or value in as an argument."


@pytest.mark.parametrize("path", python_files("handlers"), ids=name)
def test_handlers_speak_of_business_and_import_bridge_alone(path: Path) -> None:
    wrong = (tops(path) - sys.stdlib_module_names - {"bridge", "handlers"}) | among(path, NOT_FOR_HANDLERS)
    assert not wrong, f"{name(path)} imports {wrong}: handlers say what is done. Put how it is done into a room of bridge/."


@pytest.mark.parametrize("path_name", PURE)
def test_pure_files_do_no_input_or_output(path_name: str) -> None:
    path = ROOT / path_name
    assert path.exists(), f"{path_name} is gone. If it has moved, say so in PURE of this test; it has to stay pure."
    wrong = among(path, IO)
    assert not wrong, f"{path_name} imports {wrong}. It decides and does nothing: let the caller read the clock, the store or the file."


def test_every_room_stands_in_the_table_of_levels() -> None:
    known = set().union(*LEVELS) | ANYTHING
    unknown = {room(module(path)) for path in BRIDGE} - known - {""}
    assert not unknown, f"bridge/ has rooms without a place in LEVELS of this test: {unknown}. Decide who may import them."


@pytest.mark.parametrize("path", [path for path in BRIDGE if room(module(path)) not in ANYTHING | {""}], ids=name)
def test_rooms_import_only_what_stands_before_them(path: Path) -> None:
    own = room(module(path))
    used = {room(imported) for imported in imports(path) if imported.startswith("bridge.")}
    if own not in MAY_IMPORT_SANDBOX:
        assert "sandbox" not in used, f"{name(path)} imports the sandbox, which production does not have. Turn the arrow round."
    later = {other for other in used - ANYTHING if level(other) > level(own)}
    assert not later, f"{name(path)} (room {own}) imports {later}, which come later in LEVELS. Pass what it needs in as an argument."


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = {module(path): {used for used in imports(path) & our_modules() if used != module(path)} for path in OURS}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"These modules import each other: {' <- '.join(error.args[1])}. Move what both need into a file of its own.")


@pytest.mark.parametrize("path", OURS, ids=name)
def test_imports_are_absolute(path: Path) -> None:
    relative = [node.lineno for node in nodes(path) if isinstance(node, ast.ImportFrom) and node.level]
    assert not relative, f"{name(path)}, lines {relative}: write the full path, so that the rules here can see it."


@pytest.mark.parametrize("path", OURS, ids=name)
def test_the_environment_is_read_in_one_place(path: Path) -> None:
    if name(path).startswith(MAY_READ_ENVIRONMENT):
        return
    # By its module's name: Flask's request.environ is another thing.
    reads = [
        node.lineno
        for node in nodes(path)
        if (isinstance(node, ast.Attribute) and ast.unparse(node) in {"os.environ", "os.getenv"})
        or (isinstance(node, ast.ImportFrom) and node.module == "os" and {"environ", "getenv"} & {alias.name for alias in node.names})
    ]
    assert not reads, f"{name(path)}, lines {reads}: take a value of Settings instead (bridge/settings.py)."

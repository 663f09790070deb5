"""The project's own files, as the rules see them."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
_NOT_OURS = {".git", ".venv", "var", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis", ".coverage"}


@cache
def files() -> tuple[Path, ...]:
    """All files of the tree, without what tools leave behind."""
    found = (path for path in ROOT.rglob("*") if path.is_file() and not _NOT_OURS & set(path.relative_to(ROOT).parts))
    return tuple(sorted(found))


@cache
def python_files(*tops: str) -> tuple[Path, ...]:
    """Python files below the given folders, or the files of that name at the root."""
    return tuple(path for path in files() if path.suffix == ".py" and path.relative_to(ROOT).parts[0] in tops)


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def module(path: Path) -> str:
    """`bridge/ledger/entry.py` is `bridge.ledger.entry`, `bridge/ledger/__init__.py` is `bridge.ledger`."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@cache
def text(path: Path) -> str | None:
    """None for files that are no text."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(text(path) or "", filename=str(path))


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Every node of a file. Many rules walk each file, and walking takes longer than parsing."""
    return tuple(ast.walk(parsed(path)))


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in nodes(path) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def comments(path: Path) -> Iterator[tuple[int, str]]:
    """Line number and text of each comment; a comment inside a string is none."""
    tokens = tokenize.generate_tokens(io.StringIO(text(path) or "").readline)
    return ((token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT)


@cache
def our_modules() -> frozenset[str]:
    return frozenset(module(path) for path in python_files("app.py", "bridge", "handlers"))


@cache
def imports(path: Path) -> frozenset[str]:
    """Every module that a file imports, also inside functions, by its full name."""
    found: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            members = {f"{base}.{alias.name}" for alias in node.names} & our_modules()
            found |= members or {base}
    return frozenset(found)

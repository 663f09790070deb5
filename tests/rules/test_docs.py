"""The pages name everything that exists, and nothing that is gone."""

from __future__ import annotations

import re
from enum import Enum
from inspect import getmembers, isclass
from pathlib import Path

import pytest

import bridge.errors
from bridge.settings import Settings
from tests.rules.tree import ROOT, files, name, text

SETTINGS_PAGE = ROOT / "docs" / "settings.md"
REQUIRED_ORDER = ["REDIS_URL", "PUBLIC_URL", "SECRET_KEY", "GHL_TOKEN", "GHL_LOCATION_ID", "TWILIO_AUTH_TOKEN"]
_ROW = re.compile(r"^\| `([A-Z][A-Z0-9_]*)` \| ([^|]*) \|", re.MULTILINE)
_LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)")

PAGES = [path for path in files() if path.suffix == ".md"]


def documented() -> dict[str, str]:
    """Setting -> default, as the page has it."""
    assert SETTINGS_PAGE.exists(), "docs/settings.md is missing: write one table row for each setting of bridge/settings.py"
    return {row[0]: row[1].strip().strip("`") for row in _ROW.findall(text(SETTINGS_PAGE) or "")}


def shared_settings() -> dict[str, str]:
    """Setting -> default, as the code has it. `provider` is no setting: it holds those of the providers."""
    return {key.upper(): shown(field) for key, field in Settings.model_fields.items() if key != "provider"}


def shown(field) -> str:
    if field.is_required():
        return "required"
    default = field.default
    if isinstance(default, tuple):
        return ",".join(map(str, default)) or "none"
    if isinstance(default, float):
        return f"{default:g}"
    return "none" if default is None else str(default.value if isinstance(default, Enum) else default)


def provider_settings() -> set[str]:
    from bridge.providers.registry import SETTINGS

    return {setting.name for setting in SETTINGS}


@pytest.mark.parametrize(("setting", "default"), shared_settings().items())
def test_every_setting_has_its_line_with_its_default(setting: str, default: str) -> None:
    page = documented()
    assert setting in page, f"{setting} has no line in docs/settings.md. Add: | `{setting}` | `{default}` | allowed | meaning |"
    assert page[setting] == default, f"docs/settings.md gives {setting} the default {page[setting]!r}, bridge/settings.py {default!r}"


def test_every_setting_of_a_provider_has_its_line() -> None:
    missing = provider_settings() - set(documented())
    assert not missing, f"docs/settings.md has no line for {sorted(missing)}: add them under 'Phone systems'"


def test_no_line_names_a_setting_that_is_gone() -> None:
    gone = set(documented()) - set(shared_settings()) - provider_settings()
    assert not gone, f"docs/settings.md names {sorted(gone)}, which the code does not know. Remove the lines, or the misspelling."


def test_what_is_required_comes_first() -> None:
    assert list(documented())[: len(REQUIRED_ORDER)] == REQUIRED_ORDER, "docs/settings.md begins with what everybody has to set"


ERRORS = [cls.__name__ for _, cls in getmembers(bridge.errors, isclass) if cls.__module__ == "bridge.errors"]


@pytest.mark.parametrize("error", ERRORS)
def test_every_error_stands_in_the_tree(error: str) -> None:
    drawn = re.search(rf"^[│├└─ ]*{error}\b", bridge.errors.__doc__, re.MULTILINE)
    assert drawn, f"{error} is not drawn in the docstring of bridge/errors.py. Add it with what its catcher does next."


def test_the_tree_draws_no_error_that_is_gone() -> None:
    drawn = set(re.findall(r"^[│├└─ ]*([A-Z]\w+)(?: {2,}|$)", bridge.errors.__doc__, re.MULTILINE))
    assert drawn == set(ERRORS), f"the tree in bridge/errors.py and its classes differ: {drawn ^ set(ERRORS)}"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    dead = [link for link in _LINK.findall(text(page) or "") if not (page.parent / link).exists()]
    assert not dead, f"{name(page)} links to {dead}, which do not exist. Mend the link, or write the page."

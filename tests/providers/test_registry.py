"""One line per provider; the rest follows."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bridge.errors import WrongSettings
from bridge.providers import lists, registry
from bridge.sandbox.phone import SAMPLES
from tests.providers.support import SECRET, SHARED_KEY, TOKEN, settings

PAGES = Path(__file__).parents[2] / "docs" / "providers"
RECIPES = {"amazon-connect"}  # pages about systems that the generic provider hears


@pytest.mark.parametrize(
    ("environment", "names"),
    [
        ({"TWILIO_AUTH_TOKEN": TOKEN}, ["twilio"]),
        ({"TWILIO_SHARED_KEYS": f'{{"k": "{SHARED_KEY}"}}'}, ["twilio"]),
        ({"GENERIC_SECRET": SECRET}, ["generic"]),
        ({"TWILIO_AUTH_TOKEN": TOKEN, "GENERIC_SECRET": SECRET}, ["twilio", "generic"]),
    ],
)
def test_a_provider_is_built_when_its_switch_is_set(environment, names):
    assert list(registry.build(settings(**environment))) == names


def test_the_faults_of_all_providers_are_told_at_once():
    with pytest.raises(WrongSettings) as faults:
        registry.build(settings(TWILIO_ACCOUNT_TOKENS="{", GENERIC_SECRET="whsec_"))
    assert [fault.partition(":")[0] for fault in faults.value.faults] == ["TWILIO_ACCOUNT_TOKENS", "GENERIC_SECRET"]


def test_names_and_settings_are_what_their_classes_say():
    for name in registry.PROVIDERS:
        assert registry.adapter(name).name == name
        assert any(spec.switches_on for spec in registry.adapter(name).settings)
    names = [spec.name for spec in registry.SETTINGS]
    assert len(names) == len(set(names))
    assert all(spec.secret for spec in registry.SETTINGS if spec.switches_on)


@pytest.mark.parametrize("name", list(registry.PROVIDERS))
def test_a_provider_has_its_page_with_each_of_its_settings(name):
    page = PAGES / f"{name}.md"
    assert page.exists(), f"docs/providers/{name}.md is missing: docs/add-a-provider.md says what belongs there"
    missing = [spec.name for spec in registry.adapter(name).settings if f"| `{spec.name}` |" not in page.read_text("utf-8")]
    assert not missing, f"docs/providers/{name}.md has no row for {missing}"


@pytest.mark.parametrize("name", list(lists.LISTS))
def test_a_page_says_how_its_list_of_calls_is_switched_on(name):
    page = (PAGES / f"{name}.md").read_text("utf-8")
    missing = [spec.name for spec in importlib.import_module(lists.LISTS[name]).SETTINGS if f"`{spec.name}`" not in page]
    assert not missing, f"docs/providers/{name}.md does not name {missing}: whoever follows it would never get a backfill"
    assert "../backfill.md" in page


@pytest.mark.parametrize("name", [*registry.PROVIDERS, *RECIPES])
def test_a_page_says_what_belongs_on_it(name):
    """Where to click, which URL, what is sent again, what is never told, and how to try it."""
    page = (PAGES / f"{name}.md").read_text("utf-8")
    headings = re.findall("^## (.+)", page, re.MULTILINE)
    for words in ("Set it up", "fail|Retries", "What it never tells", "Try it"):
        assert any(re.search(words, heading) for heading in headings), f"docs/providers/{name}.md has no heading with {words}"
    assert "https://bridge.example.com/webhooks/" in page
    assert "flask --app app simulate" in page


def test_every_page_and_every_folder_of_samples_has_its_provider():
    assert {page.stem for page in PAGES.glob("*.md")} == set(registry.PROVIDERS) | RECIPES
    assert {folder.name for folder in SAMPLES.iterdir() if folder.is_dir()} == set(registry.PROVIDERS)


def test_importing_the_registry_imports_no_adapter():
    code = "import sys, bridge.providers.registry; print([name for name in sys.modules if name == 'jwt' or 'twilio' in name])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

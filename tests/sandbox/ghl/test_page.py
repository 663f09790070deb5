"""docs/sandbox.md names every fault, every setting and every control path of the stand-in, and none that is gone."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from bridge.sandbox.ghl import KINDS, Fault, Then, World
from bridge.sandbox.ghl.api import ROUTES
from bridge.sandbox.ghl.control import Control
from bridge.sandbox.ghl.engine import Engine

PAGE = (Path(__file__).parents[3] / "docs" / "sandbox.md").read_text(encoding="utf-8")
BODIES = [json.loads(body) for body in re.findall(r"-d '([^']+)'", PAGE)]


def first_column(heading: str) -> set[str]:
    """The code names in the first column of the table below a heading."""
    section = PAGE.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    return {name for row in re.findall(r"^\| (`[^|]+) \|", section, re.MULTILINE) for name in re.findall(r"`([^`]+)`", row)}


def test_page_lists_exactly_the_kinds_of_faults():
    assert first_column("Kinds of faults") == set(KINDS)


def test_page_lists_exactly_the_details_of_a_fault():
    assert first_column("Which requests a fault hits, and what else it may say") == set(Fault.model_fields)


def test_page_lists_exactly_the_settings_of_the_location():
    assert first_column("Settings of the location") == set(World.model_fields)


def test_page_lists_exactly_the_control_paths():
    by_id = {"DELETE /_control/faults/{number}", "POST /_control/contacts/{id}/merge", "DELETE /_control/contacts/{id}"}
    fixed = {f"{method} {path}" for method, path in Control(Engine(World()))._acts}
    assert first_column("Control") == fixed | by_id


@pytest.mark.parametrize("name", [*(f"`{route.label}`" for route in ROUTES), *(f"`{one}`" for one in Then)])
def test_page_names_every_endpoint_and_every_act_of_the_staff(name):
    assert name in PAGE


@pytest.mark.parametrize("body", [body for body in BODIES if "kind" in body], ids=lambda body: body["kind"])
def test_fault_in_an_example_is_one(body):
    assert Fault.model_validate(body).kind in KINDS


def test_every_kind_has_an_example():
    assert {body["kind"] for body in BODIES if "kind" in body} == set(KINDS)

"""The commands of the runbook, as they stand there: each is understood. Whoever reads it at night types what it says."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import pytest
import redis
from flask import Flask

from app import build_parts
from bridge import commands
from bridge.sandbox.ghl import GhlStandIn
from tests.rules.tree import ROOT
from tests.support.builders import make_settings

COMMANDS = sorted(set(re.findall(r"flask --app app ([a-z][^`\n]*)", (ROOT / "docs" / "runbook.md").read_text(encoding="utf-8"))))
FOR = {"NAME": "anna", "ROLE": "operator"}
MISUSED = 2  # click's exit code for a command line that cannot be meant


@pytest.fixture
def app(connection: redis.Redis, redis_url: str) -> Iterator[Flask]:
    with GhlStandIn() as ghl:
        made = Flask("callbridge")
        there = {"GHL_BASE_URL": ghl.url, "GHL_TOKEN": ghl.world.token, "GHL_LOCATION_ID": ghl.world.location_id}
        parts = build_parts(make_settings(REDIS_URL=redis_url, **there))
        made.extensions["callbridge"] = parts
        commands.register(made)
        yield made
        parts.connection.close()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_of_the_runbook_is_understood(app: Flask, command: str) -> None:
    words = [FOR.get(word, word) for word in shlex.split(command)]
    with app.app_context():
        done = app.test_cli_runner().invoke(args=words, input="correct horse battery\n" * 2)
    assert done.exit_code != MISUSED, done.output
    assert done.exception is None or isinstance(done.exception, SystemExit), done.output


def test_the_runbook_names_its_commands() -> None:
    assert {command.split()[0] for command in COMMANDS} == {"doctor", "replay", "backfill", "console-user"}

"""Commands on a real Redis, with a stand-in of Twilio's list."""

from __future__ import annotations

from contextlib import contextmanager

from click.testing import CliRunner
from flask import Flask

from app import build_parts
from bridge.sandbox.call_lists import CallLists
from tests.support.builders import make_settings


@contextmanager
def commands(redis_url: str, **environment: str):
    """`run(command, *arguments)` and the stand-in."""
    with CallLists() as world:
        told = {"TWILIO_ACCOUNT_SID": "AC1", "BACKFILL_BASE_URLS": world.base_urls, "REDIS_URL": redis_url}
        app = Flask("commands")
        app.extensions["callbridge"] = build_parts(make_settings(**told | environment))

        def run(command, *arguments, **options):
            with app.app_context():
                return CliRunner().invoke(command, arguments, **options)

        yield run, world
        app.extensions["callbridge"].connection.close()

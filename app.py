"""The one place where the parts meet: web, worker and commands start here."""

from __future__ import annotations

import os
import sys
from functools import partial

from flask import Flask

from bridge import environment
from bridge.commands import register
from bridge.console import api, site
from bridge.intake import http as webhooks
from bridge.parts import Parts
from bridge.settings import Settings
from bridge.watch import alerts, logs, promises
from bridge.watch import http as watch
from bridge.work import queues
from handlers import steps


def create_app(settings: Settings | None = None) -> Flask:
    """The Flask app. Reads the environment unless `settings` are given; ends the process with every fault of it at once, on one page."""
    if settings is None and os.environ.get("FLASK_RUN_FROM_CLI") and "--help" in sys.argv:
        return _only_commands()
    return _build(settings or environment.read())


def _only_commands() -> Flask:
    """For `flask … --help`, which is read before anything is set."""
    app = Flask("callbridge")
    register(app)
    return app


def _build(settings: Settings) -> Flask:
    logs.configure(settings.log_format, settings.log_level, sys.stderr)  # stdout belongs to what commands print
    alerts.configure_by(settings, release=os.environ.get("HEROKU_RELEASE_VERSION"))
    parts = build_parts(settings)
    app = Flask("callbridge")
    app.secret_key = settings.secret_key.get_secret_value()
    app.extensions["callbridge"] = parts
    app.register_blueprint(webhooks.blueprint(parts.receiver, settings.public_url))
    app.register_blueprint(
        watch.blueprint(
            parts.store,
            partial(queues.listening, parts.connection),
            partial(queues.depth, parts.connection),
            promises.processes(settings),
            partial(promises.left_today, parts.pacing, settings.ghl_location_id),
        )
    )
    if settings.api_token:
        app.register_blueprint(api.blueprint(parts.store, settings.api_token.get_secret_value(), settings.default_region))
    site.install(app, parts)
    register(app)
    return app


def build_parts(settings: Settings, *, patient: bool = False) -> Parts:
    return Parts(settings, steps.planner(settings), steps.STEPS, patient)

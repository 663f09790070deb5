"""`flask --app app doctor`: what is wrong, or not as promised, and what to change; one line for each finding."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import click
from flask import current_app

from bridge.errors import StepFailed, Unstorable
from bridge.intake.spool import Spool
from bridge.parts import Parts
from bridge.providers import registry
from bridge.settings import UncertainCreate
from bridge.watch import notify
from bridge.watch.health import Finding, check_redis, check_workers
from bridge.watch.silence import web_answers
from bridge.work import queues

_SIGNS = {True: "ok  ", None: "warn", False: "BAD "}


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of lines.")
def command(as_json: bool) -> None:
    """Check settings, Redis, workers, phone systems and GoHighLevel. Ends 0 only when nothing is bad."""
    parts: Parts = current_app.extensions["callbridge"]
    findings = list(examine(parts))
    ok = all(finding.ok is not False for finding in findings)
    if as_json:
        shown = [{"name": finding.name, "ok": finding.ok, "say": finding.say} for finding in findings]
        click.echo(json.dumps({"ok": ok, "findings": shown}))
    else:
        for finding in findings:
            click.echo(f"{_SIGNS[finding.ok]}  {finding.name}: {finding.say}")
    sys.exit(0 if ok else 1)


def examine(parts: Parts) -> Iterator[Finding]:
    yield Finding("settings", True, "the environment is complete")
    redis = check_redis(parts.connection)
    yield from redis
    if redis[0].ok:
        yield check_workers(queues.listening(parts.connection))
        yield from _check_crm(parts)
    yield _check_spool(Path(parts.settings.spool_path))
    yield _check_public_url(parts.settings.public_url)
    yield from _check_providers(parts)
    yield from _check_watch(parts)


def _check_crm(parts: Parts) -> Iterator[Finding]:
    try:
        location = parts.crm.location(fresh=True)
        parts.crm.find_contact("+15005550006")
    except StepFailed as error:
        yield Finding("gohighlevel", False, f"{error} {error.hint}".strip())
        return
    yield Finding("gohighlevel", True, f"the token reads contacts of location {location.id}")
    if location.is_assumed:
        advice = "The location's settings cannot be read, so it is treated as one that allows duplicates: give the token the scope"
        yield Finding("duplicates", None, f"{advice} `locations.readonly`, or check GHL_LOCATION_ID.")
        return
    if not location.allows_duplicates:
        yield Finding("duplicates", True, "the location refuses duplicate contacts: GoHighLevel itself stands behind us")
        return
    ask = parts.settings.uncertain_create is UncertainCreate.ASK
    after = "a person is asked" if ask else "one more upsert is sent; set UNCERTAIN_CREATE=ask to have a person asked"
    yield Finding(
        "duplicates",
        None,
        "THE LOCATION ALLOWS DUPLICATE CONTACTS: only this bridge stands between a retry and a twin. "
        "Turn “Allow Duplicate Contact” off under Settings → Business Profile. "
        f"Until then, when an uncertain create cannot be settled, {after}.",
    )


def _check_spool(path: Path) -> Finding:
    """By writing: permissions alone say nothing of a full disk or a read-only one."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent) as trial:
            trial.write(b"callbridge")
            trial.flush()
    except OSError as error:
        told = (
            f"SPOOL_PATH cannot be written ({error.strerror}): while Redis is away, webhooks would be answered 503. Name a folder of ours."
        )
        return Finding("spool", False, told)
    try:
        spool = Spool(path)
        waiting, parked, oldest_s = spool.count(), spool.parked(), spool.oldest_age(time.time())
    except Unstorable as error:
        return Finding("spool", False, str(error))
    if parked:
        told = f"{parked} webhooks could not be taken, and the log of the web process says why: mend that, then restart it."
        return Finding("spool", False, told)
    kept = f"; {waiting} wait now, the oldest for {oldest_s:.0f} s" if oldest_s is not None else ""
    return Finding("spool", True, f"webhooks can be kept on this machine while Redis is away{kept}")


def _check_public_url(public_url: str) -> Finding:
    """A warning, no fault: a network may not reach its own outside, and the web may not be up yet."""
    if web_answers(f"{public_url}/healthz"):
        return Finding("public url", True, f"{public_url} answers")
    return Finding("public url", None, f"{public_url}/healthz does not answer from here: start the web process, or check PUBLIC_URL.")


def _check_providers(parts: Parts) -> Iterator[Finding]:
    for name in registry.PROVIDERS:
        adapter = parts.providers.get(name)
        if adapter is not None:
            url = f"{parts.settings.public_url}/webhooks/{name}"
            yield Finding(name, True, f"configured; its webhooks go to {url}")
            yield from (Finding(name, None, text) for text in adapter.warnings())


def _check_watch(parts: Parts) -> Iterator[Finding]:
    settings = parts.settings
    routes = notify.routes(settings)
    yield from (_check_route(route) for route in routes)
    if not routes:
        nobody = "None of SENTRY_DSN, ALERT_WEBHOOK_URL and ALERT_EMAIL_TO is set: nobody is told when a call fails for good."
        yield Finding("alerts", None, nobody)
    elif settings.console_users is None:
        yield Finding("console", None, "CONSOLE_USERS is not set: there is no console, and the links in alerts lead nowhere.")
    if settings.smtp_url and not settings.alert_email_to:
        yield Finding("email", None, "SMTP_URL is set and ALERT_EMAIL_TO is not: no e-mail is sent.")
    if settings.api_token is None:
        yield Finding("api", None, "API_TOKEN is not set: /api does not exist.")


def _check_route(route: notify.Route) -> Finding:
    """Of the ways to an owner only the mail server can be tried without telling anybody anything."""
    if not isinstance(route, notify.ToEmail):
        return Finding(route.name, True, "set; it was not tried, since that would tell somebody")
    try:
        route.try_out()
    except (OSError, ValueError) as error:
        advice = "check SMTP_URL; alerts by e-mail do not arrive"
        return Finding(route.name, False, f"the mail server did not take us ({notify.reason(error)}): {advice}")
    return Finding(route.name, True, "the mail server answers and takes the login; no mail was sent")

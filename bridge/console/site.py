"""Puts the console together: routes, defences, error pages. Without CONSOLE_USERS there is none, and /console is a 404 like any other."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from datetime import UTC, tzinfo
from functools import partial

import redis
from flask import Blueprint, Flask, render_template
from flask.typing import ResponseReturnValue
from flask_login import current_user  # type: ignore[import-untyped]  # - ships no types
from werkzeug.exceptions import HTTPException

from bridge.console import access, present
from bridge.console.access import Access
from bridge.console.acting import Acting
from bridge.console.actions import REQUESTS_A_CALL, Desk
from bridge.console.bulk import Bulk
from bridge.console.glance import Glance
from bridge.console.many import Many
from bridge.console.pages import STATIC, Pages, without_redis
from bridge.console.users import Role, parse
from bridge.crm.gohighlevel import GoHighLevel
from bridge.crm.http import Timeouts
from bridge.crm.location_cache import LocationCache
from bridge.crm.pacing import LIVE_SHARE
from bridge.errors import Transient
from bridge.parts import Parts
from bridge.settings import DAY_S
from bridge.work import queues

LOOK_CONNECT_S, LOOK_READ_S = 2.0, 5.0  # for one question; how long a look may take in all stands in glance.py


def install(app: Flask, parts: Parts) -> None:
    """Add the console to the app, if anybody may use it. Raises WrongSettings where CONSOLE_USERS cannot be read."""
    if parts.settings.console_users is None:
        return
    users = parse(parts.settings.console_users.get_secret_value())
    routes = Blueprint("console", __name__, url_prefix="/console", template_folder="templates")
    defences = Access(users, is_https=parts.settings.public_url.startswith("https://"))
    defences.install(app, routes, parts.connection)
    what_to_do = desk(parts)
    bulk = Bulk(what_to_do)
    pages = Pages(
        what_to_do,
        bulk,
        defences,
        zone=LocationZone(LocationCache(parts.connection), parts.settings.ghl_location_id),
        listening=partial(queues.listening, parts.connection),
        region=parts.settings.default_region,
        promise_s=parts.settings.promise_s,
    )
    _route_pages(routes, pages)
    _route_actions(routes, Acting(pages), Many(pages, bulk))
    routes.register_error_handler(redis.RedisError, without_redis)
    routes.register_error_handler(Transient, without_redis)
    routes.register_error_handler(HTTPException, _error_page)
    routes.add_app_template_filter(present.quoted)
    routes.context_processor(partial(_for_every_page, _version()))
    app.register_blueprint(routes)


def desk(parts: Parts) -> Desk:
    """What people may do, for the console and for `flask replay`."""
    settings = parts.settings
    background_rate = settings.ghl_burst / settings.ghl_burst_window_s * (1 - LIVE_SHARE)
    return Desk(
        store=parts.store,
        claims=parts.claims,
        make_crm=partial(_glance, parts),
        plan=parts.plan,
        steps=tuple(step.name for step in parts.steps),
        location_id=settings.ghl_location_id,
        replay_every_s=REQUESTS_A_CALL / background_rate,
        left_today=lambda: parts.pacing.remaining(settings.ghl_location_id).daily,
        fresh_s=settings.replay_days * DAY_S,
    )


def _glance(parts: Parts) -> Glance:
    settings = parts.settings
    timeouts = Timeouts(min(settings.ghl_connect_timeout_s, LOOK_CONNECT_S), min(settings.ghl_read_timeout_s, LOOK_READ_S))
    return Glance(partial(_crm, parts), timeouts)


def _crm(parts: Parts, timeouts: Timeouts) -> GoHighLevel:
    """A client for one look: it belongs to one thread, keeps nothing open, and leaves the live calls their share of the budget."""
    settings = parts.settings
    return GoHighLevel(
        base_url=settings.ghl_base_url,
        token=settings.ghl_token.get_secret_value(),
        location_id=settings.ghl_location_id,
        timeouts=timeouts,
        pacing=parts.pacing,
        cache=LocationCache(parts.connection),
        background=True,
    )


class LocationZone:
    """The location's time zone as the workers last read it: a page never waits for the CRM.

    What they read is kept for an hour, and may be read again later than that. Until then the zone stays what it was, since a page whose
    times and days jump to UTC and back tells nobody anything. UTC where nothing was ever known.
    """

    def __init__(self, cache: LocationCache, location_id: str) -> None:
        self._cache = cache
        self._location_id = location_id
        self._known: tzinfo = UTC

    def __call__(self) -> tzinfo:
        with suppress(Transient):
            told = self._cache.get(self._location_id)
            self._known = present.zone_of(told.timezone) if told and told.timezone else self._known
        return self._known


def _route_pages(routes: Blueprint, pages: Pages) -> None:
    login = pages.access.throttled(pages.login)
    routes.add_url_rule("/static/<path:name>", "static", pages.static)
    routes.add_url_rule("/login", "login", access.guard(None)(login), methods=["GET", "POST"])
    routes.add_url_rule("/logout", "logout", pages.logout, methods=["POST"])
    routes.add_url_rule("", "today", pages.today)
    routes.add_url_rule("/", "today", pages.today, alias=True)
    routes.add_url_rule("/live", "today_live", pages.today_live)
    routes.add_url_rule("/calls", "calls", pages.calls)
    routes.add_url_rule("/search", "search", pages.search, methods=["POST"])
    routes.add_url_rule("/calls/<call_key>", "call", pages.call)
    routes.add_url_rule("/calls/<call_key>/live", "call_live", pages.call_live)
    routes.add_url_rule("/attention", "attention", pages.attention)
    routes.add_url_rule("/ignored", "ignored", pages.ignored)
    routes.add_url_rule("/<path:path>", "missing", pages.missing, methods=["GET", "POST"])


def _route_actions(routes: Blueprint, acting: Acting, many: Many) -> None:
    one = "/calls/<call_key>"
    routes.add_url_rule(f"{one}/reveal", "reveal", acting.reveal, methods=["POST"])
    routes.add_url_rule(f"{one}/replay", "preview", acting.preview, methods=["GET"])
    routes.add_url_rule(f"{one}/replay", "replay", acting.replay, methods=["POST"])
    routes.add_url_rule(f"{one}/adopt", "adopt", acting.adopt, methods=["POST"])
    routes.add_url_rule(f"{one}/close", "close", acting.close, methods=["POST"])
    routes.add_url_rule(f"{one}/assign", "assign", acting.assign, methods=["POST"])
    routes.add_url_rule("/all/<action>", "bulk", many.look, methods=["GET"])
    routes.add_url_rule("/all/<action>", "press", many.press, methods=["POST"])
    routes.add_url_rule("/bulk/<work_id>", "work", many.work, methods=["GET"])
    routes.add_url_rule("/bulk/<work_id>", "go_on", many.go_on, methods=["POST"])
    routes.add_url_rule("/bulk/<work_id>/stop", "stop", many.stop, methods=["POST"])


def _error_page(error: HTTPException) -> ResponseReturnValue:
    if error.response is not None:
        return error.response
    code = error.code or 500
    title, say_what = access.ERRORS.get(code, access.ERRORS[500])
    return render_template("console/error.html", code=code, title=title, say_what=say_what), code


def _for_every_page(version: str) -> dict[str, object]:
    return {"me": current_user if current_user.is_authenticated else None, "Role": Role, "version": version}


def _version() -> str:
    """Changes with the style and the script, so that a browser never pairs a new page with an old one."""
    return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(STATIC.iterdir()))).hexdigest()[:12]

"""The pages that show. What they say stands in present.py, how they look in templates/; what they change, in acting.py."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from urllib.parse import urlencode

import redis
from flask import abort, flash, redirect, render_template, request, send_from_directory, url_for
from flask.typing import ResponseReturnValue

from bridge.call import call_key as key_of
from bridge.console import access, filters, ignored, present, summary, today
from bridge.console.access import Access, guard, me, safe_next, tried_name
from bridge.console.actions import Desk, mark
from bridge.console.bulk import Bulk
from bridge.console.typed import legible
from bridge.console.users import Role
from bridge.console.words import Words, facts
from bridge.crm import causes
from bridge.errors import Transient
from bridge.intake import daily
from bridge.ledger import keys
from bridge.ledger.entry import Cause, Entry, State
from bridge.ledger.find import Page, Wanted
from bridge.providers.registry import PROVIDERS
from bridge.watch.logs import fact

log = logging.getLogger(__name__)

PAGE = 50
STATIC = Path(__file__).parent / "static"
STATIC_LIFE_S = 3600


class Pages:
    """Each method is a route; its guard stands above it."""

    def __init__(
        self,
        desk: Desk,
        bulk: Bulk,
        access: Access,
        *,
        zone: Callable[[], tzinfo],
        listening: Callable[[], int],
        region: str,
        promise_s: float,
    ) -> None:
        self.desk = desk
        self.store = desk.store
        self.bulk = bulk
        self.access = access
        self.region = region
        self.zone = zone
        self._listening = listening
        self._promise_s = promise_s

    # ---- In and out

    @guard(None)
    def static(self, name: str) -> ResponseReturnValue:
        return send_from_directory(STATIC, name, max_age=STATIC_LIFE_S)

    @guard(None)
    def login(self) -> ResponseReturnValue:
        wanted = safe_next(request.values.get("next"))
        if request.method == "GET":
            return render_template("console/login.html", next=wanted, failed=False)
        account = self.access.users.with_password(tried_name(), request.form.get("password", ""))
        if account is None:
            return render_template("console/login.html", next=wanted, failed=True), 401
        self.access.log_in(account)
        return redirect(wanted)

    @guard(None)
    def missing(self, path: str) -> ResponseReturnValue:
        """Whatever has no page: without this route the answer would be Flask's own."""
        del path
        said = "The address is mistyped, or it belongs to a button and not to a link."
        return render_template("console/error.html", code=404, title="There is no such page", say_what=said), 404

    @guard(Role.VIEWER)
    def logout(self) -> ResponseReturnValue:
        self.access.log_out()
        return redirect(url_for("console.login"))

    # ---- Today

    @guard(Role.VIEWER)
    def today(self) -> ResponseReturnValue:
        return self._today("console/today.html")

    @guard(Role.VIEWER)
    def today_live(self) -> ResponseReturnValue:
        return self._today("console/_today.html")

    def _today(self, template: str) -> str:
        figures = today.read(self.store, self._listening, promise_s=self._promise_s, zone=self.zone())
        day = datetime.fromtimestamp(figures.now, UTC).date()
        words = Words(figures.now, self.zone(), reads_crm=me().may(Role.OPERATOR))
        return render_template(template, today=figures, sums=daily.kept(self.store.connection, day), say=words, State=State)

    # ---- Lists

    @guard(Role.VIEWER)
    def calls(self) -> ResponseReturnValue:
        return self._list("console/calls.html", newest=True)

    @guard(Role.VIEWER)
    def attention(self) -> ResponseReturnValue:
        return self._list("console/attention.html", state=State.NEEDS_ATTENTION, urgent=True)

    def _list(self, template: str, *, state: State | None = None, newest: bool = False, urgent: bool = False) -> ResponseReturnValue:
        if "dialled" in request.args and any(not value for value in request.args.values()):
            return redirect(f"{request.path}?{urlencode(filters.kept(request.args))}")  # a form sends its empty fields too
        fault, page, total = None, Page((), None), None
        arguments = filters.kept(request.args) | ({"state": state.value} if state else {})
        try:
            after = filters.read_cursor(request.args.get("cursor", ""))
            wanted = self.wanted(arguments)
            by_urgency = urgent and wanted.since is None  # a day is one of acceptance; within it the oldest stands first
            page = self.store.find.page(wanted, after=after, limit=PAGE, newest=newest, urgent=by_urgency)
            total = self.store.find.count(wanted)
        except filters.WrongFilter as wrong:
            fault = str(wrong)
        shown = {name: value for name, value in arguments.items() if name != "state" or not state}
        return render_template(
            template,
            entries=page.entries,
            say=self.words(),
            given=shown,
            told=summary.filters(shown),
            more=filters.cursor(page.after),
            total=total,
            fault=fault,
            State=State,
            Cause=Cause,
            works=self.bulk.open() if urgent and me().may(Role.OPERATOR) else (),
            titles=summary.TITLES,
            phone_systems=sorted(PROVIDERS),
        ), 400 if fault else 200

    @staticmethod
    def wrong_filter(fault: str) -> ResponseReturnValue:
        said = f"{fault[:1].upper()}{fault[1:]}".rstrip(".")
        return render_template("console/error.html", code=400, title="This filter cannot be read", say_what=f"{said}."), 400

    def wanted(self, arguments: Mapping[str, str]) -> Wanted:
        """The filter in a query; `like` is followed to the caller of that call. Raises WrongFilter."""
        like, caller = arguments.get("like"), None
        if like:
            entry = self.store.get(like)
            caller = entry.facts.caller.e164 if entry and entry.facts.caller else None
            if caller is None:
                raise filters.WrongFilter("like is the key of a call whose caller has a number")
        return filters.read(arguments, region=self.region, zone=self.zone(), caller=caller)

    @guard(Role.VIEWER)
    def search(self) -> ResponseReturnValue:
        """Lead to what was meant. What was typed stands in no address and so in no log, since it may be a caller's number."""
        text = request.form.get("q", "")
        sought = filters.sought(text, region=self.region)
        if sought.call_key and self.store.get(sought.call_key):
            return redirect(url_for("console.call", call_key=sought.call_key))
        if not sought.last4 and (own := self._by_own_id(text)):
            return redirect(url_for("console.call", call_key=own.call_key))
        found = self._found(sought)
        if text.strip() and not found:
            flash("Nothing was found. Search by call key, contact id, telephone number or its last four digits.", "warning")
        there = url_for("console.calls")
        return redirect(f"{there}?{urlencode(found)}" if found else there)

    def _by_own_id(self, text: str) -> Entry | None:
        """The call that a phone system's own log calls so."""
        word = legible(text)
        return next(iter(self.store.get_many(key_of(name, "", word) for name in PROVIDERS)), None) if word else None

    def _found(self, sought: filters.Sought) -> dict[str, str]:
        """The filter that a search comes to.

        Viewers find callers by four digits alone: told whether a whole number has rung, they could try one after the other.
        """
        if sought.last4:
            return {"last4": sought.last4}
        if sought.phone and me().may(Role.OPERATOR) and (newest := self._one(Wanted(caller=sought.phone))):
            return {"like": newest.call_key}
        if sought.phone and self._one(Wanted(dialled=sought.phone)):
            return {"dialled": sought.phone}
        if sought.phone and not me().may(Role.OPERATOR):
            flash("With your role callers are found by their last four digits: these calls have the same four.", "warning")
            return {"last4": sought.phone[-4:]}
        if sought.contact and self._one(Wanted(contact=sought.contact)):
            return {"contact": sought.contact}
        return {}

    def _one(self, wanted: Wanted) -> Entry | None:
        page = self.store.find.page(wanted, after=None, limit=1, newest=True)
        return page.entries[0] if page.entries else None

    # ---- One call

    @guard(Role.VIEWER)
    def call(self, call_key: str) -> ResponseReturnValue:
        return self.one("console/call.html", call_key)

    @guard(Role.VIEWER)
    def call_live(self, call_key: str) -> ResponseReturnValue:
        return self.one("console/_call.html", call_key)

    def one(self, template: str, call_key: str, *, clear: bool = False) -> ResponseReturnValue:
        """A call's page; `clear` shows the number and the raw events, and is written down by whoever asks for it."""
        entry = self.store.get(call_key)
        if entry is None:
            abort(404)
        say = self.words(clear=clear)
        story = [say.story(entry, line) for line in reversed(self.store.trail(call_key))]
        return render_template(
            template,
            entry=entry,
            say=say,
            seen=mark(entry),
            facts=facts(entry, say),
            story=story,
            is_cut=len(story) >= keys.TRAIL_LINES,
            repeats=self.store.repeats(call_key),
            raw=_pretty(self.store.raw(call_key)) if clear else None,
            contact_url=present.contact_url(entry),
            steps=[(name, present.step(name), entry.steps.get(name)) for name in self.desk.steps],
            State=State,
        )

    # ---- What made no call

    @guard(Role.OWNER)
    def ignored(self) -> ResponseReturnValue:
        fact(log, "ignored events shown", by=me().name)
        page, fault = None, None
        try:
            page = ignored.read(self.store, request.args, limit=PAGE)
        except filters.WrongFilter as wrong:
            fault = str(wrong)
        shown = render_template("console/ignored.html", page=page, fault=fault, say=self.words(), pretty=_pretty)
        return shown, 400 if fault else 200

    def words(self, *, clear: bool = False) -> Words:
        return Words(self.store.clock.now(), self.zone(), clear, me().may(Role.OPERATOR))


def _pretty(document: object) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False)


def without_redis(error: redis.RedisError | Transient) -> ResponseReturnValue:
    """Also where a part of ours says it: the claims and the budget tell a fault of Redis as a step's."""
    if isinstance(error, Transient) and error.cause != causes.Cause.REDIS:
        raise error
    said = _of_what_was_pressed() + _WITHOUT_REDIS
    return render_template("console/error.html", code=503, title="Redis cannot be reached", say_what=said), 503


def _of_what_was_pressed() -> str:
    if request.endpoint == "console.logout":
        return _LOGGED_OUT_HERE
    is_action = request.method == "POST" and request.view_args  # what acts names a call, an action or a work in its address
    return _NOT_KNOWN if is_action else ""


_LOGGED_OUT_HERE = (
    f"You are logged out in this browser. Were there a copy of its cookie, it would be good for up to {access.SESSION_S // 3600} hours. "
)
_NOT_KNOWN = (
    "Whether what you pressed was done is not known: the call's story tells it when Redis is back. Pressed again, nothing is done twice. "
)


_WITHOUT_REDIS = (
    "Calls that come in now are kept on the web process's own disk, and go on by themselves when Redis is back. "
    "Check REDIS_URL and the Redis server: flask --app app doctor."
)

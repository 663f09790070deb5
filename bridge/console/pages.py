"""The pages that show. What they say stands in present.py, how they look in templates/; what they change, in acting.py."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from urllib.parse import urlencode

import redis
from flask import abort, flash, redirect, render_template, request, send_from_directory, url_for
from flask.typing import ResponseReturnValue

from bridge.console import filters, ignored, present, today
from bridge.console.access import Access, guard, safe_next
from bridge.console.actions import Desk
from bridge.console.users import Role
from bridge.intake import daily
from bridge.ledger import by_hand
from bridge.ledger.entry import Cause, Entry, State
from bridge.ledger.find import Page, Wanted

PAGE = 50
STATIC = Path(__file__).parent / "static"
STATIC_LIFE_S = 3600


@dataclass(frozen=True, slots=True)
class Words:
    """present.py for one request: its time, its zone, and whether numbers may be read. Templates call it `say`."""

    now: float
    zone: tzinfo
    clear: bool = False

    def state(self, entry: Entry) -> str:
        return present.STATES[entry.state]

    def cause(self, cause: Cause) -> str:
        return present.CAUSES[cause]

    def caller(self, entry: Entry) -> str:
        return present.caller(entry, clear=self.clear)

    def dialled(self, entry: Entry) -> str:
        return present.dialled(entry, clear=self.clear)

    def sentence(self, entry: Entry) -> str:
        return present.sentence(entry, self.now, self.zone)

    def next(self, entry: Entry) -> str:
        return present.next_step(entry, self.now, self.zone)

    def moment(self, at: float | None, *, seconds: bool = False) -> str:
        return present.moment(at, self.now, self.zone, seconds=seconds)

    def age(self, at: float) -> str:
        return present.span(self.now - at)

    def left(self, at: float) -> str:
        """`in 3 h`, or `5 min overdue`."""
        return f"in {present.span(at - self.now)}" if at >= self.now else f"{present.span(self.now - at)} overdue"

    def is_past(self, at: float) -> bool:
        return at < self.now


class Pages:
    """Each method is a route; its guard stands above it."""

    def __init__(
        self,
        desk: Desk,
        access: Access,
        *,
        zone: Callable[[], tzinfo],
        listening: Callable[[], int],
        region: str,
        promise_s: float,
    ) -> None:
        self.desk = desk
        self.store = desk.store
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
        account = self.access.users.with_password(request.form.get("name", "").strip(), request.form.get("password", ""))
        if account is None:
            return render_template("console/login.html", next=wanted, failed=True), 401
        self.access.log_in(account)
        return redirect(wanted)

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
        words = Words(figures.now, self.zone())
        return render_template(template, today=figures, sums=daily.kept(self.store.connection, day), say=words, State=State)

    # ---- Lists

    @guard(Role.VIEWER)
    def calls(self) -> ResponseReturnValue:
        if "q" in request.args:
            return self._search(request.args["q"])
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
            page, total = self.store.find.page(wanted, after=after, limit=PAGE, newest=newest, urgent=urgent), self.store.find.count(wanted)
        except filters.WrongFilter as wrong:
            fault = str(wrong)
        shown = {name: value for name, value in arguments.items() if name != "state" or not state}
        return render_template(
            template,
            entries=page.entries,
            say=self.words(),
            given=shown,
            more=filters.cursor(page.after),
            total=total,
            fault=fault,
            State=State,
            Cause=Cause,
        ), 400 if fault else 200

    def wanted(self, arguments: Mapping[str, str]) -> Wanted:
        """The filter in a query; `like` is followed to the caller of that call. Raises WrongFilter."""
        like, caller = arguments.get("like"), None
        if like:
            entry = self.store.get(like)
            caller = entry.facts.caller.e164 if entry and entry.facts.caller else None
            if caller is None:
                raise filters.WrongFilter("like is the key of a call whose caller has a number")
        return filters.read(arguments, region=self.region, zone=self.zone(), caller=caller)

    def _search(self, text: str) -> ResponseReturnValue:
        """Lead to what was meant. What was typed is not repeated in the address, since it may be a number."""
        sought = filters.sought(text, region=self.region)
        if sought.last4:
            return redirect(url_for("console.calls", last4=sought.last4))
        if sought.call_key and self.store.get(sought.call_key):
            return redirect(url_for("console.call", call_key=sought.call_key))
        if sought.phone and (newest := self._one(Wanted(caller=sought.phone))):
            return redirect(url_for("console.calls", like=newest.call_key))
        if sought.phone and self._one(Wanted(dialled=sought.phone)):
            return redirect(url_for("console.calls", dialled=sought.phone))
        if sought.contact and self._one(Wanted(contact=sought.contact)):
            return redirect(url_for("console.calls", contact=sought.contact))
        if text.strip():
            flash("Nothing was found. Search by call key, contact id, telephone number or its last four digits.", "warning")
        return redirect(url_for("console.calls"))

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
        return render_template(
            template,
            entry=entry,
            say=say,
            seen=by_hand.mark(entry),
            facts=_facts(entry, say),
            story=[present.story(line, say.now, say.zone) for line in reversed(self.store.trail(call_key))],
            repeats=self.store.repeats(call_key),
            raw=_pretty(self.store.raw(call_key)) if clear else None,
            contact_url=present.contact_url(entry),
            steps=[(name, present.step(name), entry.steps.get(name)) for name in self.desk.steps],
            State=State,
        )

    # ---- What made no call

    @guard(Role.OWNER)
    def ignored(self) -> ResponseReturnValue:
        page, fault = None, None
        try:
            page = ignored.read(self.store, request.args, limit=PAGE)
        except filters.WrongFilter as wrong:
            fault = str(wrong)
        shown = render_template("console/ignored.html", page=page, fault=fault, say=self.words(), pretty=_pretty)
        return shown, 400 if fault else 200

    def words(self, *, clear: bool = False) -> Words:
        return Words(self.store.clock.now(), self.zone(), clear)


def _facts(entry: Entry, say: Words) -> list[tuple[str, str]]:
    """What is known of the call, as pairs; what was not told is left out."""
    facts = entry.facts
    where = ", ".join(part for part in (facts.city, facts.state, facts.country) if part)
    told = [
        ("Caller", say.caller(entry)),
        ("Name", facts.caller_name or "" if say.clear else "masked" if facts.caller_name else ""),
        ("From", where if say.clear else ""),
        ("Number called", say.dialled(entry)),
        ("Came in", say.moment(entry.accepted_at, seconds=True)),
        ("Call", present.ended(entry)),
        ("Phone system", facts.provider),
        ("Pressed or said", _inputs(entry, say)),
        ("Recordings", str(len(facts.recordings) or "")),
        ("Call key", entry.call_key),
        ("Location", entry.location_id),
        ("Owner", entry.owner),
    ]
    return [(name, value) for name, value in told if value]


def _inputs(entry: Entry, say: Words) -> str:
    """Keys pressed may be an account number or a card's, and what was said may be a name: masked with the rest."""
    values = [entered.value or "nothing" for entered in entry.facts.inputs]
    return ", ".join(values) if say.clear else (present.count(len(values), "entry", "entries") + ", masked" if values else "")


def _pretty(document: object) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False)


def without_redis(_error: redis.RedisError) -> ResponseReturnValue:
    return render_template("console/error.html", code=503, title="Redis cannot be reached", say_what=_WITHOUT_REDIS), 503


_WITHOUT_REDIS = (
    "Calls that come in now are kept on the web process's own disk, and go on by themselves when Redis is back. "
    "Check REDIS_URL and the Redis server: flask --app app doctor."
)

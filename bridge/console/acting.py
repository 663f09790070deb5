"""The pages that change something. Each shows first what it would do; the doing itself is in actions.py."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import replace
from urllib.parse import urlencode

from flask import abort, flash, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from bridge.console import filters, present
from bridge.console.access import guard, me
from bridge.console.actions import BULK, Declined, Survey
from bridge.console.pages import Pages
from bridge.console.users import Role
from bridge.ledger.entry import Entry, State
from bridge.watch.logs import fact

log = logging.getLogger(__name__)

BULK_ACTIONS = {"replay": "Replay", "adopt": "Adopt a contact for", "close": "Close", "assign": "Assign"}


class Acting:
    """Each method is a route; its guard stands above it."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self._desk = pages.desk

    # ---- One call

    @guard(Role.OPERATOR)
    def reveal(self, call_key: str) -> ResponseReturnValue:
        """The number and the raw events, once: the next look is asked for, and written down, again."""
        try:
            self._desk.reveal(call_key, by=me().name)
        except Declined:
            abort(404)
        fact(log, "number revealed", call_key=call_key, by=me().name)
        return self._pages.one("console/call.html", call_key, clear=True)

    @guard(Role.OPERATOR)
    def preview(self, call_key: str) -> ResponseReturnValue:
        try:
            preview = self._desk.preview(call_key, request.args.get("step") or None)
        except Declined:
            abort(404)
        if preview is None:
            abort(404)
        steps = [present.step(name) for name in preview.will_do]
        return render_template("console/replay.html", preview=preview, entry=preview.entry, steps=steps, say=self._pages.words())

    @guard(Role.OPERATOR)
    def replay(self, call_key: str) -> ResponseReturnValue:
        form, step = request.form, request.form.get("step") or None
        return self._act(
            call_key,
            "The call is put back; it goes on within seconds.",
            lambda: self._desk.replay(call_key, by=me().name, reason=form.get("reason", ""), seen=form.get("seen", ""), from_step=step),
            back=url_for("console.preview", call_key=call_key, step=step),
        )

    @guard(Role.OPERATOR)
    def adopt(self, call_key: str) -> ResponseReturnValue:
        form = request.form
        return self._act(
            call_key,
            "The contact is taken over; the rest is done on it within seconds.",
            lambda: self._desk.adopt(
                call_key, form.get("contact_id", ""), by=me().name, reason=form.get("reason", ""), seen=form.get("seen", "")
            ),
        )

    @guard(Role.OPERATOR)
    def close(self, call_key: str) -> ResponseReturnValue:
        form = request.form
        return self._act(
            call_key,
            "The call is closed.",
            lambda: self._desk.close(call_key, by=me().name, reason=form.get("reason", ""), seen=form.get("seen", "")),
        )

    @guard(Role.OPERATOR)
    def assign(self, call_key: str) -> ResponseReturnValue:
        form = request.form
        return self._act(
            call_key,
            "The call has a new owner.",
            lambda: self._desk.assign(call_key, form.get("owner", ""), by=me().name, reason=form.get("reason", "")),
        )

    def _act(self, call_key: str, done: str, act: Callable[[], Entry], *, back: str | None = None) -> ResponseReturnValue:
        """Do it, and show the call; where it is declined, say why and change nothing."""
        if self._desk.store.get(call_key) is None:
            abort(404)
        there = url_for("console.call", call_key=call_key)
        try:
            act()
        except Declined as declined:
            flash(str(declined), "warning")
            return redirect(back or there)
        flash(done, "well")
        return redirect(there)

    # ---- Many calls

    @guard(Role.OPERATOR)
    def bulk(self, action: str) -> ResponseReturnValue:
        """GET: what would happen to all calls of a filter. POST: do it to those that the page has shown."""
        if action not in BULK_ACTIONS:
            abort(404)
        arguments, step = filters.kept(request.values), request.values.get("step") or None
        try:
            wanted = replace(self._pages.wanted(arguments), state=State.NEEDS_ATTENTION)
            survey = self._shown(self._desk.survey(wanted, step))
        except (filters.WrongFilter, Declined):
            abort(404)
        if request.method == "POST":
            return self._do(action, survey, arguments)
        return render_template(
            "console/bulk.html",
            action=action,
            title=BULK_ACTIONS[action],
            survey=survey,
            given={name: value for name, value in arguments.items() if name != "state"},
            say=self._pages.words(),
            limit=BULK,
            step=step,
            steps=[(name, present.step(name)) for name in self._desk.steps],
            minutes=present.span(len(survey.clean + survey.doubtful) * survey.start_every_s),
        )

    @staticmethod
    def _shown(survey: Survey) -> Survey:
        """Without what has come since the page was made: nobody has looked at that. A form that does not tell has shown nothing."""
        try:
            made_at = float(request.form.get("made_at", "")) if request.method == "POST" else math.inf
        except ValueError:
            made_at = 0.0
        known = tuple(one for one in survey.previews if one.entry.trouble and one.entry.trouble.at <= made_at)
        return replace(survey, previews=known)

    def _do(self, action: str, survey: Survey, arguments: dict[str, str]) -> ResponseReturnValue:
        reason, by = request.form.get("reason", ""), me().name
        try:
            done, left, said = self._done(action, survey, by=by, reason=reason)
        except Declined as declined:
            flash(str(declined), "warning")
            return redirect(f"{url_for('console.bulk', action=action)}?{urlencode(arguments)}")
        fact(log, "console bulk action", action=action, by=by, done=done, left=left)
        flash(said + (f" {left:,} were left as they are." if left else ""), "well" if done else "warning")
        return redirect(url_for("console.attention"))

    def _done(self, action: str, survey: Survey, *, by: str, reason: str) -> tuple[int, int, str]:
        """How many were done, how many were not, and how to say it. Raises Declined."""
        desk, form, entries = self._desk, request.form, [one.entry for one in survey.previews]
        if not reason.strip() and (action == "close" or (action == "replay" and not survey.clean)):
            raise Declined("Type a reason: it is kept with each call.")
        if action == "replay":
            done, left = desk.replay_all(survey, by=by, reason=reason)
            return done, left, f"{present.count(done, 'call is', 'calls are')} put back, and start one by one."
        if action == "adopt":
            done, left = desk.adopt_all(entries, form.get("contact_id", ""), by=by, reason=reason)
            return done, left, f"{present.count(done, 'call goes', 'calls go')} to this contact, one by one."
        if action == "close":
            done, left = desk.close_all(entries, by=by, reason=reason)
            return done, left, f"{present.count(done, 'call is', 'calls are')} closed."
        done, left = desk.assign_all(entries, form.get("to", ""), by=by)
        return done, left, f"{present.count(done, 'call has', 'calls have')} a new owner."

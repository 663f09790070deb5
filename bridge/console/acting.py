"""The pages that change one call, and first show what a replay would do. The doing itself is in actions.py; many calls are in many.py."""

from __future__ import annotations

import logging
from collections.abc import Callable

from flask import abort, flash, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from bridge.console import present
from bridge.console.access import guard, me
from bridge.console.actions import Declined
from bridge.console.pages import Pages
from bridge.console.users import Role
from bridge.ledger.entry import Entry
from bridge.watch.logs import fact

log = logging.getLogger(__name__)


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
            lambda: self._desk.assign(
                call_key, form.get("owner", ""), by=me().name, reason=form.get("reason", ""), seen=form.get("seen", "")
            ),
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

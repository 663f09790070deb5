"""The pages that change many calls: look at what would happen, press, and see how far it has come. The doing itself is in bulk.py."""

from __future__ import annotations

import logging
from dataclasses import replace
from urllib.parse import urlencode

from flask import abort, flash, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from bridge.console import filters, present, summary
from bridge.console.access import guard, me
from bridge.console.actions import Declined
from bridge.console.bulk import ACTIONS, Bulk, Order, Work
from bridge.console.pages import Pages
from bridge.console.users import Role
from bridge.ledger.entry import State
from bridge.watch.logs import fact

log = logging.getLogger(__name__)


class Many:
    """Each method is a route; its guard stands above it."""

    def __init__(self, pages: Pages, bulk: Bulk) -> None:
        self._pages = pages
        self._desk = pages.desk
        self._bulk = bulk

    @guard(Role.OPERATOR)
    def look(self, action: str) -> ResponseReturnValue:
        """What would happen to all calls of a filter. What is shown is taken down: a press acts on that alone."""
        if action not in ACTIONS:
            abort(404)
        query, step, at = filters.kept(request.args), request.args.get("step") or None, request.args.get("cursor", "")
        query.pop("state", None)
        try:
            wanted = replace(self._pages.wanted(query), state=State.NEEDS_ATTENTION)
            survey = self._desk.survey(wanted, step, after=filters.read_cursor(at), ask=action == "replay")
        except (filters.WrongFilter, Declined) as wrong:
            return self._pages.wrong_filter(str(wrong))
        after = filters.cursor(survey.after)
        return render_template(
            "console/bulk.html",
            action=action,
            title=summary.TITLES[action],
            survey=survey,
            given=query,
            told=summary.filters(query),
            shown=self._bulk.show(survey, by=me().name, action=action, query=query, step=step, at=at, after=after),
            at=at,
            after=after,
            say=self._pages.words(),
            step=step,
            steps=[(name, present.step(name)) for name in self._desk.steps],
            doubts=summary.doubts(survey.doubtful),
            lasts=summary.lasts(len(survey.clean + survey.doubtful) * survey.start_every_s),
        )

    @guard(Role.OPERATOR)
    def press(self, action: str) -> ResponseReturnValue:
        """Do it to the calls that the page has shown, as far as one request goes."""
        if action not in ACTIONS:
            abort(404)
        form = request.form
        order = Order(me().name, form.get("reason", ""), form.get("to", ""), form.get("contact_id", ""))
        try:
            work = self._bulk.begin(action, form.get("shown", ""), order)
        except Declined as declined:
            flash(str(declined), "warning")
            return redirect(f"{url_for('console.bulk', action=action)}?{urlencode(filters.kept(form))}")
        fact(log, "console bulk action", action=action, by=me().name, work=work.id, calls=work.total)
        return self._where(self._bulk.go_on(work.id) or work)

    @guard(Role.OPERATOR)
    def work(self, work_id: str) -> ResponseReturnValue:
        """How far it has come."""
        work = self._work(work_id)
        return render_template(
            "console/work.html",
            work=work,
            title=summary.TITLES[work.action],
            sentence=summary.work(work),
            told=summary.filters(work.query),
            next=urlencode({**work.query, **({"step": work.step} if work.step else {}), "cursor": work.next or ""}),
            is_busy=self._bulk.is_busy(work.id),
            say=self._pages.words(),
        )

    @guard(Role.OPERATOR)
    def go_on(self, work_id: str) -> ResponseReturnValue:
        work = self._work(work_id)
        if work.order.by != me().name:
            abort(403)  # the trail would tell one person's reason under another's name
        return self._where(self._bulk.go_on(work_id) or work)

    @guard(Role.OPERATOR)
    def stop(self, work_id: str) -> ResponseReturnValue:
        self._work(work_id)
        try:
            self._bulk.stop(work_id, by=me().name)
        except Declined as declined:
            flash(str(declined), "warning")
        else:
            fact(log, "console bulk action left", work=work_id, by=me().name)
        return redirect(url_for("console.work", work_id=work_id))

    def _work(self, work_id: str) -> Work:
        work = self._bulk.get(work_id)
        if work is None:
            abort(404)
        return work

    @staticmethod
    def _where(work: Work) -> ResponseReturnValue:
        """To the list that it came from where nothing is left to say, else to the page of the work."""
        if work.is_over and not work.next:
            flash(summary.work(work), "well" if work.done else "warning")
            there = url_for("console.attention")
            return redirect(f"{there}?{urlencode(work.query)}" if work.query else there)
        return redirect(url_for("console.work", work_id=work.id))

"""The JSON API for programs, behind a bearer token (API_TOKEN). Without the setting it does not exist.

It shows facts without personal data: ids, states, times, causes. Who rang, and what GoHighLevel said in its own words, is for the console's
pages, behind a person's login.
"""

from __future__ import annotations

import hmac
from datetime import UTC, datetime
from typing import Any

import redis
from flask import Blueprint, Response, jsonify, request

from bridge.console import filters, quiet
from bridge.ledger.entry import Attempt, Entry, State
from bridge.ledger.store import Store

PAGE = 50
PAGE_LIMIT = 200
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


def blueprint(store: Store, token: str, region: str = "US") -> Blueprint:
    """`region` is DEFAULT_REGION: the country of a `dialled` that is given without its country code."""
    routes = Blueprint("api", __name__, url_prefix="/api")
    _guard(routes, token)
    _answer_what_is_wrong(routes)

    @routes.get("/calls/<call_key>")
    def one_call(call_key: str) -> Response | tuple[Response, int]:
        entry = store.get(call_key)
        if entry is None:
            return jsonify(error="no such call"), 404
        return jsonify(show(entry, store.clock.now()) | {"trail": [_with_time(quiet.line(told)) for told in store.trail(call_key)]})

    @routes.get("/calls")
    def calls() -> Response | tuple[Response, int]:
        """A page of calls, oldest first. Filters are those of bridge/console/filters.py; a day begins at midnight UTC."""
        unknown = sorted(set(request.args) - {*filters.NAMES[:-1], "cursor", "limit"})
        if unknown:  # left out, it would answer with every call there is
            return jsonify(
                error=f"there is no filter {', '.join(unknown)}; there are {', '.join(filters.NAMES[:-1])}, cursor and limit"
            ), 400
        twice = sorted(name for name, values in request.args.lists() if len(values) > 1)
        if twice:  # the second would be left out without a word
            return jsonify(error=f"{', '.join(twice)} stands there more than once; a filter has one value"), 400
        try:
            wanted = filters.read(request.args, region=region, zone=UTC)
            after = filters.read_cursor(request.args.get("cursor", ""))
            limit = min(max(int(request.args.get("limit", PAGE)), 1), PAGE_LIMIT)
        except ValueError as wrong:
            told = str(wrong) if isinstance(wrong, filters.WrongFilter) else f"limit is a number up to {PAGE_LIMIT}"
            states = ", ".join(State)
            return jsonify(
                error=f"{told}. Filters: {', '.join(filters.NAMES[:-1])}; state is one of {states}; cursor is a next_cursor."
            ), 400
        page, now = store.find.page(wanted, after=after, limit=limit), store.clock.now()
        return jsonify(calls=[show(entry, now) for entry in page.entries], next_cursor=filters.cursor(page.after))

    return routes


def _guard(routes: Blueprint, token: str) -> None:
    @routes.before_request
    def only_with_the_token() -> tuple[Response, int] | None:
        scheme, _, given = request.headers.get("Authorization", "").partition(" ")
        # The scheme's name is not case-sensitive (https://www.rfc-editor.org/rfc/rfc9110#section-11.1).
        if scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode("utf-8", "replace"), token.encode()):
            return None
        return jsonify(error="send Authorization: Bearer <API_TOKEN>"), 401

    @routes.after_request
    def with_headers(response: Response) -> Response:
        response.headers.update({"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"})
        return response


def _answer_what_is_wrong(routes: Blueprint) -> None:
    @routes.errorhandler(redis.RedisError)
    def without_redis(_error: redis.RedisError) -> tuple[Response, int]:
        return jsonify(error="Redis cannot be reached; try again"), 503

    @routes.route("/<path:rest>", methods=_METHODS)
    def nothing_else(rest: str) -> tuple[Response, int]:
        """A program reads JSON, also where it has asked wrongly; and a stranger learns not even what there is."""
        if rest.partition("/")[0] == "calls" and rest.count("/") < 2 and request.method != "GET":
            answer = jsonify(error="this API only reads: GET")
            answer.headers["Allow"] = "GET, HEAD, OPTIONS"  # https://www.rfc-editor.org/rfc/rfc9110#section-15.5.6
            return answer, 405
        return jsonify(error="there is /api/calls and /api/calls/<call_key>, without a slash at the end"), 404

    @routes.errorhandler(500)
    def by_a_fault(_error: Exception) -> tuple[Response, int]:
        """Flask has logged it, so it is an alert."""
        return jsonify(error="a fault of the bridge; its log and its alerts have it"), 500


def show(entry: Entry, now: float) -> dict[str, Any]:
    """An entry for a program. Times are ISO 8601 in UTC."""
    trouble = entry.trouble
    return {
        "call_key": entry.call_key,
        "state": entry.state.value,
        "cause": trouble.cause.value if trouble else None,
        "cause_word": trouble.word if trouble else None,
        "message": quiet.ours(trouble.message) if trouble else None,
        "hint": trouble.hint if trouble else None,
        "owner": entry.owner,
        "location_id": entry.location_id,
        "provider": entry.facts.provider,
        "call_status": entry.facts.status.value,
        "contact_id": entry.contact_id,
        "reason": entry.reason,
        "closed_by": entry.closed_by,
        "version": entry.version,
        "source": entry.source,
        "age_s": round(now - entry.accepted_at, 3),
        "accepted_at": instant(entry.accepted_at),
        "due_at": instant(trouble.due_at if trouble else None),
        "next_try_at": instant(entry.next_try_at),
        "waiting_for": entry.waiting_for,
        "steps_done": list(entry.steps),
        "attempts": [_attempt(attempt) for attempt in entry.attempts],
        "events": len(entry.events),
    }


def instant(at: float | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _attempt(attempt: Attempt) -> dict[str, Any]:
    return {
        "number": attempt.number,
        "began_at": instant(attempt.began_at),
        "ended_at": instant(attempt.ended_at),
        "outcome": attempt.outcome,
        "step": attempt.step,
        "cause": attempt.cause,
        "message": quiet.ours(attempt.message) if attempt.message else None,
        "trace_id": attempt.trace_id,
        "next_try_at": instant(attempt.next_try_at),
    }


def _with_time(line: dict[str, Any]) -> dict[str, Any]:
    return {name: instant(fact) if name == "at" or name.endswith("_at") else fact for name, fact in line.items()}

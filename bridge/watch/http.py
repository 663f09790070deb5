"""`/healthz`, `/readyz` and `/metrics`. None of them shows anything about a caller."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import redis
from flask import Blueprint, Response, jsonify

from bridge.ledger.store import Store
from bridge.watch import health, metrics
from bridge.watch.promises import Process


def blueprint(
    store: Store,
    listening: Callable[[], int],
    waiting_jobs: Callable[[], int],
    watched: Sequence[Process] = (),
    left_today: Callable[[], int | None] = lambda: None,
) -> Blueprint:
    """`listening()` counts the workers that listen, `waiting_jobs()` the jobs that wait for one, `left_today()` the requests to the CRM.

    `watched` are the processes whose promises have figures.
    """
    routes = Blueprint("watch", __name__)

    @routes.get("/healthz")
    def healthz() -> Response:
        """The process is up. Touches nothing, so that a platform does not restart the web because Redis is away."""
        return jsonify(ok=True)

    @routes.get("/readyz")
    def readyz() -> tuple[Response, int]:
        """Redis answers and keeps what it is given, and a worker listens. 503 where one of them is missing."""
        findings = health.check_redis(store.connection)
        if findings[0].ok:
            findings.append(health.check_workers(listening()))
        ok = all(finding.ok is not False for finding in findings)
        checks = {finding.name: {"ok": finding.ok is not False, "say": finding.say} for finding in findings}
        return jsonify(ok=ok, checks=checks), 200 if ok else 503

    @routes.get("/metrics")
    def prometheus() -> Response:
        try:
            return Response(metrics.render(store, waiting_jobs(), watched, left_today()), content_type=metrics.CONTENT_TYPE)
        except redis.RedisError:
            return Response("Redis cannot be reached.\n", 503, content_type="text/plain; charset=utf-8")

    return routes

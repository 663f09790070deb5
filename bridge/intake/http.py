"""The webhook room's door: Flask's request as a small value, and the answer back."""

from __future__ import annotations

import time
from urllib.parse import quote

from flask import Blueprint, Request, Response, jsonify, request
from werkzeug.exceptions import RequestEntityTooLarge

from bridge.intake.webhook import BODY_LIMIT, Receiver
from bridge.providers import registry
from bridge.providers.base import WebhookRequest


def blueprint(receiver: Receiver, public_url: str) -> Blueprint:
    """`/webhooks/<provider>` and everything below it, with and without a slash at the end. The guard is the provider's signature."""
    routes = Blueprint("webhooks", __name__)

    def take(provider: str, what: str = "") -> Response | tuple[Response, int]:
        del what  # the adapter reads it from the raw path
        adapter = receiver.providers.get(provider)
        if adapter is None:
            return jsonify(error=_how_to_configure(provider)), 404
        try:
            answer = receiver.receive(adapter, read(request, public_url))
        except RequestEntityTooLarge:
            return jsonify(error=f"the body is larger than {BODY_LIMIT // 1024} KB"), 413
        return Response(answer.body, answer.status, dict(answer.headers), content_type=answer.content_type)

    for rule in ("/webhooks/<provider>", "/webhooks/<provider>/<path:what>"):
        routes.add_url_rule(rule, "take", take, methods=["GET", "POST"], strict_slashes=False)
    return routes


def read(flask_request: Request, public_url: str) -> WebhookRequest:
    """The request as it came over the wire. Raises RequestEntityTooLarge before a body that is too large is read."""
    flask_request.max_content_length = BODY_LIMIT
    body = flask_request.get_data(cache=True)
    headers: dict[str, str] = {}
    for name, value in flask_request.headers.items():
        known = headers.get(name.lower())
        headers[name.lower()] = f"{known}, {value}" if known is not None else value
    query = flask_request.environ.get("QUERY_STRING", "")
    return WebhookRequest(flask_request.method, _raw_path(flask_request), query, headers, body, public_url, time.time())


def _raw_path(flask_request: Request) -> str:
    """The path as sent. Werkzeug's own decodes some escapes, and a signature made over the raw URL would not match any more."""
    raw = flask_request.environ.get("RAW_URI") or flask_request.environ.get("REQUEST_URI") or ""
    path: str = str(raw).partition("?")[0]
    if "://" in path.partition("/webhooks")[0]:  # absolute form, as some proxies send it
        path = "/" + path.split("://", 1)[1].partition("/")[2]
    return path or quote(flask_request.environ.get("PATH_INFO", ""), safe="/~")


def _how_to_configure(provider: str) -> str:
    if provider not in registry.PROVIDERS:
        return f"there is no such provider; known are {', '.join(registry.PROVIDERS)}"
    names = [spec.name for spec in registry.adapter(provider).settings if spec.switches_on]
    return f"this provider is not configured here: set {' or '.join(names)}"

"""The webhook room's door: Flask's request as a small value, and the answer back."""

from __future__ import annotations

import time
from urllib.parse import quote

from flask import Blueprint, Request, Response, jsonify, request
from flask.blueprints import BlueprintSetupState
from werkzeug.exceptions import BadRequest, RequestEntityTooLarge

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
    routes.record(_without_head)
    return routes


def _without_head(state: BlueprintSetupState) -> None:
    """Answer HEAD with 405. Werkzeug lets it in wherever GET is, and then it would have an effect, which a HEAD never has
    (RFC 9110, 9.2.1: safe methods).
    """
    for rule in state.app.url_map.iter_rules(f"{state.name}.take"):
        if rule.methods is not None:
            rule.methods.discard("HEAD")


def read(flask_request: Request, public_url: str) -> WebhookRequest:
    """The request as it came over the wire. Raises RequestEntityTooLarge before a body that is too large is read."""
    body = _body(flask_request)
    headers: dict[str, str] = {}
    for name, value in flask_request.headers.items():
        known = headers.get(name.lower())
        headers[name.lower()] = f"{known}, {value}" if known is not None else value
    path, has_mark, query = _raw_target(flask_request)
    return WebhookRequest(flask_request.method, path, query, headers, body, public_url, time.time(), has_mark and not query)


def _body(flask_request: Request) -> bytes:
    """The body, whole. Raises RequestEntityTooLarge: before it is read where its length is told, else after one byte too many.

    Werkzeug's own limit cuts a body of no told length (chunked) and says nothing, so that its signature seems wrong.
    """
    if flask_request.content_length is not None or not flask_request.environ.get("wsgi.input_terminated"):
        flask_request.max_content_length = BODY_LIMIT
        return flask_request.get_data(cache=True)
    stream, parts, left = flask_request.environ["wsgi.input"], [], BODY_LIMIT + 1
    try:
        while left and (part := stream.read(left)):
            parts.append(part)
            left -= len(part)
    except Exception as error:  # gunicorn has a class of its own for each way in which chunks are broken, or a sender is gone
        raise BadRequest from error
    if not left:
        raise RequestEntityTooLarge
    return b"".join(parts)


def _raw_target(flask_request: Request) -> tuple[str, bool, str]:
    """Path and query as sent, and whether a question mark stands between them.

    Werkzeug's own path decodes some escapes, and WSGI forgets a question mark with nothing behind it: a signature made over the raw URL
    would not match any more.
    """
    raw = flask_request.environ.get("RAW_URI") or flask_request.environ.get("REQUEST_URI") or ""
    path, mark, query = str(raw).partition("?")
    if "://" in path.partition("/webhooks")[0]:  # absolute form, as some proxies send it
        path = "/" + path.split("://", 1)[1].partition("/")[2]
    if not path:
        path, query = quote(flask_request.environ.get("PATH_INFO", ""), safe="/~"), flask_request.environ.get("QUERY_STRING", "")
    return path, bool(mark), query


def _how_to_configure(provider: str) -> str:
    if provider not in registry.PROVIDERS:
        return f"there is no such provider; known are {', '.join(registry.PROVIDERS)}"
    names = [spec.name for spec in registry.adapter(provider).settings if spec.switches_on]
    return f"this provider is not configured here: set {' or '.join(names)}"

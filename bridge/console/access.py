"""Who gets in. Every route states its guard; one without is refused. Sessions, CSRF, throttle and headers are set here and nowhere else.

Flask-Login keeps the session, Flask-WTF the CSRF token, Flask-Limiter the throttle. The headers are our own: Flask-Talisman, which would
set them, has had no release since 2023 and reaches over the whole app, webhooks included.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar, cast
from urllib.parse import urlsplit

import redis
from flask import Blueprint, Flask, Request, Response, after_this_request, current_app, redirect, render_template, request, session, url_for
from flask.typing import ResponseReturnValue
from flask_limiter import Limiter
from flask_login import LoginManager, current_user, login_user, logout_user  # type: ignore[import-untyped]  # - ships no types
from flask_wtf import CSRFProtect  # type: ignore[import-untyped]  # - ships no types
from werkzeug.exceptions import Forbidden, NotFound

from bridge.console.devices import Devices
from bridge.console.users import Account, Role, Users
from bridge.ledger import keys

SESSION_S = 12 * 3600  # a working day; not prolonged by use, so that a forgotten tablet logs itself out
FORM_LIMIT = 64 * 1024  # bytes; the largest form has a reason of 500 characters
FAILED_LOGINS = "10 per 15 minutes; 30 per hour"

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": CSP,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=()",
}

View = TypeVar("View", bound=Callable[..., Any])
_GUARD = "console_guard"


def guard(role: Role | None) -> Callable[[View], View]:
    """State who may use a route: everybody from `role` on, or, said aloud with None, anybody at all."""

    def state(view: View) -> View:
        setattr(view, _GUARD, (role,))
        return view

    return state


def guard_of(view: object) -> tuple[Role | None] | None:
    """The stated guard in a tuple, or None where none was stated."""
    return cast("tuple[Role | None] | None", getattr(view, _GUARD, None))


def me() -> Account:
    """Who asks. Behind a guard that names a role there is always somebody."""
    return cast("Account", current_user._get_current_object())  # noqa: SLF001 - Flask-Login hands out a proxy


class Access:
    """The defences of the console's blueprint."""

    def __init__(self, users: Users, *, is_https: bool) -> None:
        self.users = users
        self._is_https = is_https
        self._csrf = CSRFProtect()
        self._connection: redis.Redis | None = None

    def install(self, app: Flask, routes: Blueprint, connection: redis.Redis) -> None:
        self._connection = connection
        app.config.update(
            SESSION_COOKIE_NAME="__Host-callbridge" if self._is_https else "callbridge",
            SESSION_COOKIE_SECURE=self._is_https,
            SESSION_COOKIE_HTTPONLY=True,
            SESSION_COOKIE_SAMESITE="Lax",
            SESSION_COOKIE_PATH="/",
            PERMANENT_SESSION_LIFETIME=timedelta(seconds=SESSION_S),
            SESSION_REFRESH_EACH_REQUEST=False,
            WTF_CSRF_CHECK_DEFAULT=False,  # webhooks are proven by their signatures; the console's routes are checked below
            WTF_CSRF_TIME_LIMIT=None,  # as long as the session, which is bounded itself
        )
        self._csrf.init_app(app)
        self._logins(app)
        self._prefix = routes.url_prefix or ""
        self._devices = Devices(self._prefix or "/", self._is_https)
        app.before_request(self._limit_the_form)  # before the limiter, which reads the form
        self.limiter = _limiter(app, connection)
        routes.before_request(self._only_whom_the_guard_lets_in)
        app.after_request(self._with_headers)  # of the app, since what no route answers belongs to no blueprint

    def _logins(self, app: Flask) -> None:
        manager = LoginManager()
        manager.session_protection = None  # it would bind the session to an address, and a phone's changes on the way
        manager.user_loader(self._of_session)
        manager.request_loader(self._of_proxy)
        manager.init_app(app)

    def _of_session(self, session_id: str) -> Account | None:
        is_over = time.time() - float(session.get("began_at", 0)) > SESSION_S
        return None if is_over or self._is_logged_out(session.get("id", "")) else self.users.of_session(session_id)

    def _is_logged_out(self, session_id: str) -> bool:
        """Without Redis it is believed: no page shows anything then."""
        try:
            return self._connection is not None and bool(self._connection.exists(keys.logged_out(session_id)))
        except redis.RedisError:
            return False

    def _of_proxy(self, asked: Request) -> Account | None:
        return self.users.with_header(lambda name: asked.headers.get(name, ""))

    def throttled(self, login: Callable[[], ResponseReturnValue]) -> Callable[[], ResponseReturnValue]:
        """The login, with failed ones counted by address and by name: one address may try many names, and many addresses one name.

        Those from a browser in which that name has logged in before are counted by the browser alone (bridge/console/devices.py).
        """
        failed = partial(self.limiter.limit, FAILED_LOGINS, methods=["POST"], deduct_when=is_failed_login)
        by_address = failed(exempt_when=lambda: self._devices.nonce(tried_name()) is not None)
        by_name_or_device = failed(key_func=self._name_or_device)
        return cast("Callable[[], ResponseReturnValue]", by_address(by_name_or_device(login)))

    def _name_or_device(self) -> str:
        """The name is digested: people type passwords into the wrong field."""
        name = tried_name()
        nonce = self._devices.nonce(name)
        return f"device:{nonce}" if nonce else f"name:{keys.digest(name)}"

    def log_in(self, account: Account) -> None:
        session.clear()  # nothing of what was there before the login survives it
        session.permanent = True
        session["began_at"] = time.time()
        session["id"] = secrets.token_hex(16)
        login_user(account)
        after_this_request(lambda response: self._devices.remember(response, account.name))

    def log_out(self) -> None:
        """End the session wherever its cookie is. Raises redis.RedisError: then it has ended in this browser alone."""
        try:
            if self._connection is not None and "id" in session:
                self._connection.set(keys.logged_out(session["id"]), "1", ex=SESSION_S)
        finally:
            logout_user()
            session.clear()

    def _is_ours(self) -> bool:
        return request.path == self._prefix or request.path.startswith(f"{self._prefix}/")

    def _limit_the_form(self) -> None:
        if self._is_ours():
            request.max_content_length = FORM_LIMIT

    def _only_whom_the_guard_lets_in(self) -> ResponseReturnValue | None:
        stated = guard_of(current_app.view_functions.get(request.endpoint or ""))
        if stated is None:
            raise NotFound
        if stated[0] is not None:
            if not current_user.is_authenticated:
                return _please_log_in()
            if not me().may(stated[0]):
                raise Forbidden
        self._csrf.protect()
        return None

    def _with_headers(self, response: Response) -> Response:
        if not self._is_ours():
            return response
        response.headers.extend({name: value for name, value in HEADERS.items() if name not in response.headers})
        if self._is_https:
            response.headers["Strict-Transport-Security"] = "max-age=31536000"
        response.headers.setdefault("Cache-Control", "no-store")
        return response


def _please_log_in() -> ResponseReturnValue:
    """The login page, and back to where somebody wanted to go. A part of a page that is fetched by script gets the bare status."""
    if request.headers.get("X-Live"):
        return Response("Log in again.\n", 401, content_type="text/plain; charset=utf-8")
    if request.method in ("GET", "HEAD"):
        return redirect(url_for("console.login", next=request.full_path.rstrip("?")))
    came_from = urlsplit(request.headers.get("Referer", ""))
    back = url_for("console.login", next=safe_next(f"{came_from.path}?{came_from.query}".rstrip("?")))
    title, say_what = ERRORS[401]
    return render_template("console/error.html", code=401, title=title, say_what=say_what, link=back, link_text="Log in again"), 401


def safe_next(wanted: str | None) -> str:
    """A page of the console, and nothing else: where a login leads is not the sender's of a link to say."""
    home = url_for("console.today")
    if not wanted or not wanted.startswith(home) or "\\" in wanted or ".." in wanted or any(ord(char) < 32 for char in wanted):
        return home
    return wanted if wanted[len(home) : len(home) + 1] in ("", "/", "?") else home


def client_address() -> str:
    """The address that the nearest proxy saw. Anything before it in the header is the client's own word."""
    told = request.headers.get("X-Forwarded-For", "").rpartition(",")[2].strip()
    return told or request.remote_addr or "unknown"


def tried_name() -> str:
    return request.form.get("name", "").strip()


def _limiter(app: Flask, connection: redis.Redis) -> Limiter:
    """Only failed logins count, in Redis, for all web processes together."""
    limiter = Limiter(
        client_address,
        storage_uri="redis://callbridge",  # not dialled: the pool is ours
        storage_options={"connection_pool": connection.connection_pool, "key_prefix": keys.LOGINS.rstrip(":")},  # type: ignore[dict-item]  # typed for text alone
    )
    limiter.init_app(app)
    return limiter


def is_failed_login(response: Response) -> bool:
    """A password was tried, and was wrong. What was not even tried (429, 400) or could not be (503) keeps nobody out any longer."""
    return response.status_code == 401


ERRORS = {
    400: (
        "This page is out of date",
        "It was made for an earlier login. Go back, load it again and repeat what you did; nothing was changed.",
    ),
    401: ("You were logged out", "Your session is over, so nothing was done. Log in again, and repeat what you did."),
    403: ("Not with your role", "Your role may look, and not do this. Ask somebody who is operator or owner."),
    404: ("Nothing here", "The call has been forgotten, or its key is mistyped. Search for it by contact or by the last four digits."),
    413: ("Too much was sent", "No form of the console is that large; nothing was changed."),
    429: (
        "Too many failed logins",
        "Wait a quarter of an hour, or use a browser that has logged in before. A forgotten password is set anew in CONSOLE_USERS.",
    ),
    500: ("This did not work", "The fault is in the console; nothing of a call was changed. The log of the web process says more."),
}

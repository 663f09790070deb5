"""Browsers from which somebody has logged in before, so that a stranger's guesses do not keep that person out.

After a login the browser gets a signed cookie that is bound to the name. Failed logins with it are counted by the cookie, all others by the
name: whoever guesses from elsewhere closes the name for everywhere else, and its owner's own browser goes on. A cookie that is stolen has
ten guesses of its own, as any stranger has, and is worth nothing for another name.
(https://owasp.org/www-community/Slow_Down_Online_Guessing_Attacks_with_Device_Cookies)
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import cast

from flask import Response, current_app, request
from itsdangerous import BadSignature, URLSafeTimedSerializer

from bridge.ledger import keys

LIFE_S = 400 * 86_400  # as long as browsers keep one (RFC 6265bis); each login begins it anew
_SALT = "callbridge console device"  # what is signed for a session or a form is no device


@dataclass(frozen=True, slots=True)
class Devices:
    """The cookies of one console. Nothing is stored: they hold a nonce, and the digest of a name that their owner has typed."""

    path: str
    is_https: bool

    def nonce(self, name: str) -> str | None:
        """Which browser asks, if `name` has logged in from it. Who has an account is not looked at, so nobody can learn it from this."""
        whose = keys.digest(name)
        try:
            told = _signer().loads(request.cookies.get(self._cookie(whose), ""), max_age=LIFE_S)
        except BadSignature:
            return None
        return str(told[1]) if isinstance(told, list) and len(told) == 2 and told[0] == whose else None

    def remember(self, response: Response, name: str) -> Response:
        """From now on this browser is one from which `name` has logged in."""
        whose = keys.digest(name)
        response.set_cookie(
            self._cookie(whose),
            str(_signer().dumps([whose, secrets.token_hex(16)])),
            max_age=LIFE_S,
            path=self.path,
            secure=self.is_https,
            httponly=True,
            samesite="Strict",  # the login's own form alone has to bring it
        )
        return response

    def _cookie(self, whose: str) -> str:
        """One for each name: a tablet may have several users. With the prefix no page over plain HTTP can set it."""
        return f"{'__Secure-' if self.is_https else ''}callbridge-device-{whose[:12]}"


def _signer() -> URLSafeTimedSerializer:
    return URLSafeTimedSerializer(cast("str", current_app.secret_key), salt=_SALT)

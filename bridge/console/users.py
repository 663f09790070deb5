"""Who may use the console, and as what: CONSOLE_USERS, read once.

One user on each line, or separated by blanks or semicolons: `name:role:hash`, as `flask --app app console-user NAME ROLE` prints it.

Behind a proxy that logs people in (an identity-aware proxy, OAuth2 Proxy), `@proxy:<header>:<secret>` names the header in which it tells
who somebody is, and the secret that it sends as `X-Console-Proxy`: without it the header is anybody's word. Users who come that way have
`@proxy` in place of a hash.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from werkzeug.security import check_password_hash, generate_password_hash

from bridge.errors import WrongSettings
from bridge.settings import Settings
from bridge.values import is_word

PROXY = "@proxy"
SECRET_HEADER = "X-Console-Proxy"  # noqa: S105 - a header's name
PASSWORD_CHARS = 12
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}")
_HEADER = re.compile(r"[A-Za-z0-9-]{1,64}")
_SECRET_CHARS = 16
# As Werkzeug makes and reads them (werkzeug/security.py, _hash_internal); anything else would be an error at each login.
_HASH = re.compile(
    r"(?:scrypt:([0-9]{1,9}):[1-9][0-9]{0,2}:[1-9][0-9]{0,2}|pbkdf2:sha(?:1|224|256|384|512)(?::[1-9][0-9]{0,8})?)\$[^$]+\$[0-9a-f]+"
)


class Role(IntEnum):
    """What somebody may do, each with all that stands before it."""

    VIEWER = 1  # sees calls, with numbers and names masked
    OPERATOR = 2  # acts, and may reveal who rang; each time is written down
    OWNER = 3  # sees what made no call, raw


@dataclass(frozen=True, slots=True)
class Account:
    """One user. Its methods are those that Flask-Login asks for."""

    name: str
    role: Role
    hash: str

    is_authenticated = True
    is_active = True
    is_anonymous = False

    def get_id(self) -> str:
        """What the session remembers: a changed password or role ends every session of before."""
        stamp = hashlib.sha256(f"{self.role}:{self.hash}".encode()).hexdigest()[:16]
        return f"{self.name} {stamp}"

    @property
    def comes_by_proxy(self) -> bool:
        """The proxy says who it is with each request: here nobody can log this user out."""
        return self.hash == PROXY

    def may(self, role: Role) -> bool:
        return self.role >= role


@dataclass(frozen=True, slots=True)
class Proxy:
    header: str
    secret: str


@dataclass(frozen=True)
class Users:
    accounts: Mapping[str, Account]
    proxy: Proxy | None = None

    def with_password(self, name: str, password: str) -> Account | None:
        """The account, if the password is right. An unknown name costs as much time as a wrong password."""
        account = self.accounts.get(name)
        known = account is not None and account.hash != PROXY
        is_right = check_password_hash(account.hash if account and known else _DUMMY, password)
        return account if known and is_right else None

    def with_header(self, header: Callable[[str], str]) -> Account | None:
        """Whom the proxy has logged in, believed only with its secret. `header(name)` is "" where there is none."""
        if self.proxy is None:
            return None
        secret = header(SECRET_HEADER)
        if not hmac.compare_digest(secret.encode("utf-8", "replace"), self.proxy.secret.encode()):
            return None
        account = self.accounts.get(header(self.proxy.header))
        return account if account is not None and account.hash == PROXY else None

    def of_session(self, session_id: str) -> Account | None:
        account = self.accounts.get(session_id.partition(" ")[0])
        return account if account is not None and hmac.compare_digest(account.get_id(), session_id) else None


def hashed(password: str) -> str:
    """scrypt, with Werkzeug's parameters. Raises ValueError for a password that is too short."""
    if len(password) < PASSWORD_CHARS:
        raise ValueError(f"A password has {PASSWORD_CHARS} characters or more.")
    return generate_password_hash(password)


def check(settings: Settings) -> None:
    """Raises WrongSettings as `parse` does, where there is anything to read."""
    if settings.console_users:
        parse(settings.console_users.get_secret_value())


def parse(text: str) -> Users:
    """Raises WrongSettings with every line that cannot be read; it never shows what stands in one."""
    accounts: dict[str, Account] = {}
    proxy: Proxy | None = None
    faults: list[str] = []
    for number, line in enumerate(re.split(r"[\s;]+", text.strip("; \t\r\n")), 1):
        name, _, rest = line.partition(":")
        if name == PROXY:
            proxy = _proxy(rest)
            fault = None if proxy else f"@proxy:<header>:<secret>, the secret {_SECRET_CHARS} characters or more"
        else:
            account = _account(name, rest)
            fault = None if account and name not in accounts else "name:role:hash, each name once (flask --app app console-user makes one)"
            accounts |= {name: account} if account else {}
        if fault:
            faults.append(f"CONSOLE_USERS: its part {number} is not of the form {fault}")
    if any(account.hash == PROXY for account in accounts.values()) and proxy is None and not faults:
        faults.append("CONSOLE_USERS: users with @proxy need a part @proxy:<header>:<secret>")
    if faults:
        raise WrongSettings(faults)
    return Users(accounts, proxy)


def _account(name: str, rest: str) -> Account | None:
    role, _, hashed_password = rest.partition(":")
    if not _NAME.fullmatch(name) or role.upper() not in Role.__members__:
        return None
    if hashed_password != PROXY and not _is_hash(hashed_password):
        return None
    return Account(name, Role[role.upper()], hashed_password)


def _is_hash(text: str) -> bool:
    found = _HASH.fullmatch(text)
    cost = int(found[1] or 2) if found else 0
    return cost > 1 and cost & (cost - 1) == 0  # scrypt's N has to be a power of two


def _proxy(rest: str) -> Proxy | None:
    header, _, secret = rest.partition(":")
    return Proxy(header, secret) if _HEADER.fullmatch(header) and len(secret) >= _SECRET_CHARS and is_word(secret) else None


# A hash that no password has, with today's parameters.
_DUMMY = "scrypt:32768:8:1$callbridge$" + "0" * 128

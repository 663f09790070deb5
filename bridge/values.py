"""What the text of a setting may look like.

A fault says what is allowed and shows nothing of what was given: that may be a secret, or the part of a password at which a parser cut a
URL. So every foreign parser runs inside a guard, and only `Unfit` carries words of its own.
"""

from __future__ import annotations

import ipaddress
import json
import math
import re
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Annotated
from urllib.parse import SplitResult, unquote, urlsplit

import redis
from pydantic import AfterValidator, BeforeValidator, SecretStr
from pydantic_settings import NoDecode
from sentry_sdk.utils import Dsn

# What pastes bring along unseen: soft hyphens, zero-width and direction marks, byte order marks.
_UNSEEN = "\u00ad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff"
_AROUND = re.compile(rf"\A[\s{_UNSEEN}]+|[\s{_UNSEEN}]+\Z")
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")  # the last ones stand for bytes that are no UTF-8
_QUOTED = re.compile(r"""(["']).*\1|\u201c.*\u201d|\u2018.*\u2019""", re.DOTALL)
_HOST = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9])?\.?")
_NOT_IN_URLS = re.compile(r"[\s<>\"\\^`{|}]")
_ADDRESS = re.compile(r"[^\s@<>,;\"]+@[^\s@<>,;\"]+")
_ID = re.compile(r"[A-Za-z0-9_-]+")

_BASE_URL = (
    "a base URL such as https://bridge.example.com, without query, fragment, user or spaces; "
    "http://… for a loopback host such as 127.0.0.1 alone"
)
_WEBHOOK = "https://…, as Slack gives it; http://… for a loopback host alone"
_REDIS = (
    "redis://:password@host:6379/0, rediss://… or unix:///path/to/socket, with options that redis-py knows; "
    "in a password, / is %2F, # is %23, ? is %3F and @ is %40"
)
_SMTP = "smtp://user:password@host:587 or smtps://user:password@host:465; in user and password, @ is %40, : is %3A and / is %2F"


class Unfit(ValueError):
    """A value that cannot be used. The message says what is allowed, and holds nothing of the value."""


class Form(StrEnum):
    """What a text is made of."""

    WORD = "word"  # fits into a header: ASCII that can be seen, no spaces
    WORDS = "words"  # several of those, separated by white space or commas
    LINE = "line"  # any text without line breaks and other control characters
    TEXT = "text"  # line breaks as well


def clean(text: str) -> str:
    """A value without the white space and the unseen characters around it, which pastes and files with foreign line ends leave there."""
    return _AROUND.sub("", text)


def misfit(text: str, form: Form) -> str | None:
    """What is wrong with a value of this form; None where nothing is."""
    if len(text) > 1 and _QUOTED.fullmatch(text):
        return "has quotes around it that a shell would have removed: write it without them"
    if form is Form.WORD and not is_word(text):
        return "one word of visible ASCII characters, without spaces, line breaks or invisible characters"
    if form is Form.WORDS and not all(map(is_word, text.split())):
        return "words of visible ASCII characters, without invisible ones; several are separated by spaces"
    if _CONTROLS.search(text if form is Form.LINE else re.sub(r"[\t\r\n]", " ", text)):
        return "text without control characters" if form is Form.TEXT else "one line of text, without control characters"
    return None


def is_word(text: str) -> bool:
    """Whether a text can stand in a header as it is."""
    return text.isascii() and text.isprintable() and bool(text) and " " not in text


def words(text: str) -> tuple[str, ...]:
    """What is separated by white space or commas."""
    return tuple(part for part in re.split(r"[\s,]+", text) if part)


def singles(text: str) -> Iterator[str]:
    """Each single secret in a setting that may hold several: words separated by white space or commas, or the texts in JSON.

    A password may hold a comma, so the word around it comes as well.
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, dict | list):
        yield from _texts(found)
        return
    yield from {*text.split(), *words(text)}


def _texts(found: object) -> Iterator[str]:
    if isinstance(found, str):
        yield found
    elif isinstance(found, dict | list):
        for one in found.values() if isinstance(found, dict) else found:
            yield from _texts(one)


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def base_urls(text: str) -> dict[str, str]:
    """The base URL of each name in a JSON object. Raises Unfit where it is none."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not all(isinstance(url, str) for url in found.values()):
        raise Unfit('a JSON object of providers and base URLs, such as {"twilio": "http://127.0.0.1:8091"}')
    return {name: base_url(url) for name, url in found.items()}


def base_url(text: str) -> str:
    parts = _web_address(text, _BASE_URL)
    if "?" in text or "#" in text or "@" in parts.netloc:
        raise Unfit(_BASE_URL)
    return f"{parts.scheme}://{parts.netloc}{parts.path}".rstrip("/")


def json_of_base_urls(text: str) -> str:
    base_urls(text)
    return text


def public_url(text: str) -> str:
    url = base_url(text)
    if "/webhooks/" in urlsplit(url).path:
        raise Unfit(f"{_BASE_URL}; not the address of a webhook: what begins with /webhooks/ comes by itself")
    return url


def _web_address(text: str, allowed: str) -> SplitResult:
    """The parts of a URL that a client can go to: over plain HTTP on this machine alone. Raises Unfit(allowed)."""
    parts = _split(text, allowed)
    is_private = parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))
    if not is_private or not _is_host(parts) or not text.isascii() or _NOT_IN_URLS.search(text):
        raise Unfit(allowed)
    return parts


def _split(text: str, allowed: str) -> SplitResult:
    """Guarded: `urlsplit` and `port` put parts of the URL into their messages, and those can be of its password."""
    try:
        parts = urlsplit(text)
        is_usable = parts.port != 0 and not parts.netloc.endswith(":")
    except ValueError:
        raise Unfit(allowed) from None
    if not is_usable or _CONTROLS.search(text) or any(char.isspace() for char in text):
        raise Unfit(allowed)
    return parts


def _is_host(parts: SplitResult) -> bool:
    host = parts.hostname or ""
    return bool(_HOST.fullmatch(host)) or ":" in host  # an IPv6 address, which urlsplit has checked


def webhook_url(text: str) -> str:
    _web_address(text, _WEBHOOK)
    return text


def smtp_url(text: str) -> str:
    parts = _split(text, _SMTP)
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    is_plain = text.partition("://")[2].rstrip("/") == parts.netloc and (user + password).isascii()  # smtplib sends no other passwords
    if parts.scheme not in {"smtp", "smtps"} or not is_plain or not _is_host(parts):
        raise Unfit(_SMTP)
    return text


def redis_url(text: str) -> str:
    """What redis-py can make a connection of. None is opened."""
    parts = _split(text, _REDIS)
    is_socket = parts.scheme == "unix"
    is_cut = not is_socket and (not re.fullmatch(r"/?|/[0-9]+", parts.path) or "@" in parts.query or (parts.netloc and not _is_host(parts)))
    if parts.scheme not in {"redis", "rediss", "unix"} or "#" in text or is_cut or (is_socket and not parts.path):
        raise Unfit(_REDIS)
    try:
        pool = redis.ConnectionPool.from_url(text)
        pool.connection_class(**pool.connection_kwargs)  # refuses options that it does not know
        numbers = [value for value in pool.connection_kwargs.values() if isinstance(value, int | float)]
    except Exception:  # noqa: BLE001 - redis-py checks some options by their use, and whatever it says holds parts of the URL
        raise Unfit(_REDIS) from None
    if not all(math.isfinite(number) and number >= 0 for number in numbers):
        raise Unfit(_REDIS)
    return text


def dsn(text: str) -> str:
    allowed = "the DSN of a Sentry project, such as https://key@o1.ingest.sentry.io/2"
    parts = _split(text, allowed)
    try:
        Dsn(text)
    except ValueError:  # BadDsn is one too, and says which part it could not read
        raise Unfit(allowed) from None
    if not text.isascii() or not _is_host(parts):
        raise Unfit(allowed)
    return text


def email_address(text: str) -> str:
    if not _ADDRESS.fullmatch(text):
        raise Unfit("plain addresses such as ops@example.com, without names")
    return text


def record_id(text: str) -> str:
    if not _ID.fullmatch(text):
        raise Unfit("an id: letters, digits, - and _ alone, as in the browser's address bar")
    return text


def word(text: str) -> str:
    if said := misfit(text, Form.WORD):
        raise Unfit(said)
    return text


def line(text: str) -> str:
    if said := misfit(text, Form.LINE):
        raise Unfit(said)
    return text


def _hidden(check: Callable[[str], str]) -> AfterValidator:
    return AfterValidator(lambda secret: SecretStr(check(secret.get_secret_value())))


def _each(check: Callable[[str], str]) -> AfterValidator:
    return AfterValidator(lambda words: tuple(map(check, words)))


def _parts(value: object) -> object:
    return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


def _pauses(value: tuple[float, ...]) -> tuple[float, ...]:
    if not value or not all(0 < pause <= 86_400 for pause in value):
        raise Unfit("one or more pauses in seconds, each above 0 and up to 86400, such as 2,5,15,60")
    return value


# Types of settings. Lists are separated by commas.
RecordId = Annotated[str, AfterValidator(record_id)]
Token = Annotated[SecretStr, _hidden(word)]
BaseUrl = Annotated[str, AfterValidator(base_url)]
PublicUrl = Annotated[str, AfterValidator(public_url)]
BaseUrls = Annotated[str, AfterValidator(json_of_base_urls)]
WebhookUrl = Annotated[SecretStr, _hidden(webhook_url)]
RedisUrl = Annotated[SecretStr, _hidden(redis_url)]
SmtpUrl = Annotated[SecretStr, _hidden(smtp_url)]
SentryDsn = Annotated[SecretStr, _hidden(dsn)]
Address = Annotated[str, AfterValidator(email_address)]
Addresses = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_parts), _each(email_address)]
Words = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_parts), _each(line)]
Pauses = Annotated[tuple[float, ...], NoDecode, BeforeValidator(_parts), AfterValidator(_pauses)]

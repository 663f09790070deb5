"""Reading what providers send: forms, JSON, times and durations, without ever raising on a genuine event.

Text is made storable (bytes that are no UTF-8 and lone surrogates become U+FFFD, NUL is left out) and otherwise kept as sent.
"""

from __future__ import annotations

import binascii
import email.utils
import json
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any

_UNSTORABLE = re.compile("[\ud800-\udfff]")
_FIRST_YEAR, _LAST_YEAR = 2000, 2099
_ESCAPES = re.compile(rb"(?:%[0-9A-Fa-f]{2})+")
_HEX = "0123456789ABCDEFabcdef"
_ONE_ESCAPE = {f"%{high}{low}".encode(): bytes([int(high + low, 16)]) for high in _HEX for low in _HEX}


def clean(text: str) -> str:
    """Text that every store and encoder takes."""
    return (text if text.isascii() else _UNSTORABLE.sub("\ufffd", text)).replace("\x00", "")


def text_of(part: bytes) -> str:
    return clean(part.decode("utf-8", "replace"))


def form_fields(encoded: bytes) -> list[tuple[bytes, bytes]]:
    """Names and values of a form body or a query, in order, repeats and blanks kept: signatures cover them all."""
    pairs = (piece.replace(b"+", b" ").partition(b"=") for piece in encoded.split(b"&") if piece)
    return [(_unescaped(name), _unescaped(value)) for name, _, value in pairs]


def _unescaped(part: bytes) -> bytes:
    """What `urllib.parse.unquote_to_bytes` makes of it; that one takes 80 ms for a body of nothing but `%`, which anybody may send."""
    return _ESCAPES.sub(_unescaped_run, part) if b"%" in part else part


def _unescaped_run(run: re.Match[bytes]) -> bytes:
    return _ONE_ESCAPE.get(run[0]) or binascii.unhexlify(run[0].replace(b"%", b""))


def json_object(body: bytes) -> dict[str, Any] | None:
    """The object in a JSON body, or None where there is none. Numbers stay the text that was sent, so that no digit is lost."""
    try:
        found = json.loads(body.decode("utf-8", "replace").removeprefix("\ufeff"), parse_int=str, parse_float=str, parse_constant=str)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def word(value: object) -> str | None:
    """A value as text: None where it is not told (null, or no plain value), "" where it is blank."""
    if isinstance(value, bool):
        return str(value).lower()
    return clean(value) if isinstance(value, str) else None


def told(value: object) -> str | None:
    """Text with something in it, without spaces around it; None otherwise."""
    return (word(value) or "").strip() or None


def seconds(value: object) -> int | None:
    """A duration in whole seconds."""
    match = re.fullmatch(r"([0-9]{1,9})(?:\.[0-9]*)?", told(value) or "")
    return int(match[1]) if match else None


def instant(value: object) -> datetime | None:
    """An instant in UTC from RFC 2822, ISO 8601 or seconds since the epoch. A time without a zone is taken as UTC.

    None for one outside of this century: no call has it, but a field that was never set shows as the year 1 or 1970.
    """
    text = told(value) or ""
    for read in (_iso, _epoch, email.utils.parsedate_to_datetime):
        try:
            found = read(text)
            found = (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
        except (ValueError, TypeError, OverflowError, OSError, IndexError):
            continue
        return found if _FIRST_YEAR <= found.year <= _LAST_YEAR else None
    return None


def _iso(text: str) -> datetime:
    if not re.match(r"[0-9]{4}-", text):
        raise ValueError("not ISO 8601")
    return datetime.fromisoformat(text)


def _epoch(text: str) -> datetime:
    if not re.fullmatch(r"[0-9]{9,11}(?:\.[0-9]+)?", text):
        raise ValueError("not seconds since the epoch")
    return datetime.fromtimestamp(float(text), UTC)


def canonical(what: str, said: Mapping[str, object] | Iterable[tuple[str, str]]) -> str:
    """What an event says, as one text that does not depend on the order of its names: repeats are told by its digest."""
    content = said if isinstance(said, Mapping) else sorted(said, key=itemgetter(0))
    return json.dumps([what, content], sort_keys=True, separators=(",", ":"))

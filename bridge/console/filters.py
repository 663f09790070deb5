"""Which calls a page or a program asks for: query arguments to `Wanted`, and back to the links that keep them. Pure.

No caller's number ever stands in an address: callers are named by one of their calls (`like`), and a number that somebody types into the
search is looked up and left out of the address to which it leads.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, tzinfo

from bridge import numbers
from bridge.console.typed import digits, legible
from bridge.ledger.entry import Cause, State
from bridge.ledger.find import Place, Wanted

NAMES = ("state", "cause", "provider", "dialled", "location", "day", "contact", "last4", "owner", "like")
_CALL_KEY = re.compile(r"[A-Za-z0-9]+-[A-Za-z0-9_-]+")
_WORD_CHARS = 128


class WrongFilter(ValueError):
    """A value that no filter has. The message names what is allowed."""


def read(arguments: Mapping[str, str], *, region: str, zone: tzinfo, caller: str | None = None) -> Wanted:
    """The filter in a query. `caller` is the number of the call that `like` names. Raises WrongFilter."""
    given = {name: arguments.get(name, "").strip()[:_WORD_CHARS] or None for name in NAMES}
    since, until = _day(given["day"], zone)
    return Wanted(
        state=_state(given["state"]),
        cause=_cause(given["cause"]),
        provider=given["provider"].lower() if given["provider"] else None,
        dialled=numbers.dialled(given["dialled"], region) if given["dialled"] else None,
        location=given["location"],
        contact=given["contact"],
        last4=_last4(given["last4"]),
        caller=caller,
        owner=given["owner"],
        since=since,
        until=until,
    )


def kept(arguments: Mapping[str, str]) -> dict[str, str]:
    """The filters of a query, for links to other pages of the same list."""
    return {name: arguments[name].strip()[:_WORD_CHARS] for name in NAMES if arguments.get(name, "").strip()}


def _state(text: str | None) -> State | None:
    try:
        return State(text.replace(" ", "_")) if text else None
    except ValueError:
        raise WrongFilter(f"state is one of {', '.join(State)}") from None


def _cause(text: str | None) -> Cause | None:
    try:
        return Cause(text) if text else None
    except ValueError:
        raise WrongFilter(f"cause is one of {', '.join(Cause)}") from None


def _last4(text: str | None) -> str | None:
    text = digits(text) if text else text
    if text is not None and not re.fullmatch(r"[0-9]{4}", text):
        raise WrongFilter("last4 is four digits")
    return text


def _day(text: str | None, zone: tzinfo) -> tuple[float | None, float | None]:
    """From midnight to midnight in `zone`, also where a day has 23 or 25 hours."""
    if text is None:
        return None, None
    try:
        day = date.fromisoformat(text)
        begin, end = (datetime.combine(one, time(), zone).timestamp() for one in (day, day + timedelta(days=1)))
    except (ValueError, OverflowError):
        raise WrongFilter("day is a date such as 2026-11-29") from None
    return begin, end


# --- the search box


@dataclass(frozen=True, slots=True)
class Sought:
    """What a text in the search box may mean: each is tried in this order, and the first that finds something is shown."""

    call_key: str | None = None
    phone: str | None = None  # E.164
    last4: str | None = None
    contact: str | None = None


def sought(text: str, *, region: str) -> Sought:
    word = digits(legible(text))[:_WORD_CHARS]
    if re.fullmatch(r"[0-9]{4}", word):
        return Sought(last4=word)
    return Sought(
        call_key=word if _CALL_KEY.fullmatch(word) else None,
        phone=numbers.identify(word, region=region).e164 if re.search(r"\d{5}", re.sub(r"\D", "", word)) else None,
        contact=word if re.fullmatch(r"[A-Za-z0-9_-]{1,64}", word) else None,
    )


# --- the cursor


def cursor(place: Place | None) -> str | None:
    return None if place is None else base64.urlsafe_b64encode(json.dumps(place).encode()).decode()


def read_cursor(text: str) -> Place | None:
    """Raises WrongFilter for a text that no page has given."""
    if not text:
        return None
    try:
        at, call_key = json.loads(base64.urlsafe_b64decode(text.encode()))
        place = float(at), str(call_key)
    except (binascii.Error, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise WrongFilter("cursor is a next_cursor of this API") from error
    if not math.isfinite(place[0]):
        raise WrongFilter("cursor is a next_cursor of this API")
    return place

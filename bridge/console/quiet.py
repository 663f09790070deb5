"""What GoHighLevel said in its own words may name a person, and no form betrays a name. Pure.

A viewer reads that it refused, and what to do; an operator reads its words without the caller's name; a reveal shows all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from bridge.ledger.entry import Entry
from bridge.watch.masking import HIDDEN

# bridge/work/attempt.py writes its words behind ours (`said` in bridge/errors.py).
_THEIRS = re.compile(
    r"(?P<ours>GoHighLevel answered \d{3} to `[^`]*`|Two creates were refused, and no contact shows): (?P<theirs>.+)", re.DOTALL
)
_NAME_CHARS = 3  # of a word that is taken for a part of a name


def ours(message: str) -> str:
    """A message without what the CRM said."""
    found = _THEIRS.fullmatch(message)
    return f"{found['ours']}." if found else message


def nameless(message: str, entry: Entry) -> str:
    """A message with the caller's name hidden where the CRM said it."""
    found = _THEIRS.fullmatch(message)
    words = [word for word in re.findall(r"\w+", entry.facts.caller_name or "") if len(word) >= _NAME_CHARS]
    if not found or not words:
        return message
    any_of = "|".join(re.escape(word) for word in words)
    return f"{found['ours']}: " + re.sub(rf"(?i)\b(?:{any_of})\b", HIDDEN, found["theirs"])


def line(told: Mapping[str, Any]) -> dict[str, Any]:
    """A line of a trail without what the CRM said."""
    return {name: ours(fact) if name == "message" and isinstance(fact, str) else fact for name, fact in told.items()}

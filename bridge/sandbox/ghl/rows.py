"""Contacts, notes and log lines as JSON, for the truth endpoint and the state file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

from bridge.sandbox.ghl.book import StoredContact, StoredNote
from bridge.sandbox.ghl.truth import Served


def contact_row(contact: StoredContact) -> dict[str, Any]:
    row = {name: value for name, value in asdict(contact).items() if name not in {"born", "gone"}}
    return _with_stamps(row | {"alive": contact.alive})


def contact_from(row: Mapping[str, Any]) -> StoredContact:
    """What a state file tells of a contact: there, or gone, for longer than any index lags."""
    return StoredContact(
        id=row["id"],
        fields=row["fields"],
        tags=tuple(row["tags"]),
        additional_phones=tuple(row["additional_phones"]),
        added_at=datetime.fromisoformat(row["added_at"]),
        updated_at=datetime.fromisoformat(row["updated_at"]),
        born=-math.inf,
        gone=None if row["alive"] else -math.inf,
        merged_into=row["merged_into"],
    )


def note_row(note: StoredNote) -> dict[str, Any]:
    return _with_stamps(asdict(note))


def note_from(row: Mapping[str, Any]) -> StoredNote:
    return StoredNote(**{**row, "added_at": datetime.fromisoformat(row["added_at"])})


def served_row(served: Served) -> dict[str, Any]:
    return _with_stamps(asdict(served))


def _with_stamps(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in row.items()}

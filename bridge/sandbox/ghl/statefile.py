"""Keeps the contacts and notes of the stand-in in a JSON file, so that a demo finds them again after a restart."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

from bridge.sandbox.ghl.book import ContactBook
from bridge.sandbox.ghl.rows import contact_from, contact_row, note_from, note_row


class StateFile:
    """One file of one stand-in. It is written whole beside its place and then moved there: a crash leaves the old or the new one."""

    def __init__(self, path: Path, book: ContactBook) -> None:
        self._path = path
        self._book = book
        self._saved = book.revision

    def load(self) -> None:
        """Take back what the file holds; no file is an empty one. Raises ValueError naming the file where it cannot be read."""
        with contextlib.suppress(FileNotFoundError):
            try:
                kept = json.loads(self._path.read_text(encoding="utf-8"))
                self._book.restore([contact_from(row) for row in kept["contacts"]], [note_from(row) for row in kept["notes"]])
            except (KeyError, TypeError, ValueError) as fault:
                raise ValueError(f"{self._path} is no state file of the sandbox: delete it to start empty") from fault
        self._saved = self._book.revision

    def save(self) -> None:
        """Write, if anything changed since the last time."""
        with self._book.lock:
            revision, contacts, notes = self._book.revision, self._book.everything(), self._book.every_note()
        if revision == self._saved:
            return
        kept = {"contacts": [contact_row(one) for one in contacts], "notes": [note_row(one) for one in notes]}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        beside = self._path.with_name(f"{self._path.name}.new")
        beside.write_text(json.dumps(kept), encoding="utf-8")
        os.replace(beside, self._path)  # noqa: PTH105 - the one atomic call, by its known name
        self._saved = revision

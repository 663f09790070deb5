"""What the demo shows in a terminal. Colours only where somebody looks, and never as the only sign."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from bridge.sandbox import story
from bridge.sandbox.deployment import ROOT, Deployment
from bridge.sandbox.story import Figures, Played

_COLOURS = {"done": "32", "needs_attention": "33", "wrong": "31", "dim": "2", "bold": "1"}
_WORDS = {"done": "done", "needs_attention": "needs attention", "accepted": "accepted", "running": "running"}


class Screen:
    """Writes to `stream`: plain lines, one paragraph for each scene."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._has_colours = stream.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"

    def started(self, deployment: Deployment, seconds: float) -> None:
        webs, workers = (sum(name.startswith(kind) for name in deployment.names) for kind in ("web", "worker"))
        processes = f"{_count(webs, 'web process', 'web processes')} and {_count(workers, 'worker process', 'worker processes')}"
        self._line()
        self._line(f"{self._in('bold', 'Callbridge')}  Redis, a GoHighLevel stand-in, {processes} are up after {seconds:.1f} s")
        self._line()

    def found(self, calls: int, counts: Mapping[str, Any]) -> None:
        if calls:
            contacts = _count(counts["contacts"], "contact", "contacts")
            self._line(f"Found from earlier runs: {_count(calls, 'call', 'calls')} in the ledger, {contacts} in GoHighLevel.")
            self._line()

    def scene(self, number: int, played: Played) -> None:
        self._line(f"{number:>2}  {self._in('bold', played.scene.title)}")
        for sentence in _sentences(played):
            self._line(f"    {sentence}")
        for call in played.calls:
            self._call(call)
        self._line()

    def ended(self, figures: Figures, failed: tuple[str, ...]) -> None:
        for fault in failed:
            self._line(self._in("wrong", f"WRONG  {fault}"))
        if not failed:
            questions = _count(figures.needs_attention, "question waits", "questions wait")
            came_of_it = f"{figures.contacts} contacts, {figures.notes} notes."
            self._line(self._in("done", f"{figures.calls} calls, {figures.deliveries} deliveries → {came_of_it}"))
            self._line(f"No caller has two contacts, no call two notes, no call is lost; {questions} for a person.")
        self._line()

    def stays(self, deployment: Deployment, environment: Path) -> None:
        token = deployment.settings["API_TOKEN"]
        rows = {
            "console": f"{deployment.url}/console  (user demo, password demo)",
            "bridge": f"{deployment.url}/readyz  /metrics",
            "its calls": f"curl -H 'Authorization: Bearer {token}' {deployment.url}/api/calls",
            "GoHighLevel": f"{deployment.ghl.url}/_truth",
            "data and logs": shown(deployment.folder),
            "more calls": f"set -a; . {shown(environment)}; .venv/bin/flask --app app simulate twilio --scenario storm",
        }
        for what, where in rows.items():
            self._line(f"{what:<14}{where}")
        self._line()
        self._line("It stays up until Ctrl-C.")

    def stopped(self, folder: Path) -> None:
        self._line()
        self._line(f"Stopped. The data stay in {shown(folder)}; the next bin/demo finds them.")

    def _call(self, call: Mapping[str, Any]) -> None:
        state = self._in(call["state"], f"● {_WORDS[call['state']]}")
        contact = f"contact {call['contact_id']}" if call["contact_id"] else "no contact"
        why = f": {call['reason']}" if call["reason"] else ""
        self._line(f"    {state}  {contact}{why}  {self._in('dim', call['call_key'])}")
        if call["state"] == story.NEEDS_ATTENTION:
            self._line(f"      why: {call['message']} ({call['cause_word']})")
            self._line(f"      next: {call['hint']}")
            self._line(f"      who: {call['owner']}, until {call['due_at']}")

    def _in(self, colour: str, text: str) -> str:
        return f"\033[{_COLOURS[colour]}m{text}\033[0m" if self._has_colours and colour in _COLOURS else text

    def _line(self, text: str = "") -> None:
        self._stream.write(text + "\n")
        self._stream.flush()


def shown(path: Path) -> str:
    """A path as one would type it from the repository, where it lies inside."""
    return str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)


def _sentences(played: Played) -> list[str]:
    statuses = ", ".join(sorted({str(sent.status) for sent in played.sent}))
    delivered = f"{_count(len(played.sent), 'delivery', 'deliveries')} answered {statuses}"
    if not played.keys:
        return [f"{delivered}; {_count(played.requests, 'request', 'requests')} to GoHighLevel, nothing kept"]
    did = [_count(played.requests, "request", "requests") + " to GoHighLevel", _count(sum(played.notes.values()), "note", "notes")]
    return [f"{delivered}; {', '.join(did)}; {played.seconds:.1f} s"]


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"

"""The job. Its import path is wire format: jobs that wait in Redis name it (bridge/work/queues.py)."""

from __future__ import annotations

from bridge import parts
from bridge.work import attempt


def run_call(call_key: str) -> None:
    """Bring the CRM in line with what the ledger knows of a call. Raises what failed for good."""
    attempt.run(parts.running().attempt, call_key)

"""Events for the spool, and how to wait for what becomes of them."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from bridge.intake.spool import Spool, Spooled

ROOT = Path(__file__).parents[2]


def event(n: int, **changes) -> Spooled:
    values = {
        "provider": "twilio",
        "method": "POST",
        "path": "/webhooks/twilio/voice",
        "query": "",
        "headers": {"content-type": "application/x-www-form-urlencoded"},
        "body": b"CallSid=CA%d" % n,
        "received_at": 1000.0 + n,
    }
    return Spooled(**values | changes)


def fill(path: Path, ns) -> Spool:
    spool = Spool(path)
    for n in ns:
        spool.put(event(n))
    return spool


def until(condition, wait_s: float = 10) -> None:
    deadline = time.monotonic() + wait_s
    while not condition():
        assert time.monotonic() < deadline, "the awaited condition did not come true"
        threading.Event().wait(0.01)

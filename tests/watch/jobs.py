"""Jobs for a real worker in a process of its own. Their import paths stand in test_alerts.py."""

from __future__ import annotations

import logging
import os
import signal
import time

from bridge.errors import Permanent
from bridge.watch import alerts

log = logging.getLogger(__name__)
PHONE = "+12025550143"
NAME = "Ada Example"


def fail_for_good(call_key):
    """As an attempt does: tags first, then the exception goes up to RQ. Message and locals hold what must not leave."""
    caller, caller_name = PHONE, NAME
    alerts.bind(call_key=call_key, step="note_call", state="needs attention")
    _refuse(caller, caller_name)


def _refuse(caller, caller_name):
    held = [caller_name]
    raise Permanent(f"phone {caller} is not allowed", cause="crm.400", hint="Look at the contact.", trace_id=f"trace-{len(held)}")


def fail_by_a_bug(call_key):
    alerts.bind(call_key=call_key)
    raise ZeroDivisionError(f"no cause, caller={PHONE}")


def come_back_later(call_key):
    """A retried attempt returns."""
    alerts.bind(call_key=call_key)
    return "later"


def log_an_error(call_key):
    """As a job does that catches its own fault: to RQ it is a success."""
    alerts.bind(call_key=call_key)
    log.error("no lead for %s", PHONE)


def log_what_it_caught(call_key):
    alerts.bind(call_key=call_key)
    try:
        _refuse(PHONE, NAME)
    except Permanent:
        log.exception("the note is left out")


def log_and_raise(call_key):
    alerts.bind(call_key=call_key)
    try:
        _refuse(PHONE, NAME)
    except Permanent:
        log.exception("about to fail")
        raise


def log_a_warning(call_key):
    alerts.bind(call_key=call_key)
    log.warning("slow today")


def take_too_long(call_key):
    alerts.bind(call_key=call_key)
    while True:
        time.sleep(0.05)


def be_killed(_call_key):
    os.kill(os.getpid(), signal.SIGKILL)


def set_up_again(call_key):
    """As a job does that imports the web application: its second set-up must not lose the worker's."""
    alerts.configure("http://other@127.0.0.1:9/2", owner="nobody")
    fail_by_a_bug(call_key)

"""The fuzzing program finds what it is for: each kind of fault, planted, is told; and of the adapters as they are it finds nothing."""

from __future__ import annotations

import logging
import random
import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from app import create_app
from bridge.errors import Refused
from bridge.providers import registry
from bridge.providers.base import Sender
from bridge.providers.callrail import CallRail
from tests.providers import fuzz
from tests.providers.fuzz_checks import Judge, environ_of
from tests.providers.fuzz_inputs import ORDER, Attempt, attempt, environment, signed
from tests.providers.support import NOW, settings

SETTINGS = settings(**environment())
STRANGE = settings(**environment(strange=True))
BODY = b'{"resource_id": "CAL1", "direction": "inbound", "customer_phone_number": "+15550101234"}'
GENUINE = signed("callrail", "POST", "post-call", "application/json", BODY, NOW)
FORGED = Attempt("callrail", replace(GENUINE.request, body=BODY.replace(b"1234", b"6666")), is_signed=False, original=GENUINE.request)


def judge(kind: type[CallRail], told: Attempt) -> list[str]:
    return Judge({"callrail": kind(SETTINGS)}, {"callrail": kind(STRANGE)}).judge(told)


class Refusing(CallRail):
    def verify(self, _request):
        raise Refused("no", reason="signature wrong")


class Trusting(CallRail):
    def verify(self, _request):
        return Sender()


class TrustingOfSignatures(CallRail):
    """Takes any body with a signature that it has made for another one."""

    def verify(self, request):
        return super().verify(replace(request, body=BODY))


class Raising(CallRail):
    def parse(self, request, sender):
        raise KeyError("customer_phone_number")


class RaisingInTheEnd(CallRail):
    def answer(self, kind, request=None):
        raise ValueError("no answer")


class Slow(CallRail):
    def parse(self, request, sender):
        until = time.thread_time() + 0.06
        while time.thread_time() < until:
            pass
        return super().parse(request, sender)


class Timeless(CallRail):
    def parse(self, request, sender):
        heard = super().parse(request, sender)
        return replace(heard, call=replace(heard.call, started_at=datetime(1, 1, 1, tzinfo=UTC)))


@pytest.mark.parametrize(
    ("kind", "told", "fault"),
    [
        (Refusing, GENUINE, "refuses what is signed"),
        (Trusting, FORGED, "proves what a bridge with other secrets would prove as well"),
        (TrustingOfSignatures, FORGED, "a change of what was signed makes another call"),
        (Raising, GENUINE, "parse raises KeyError"),
        (RaisingInTheEnd, GENUINE, "answer raises ValueError"),
        (Slow, GENUINE, "takes 6"),
        (Timeless, GENUINE, "it can't be stored or shown: OverflowError"),
    ],
)
def test_each_kind_of_fault_is_told(kind, told, fault):
    assert any(fault in one for one in judge(kind, told))
    assert judge(CallRail, told) == []


def test_an_entry_without_a_proof_and_a_500_are_told(redis_url, tmp_path):
    app = create_app(settings(**environment(), REDIS_URL=redis_url, SPOOL_PATH=str(tmp_path / "spool.sqlite3")))
    app.extensions["callbridge"].receiver.providers["callrail"] = Trusting(SETTINGS)
    careful = Judge({"callrail": CallRail(SETTINGS)}, {}, app)
    through_app = replace(FORGED, through_app=True)
    assert careful.judge(through_app) == ["app: an entry without a proof"]
    app.extensions["callbridge"].receiver.providers["callrail"] = RaisingInTheEnd(SETTINGS)
    app.testing = False
    logging.disable()
    try:
        assert "app: answers 500" in careful.judge(replace(GENUINE, through_app=True))
    finally:
        logging.disable(logging.NOTSET)


def test_a_few_hundred_requests_of_each_kind_find_nothing(redis_url, tmp_path):
    app = create_app(settings(**environment(), REDIS_URL=redis_url, SPOOL_PATH=str(tmp_path / "spool.sqlite3")))
    careful, rng = Judge(registry.build(SETTINGS), registry.build(STRANGE), app), random.Random(1)
    found = {}
    for how in range(8):
        for provider in range(len(ORDER)):
            for through_app in (0, 0, 0, 255):
                data = bytes((how, provider, through_app)) + rng.randbytes(120)
                found |= dict.fromkeys(careful.judge(attempt(data, time.time())), data.hex())
    assert found == {}
    assert careful.counts["heard"] > 50
    assert careful.counts["refused"] > 50
    assert careful.counts["through the app"] >= 8 * len(ORDER)


def test_what_goes_through_the_app_is_the_request_that_was_made_up():
    environ = environ_of(GENUINE.request)
    assert (environ["REQUEST_METHOD"], environ["RAW_URI"], environ["wsgi.input"].read()) == ("POST", "/webhooks/callrail/post-call", BODY)
    assert environ["HTTP_SIGNATURE"] == GENUINE.request.headers["signature"]


def test_without_atheris_it_says_how_to_get_it():
    code = "import sys; sys.modules['atheris'] = None; from tests.providers.fuzz import main; sys.exit(main(['--minutes', '1']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parents[2], check=False)
    assert (done.returncode, done.stderr) == (2, fuzz.HOW_TO_INSTALL)

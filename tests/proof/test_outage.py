"""What the measurement of an outage counts as good, and what it lets ring."""

from __future__ import annotations

import random
import time
from dataclasses import replace

import pytest

from bridge.sandbox.proof import outage
from bridge.sandbox.proof.outage import Outage

GOOD = Outage(200, 30, 120.0, 60.0, 0, 0, 0, 30, 2.0, redis_emptied=False)


def test_every_call_a_lead_once_and_in_time_is_good() -> None:
    assert GOOD.ok


@pytest.mark.parametrize(
    "wrong", [{"all_leads_s": None}, {"all_leads_s": 601.0}, {"lost": 1}, {"duplicate_contacts": 1}, {"duplicate_notes": 1}]
)
def test_anything_late_lost_or_doubled_is_not(wrong) -> None:
    assert not replace(GOOD, **wrong).ok


def test_missed_calls_fill_the_whole_outage_and_some_callers_ring_twice() -> None:
    now = time.time()
    calls = outage._missed(random.Random(1), 50, 30)
    assert calls[0].started == pytest.approx(now - 1800, abs=5)
    assert now - 60 < calls[-1].started <= now + 1
    assert len({call.id for call in calls}) == 50
    assert len({call.caller for call in calls}) == 45


def test_note_is_known_by_the_key_that_it_carries() -> None:
    assert outage._key("Inbound call.\nCall key: twilio-CA1.") == "twilio-CA1"

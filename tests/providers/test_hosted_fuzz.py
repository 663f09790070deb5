"""Whatever a hosted phone system, or whoever knows its secret, puts into its own envelope is read without an error, and fast."""

from __future__ import annotations

import json
import re
import time
from urllib.parse import urlencode

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.call import merge
from bridge.errors import Refused
from bridge.intake.webhook import BODY_LIMIT
from bridge.providers import registry
from bridge.providers.base import Answer, Heard, Ignored, Kind, Sender, WebhookRequest
from tests.providers.hosted_cases import ENVIRONMENT
from tests.providers.support import NOW, PUBLIC_URL, settings

PROVIDERS = registry.build(settings(**{name: value for environment in ENVIRONMENT.values() for name, value in environment.items()}))

NAMES = re.findall(
    r"\w+",
    """
    id callId call_id telephonySessionId uniqueid linkedid CallId direction is_internal
    status state code reason eventType event from to raw_digits
    digits digit number external_number internal_number phoneNumber Number CallType Duration
    duration callerid_num callerid_pres started_at answered_at createdAt answeredAt date_started date_connected
    date_ended eventTime startTime endTime CallStartTimeUTC ts contact first_name name
    recording voicemail recordings media recording_details url recordingUrl mediaUrl recordingId
    parentCallId master_call_id entry_point_call_id parties extensionId missedCall participants external workspace
    dialogue content transcript summary transcription_text ivr_options_selected key diversion origTo
    cause system
    """,
)
SCALARS = st.none() | st.booleans() | st.integers(-1, 10**18) | st.floats() | st.text(max_size=20) | st.just("https://example.com/a")
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=5), max_leaves=10
)
OBJECTS = st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=12)


def in_envelopes(told):
    """The same members where each system looks for them."""
    text = json.dumps(told).encode()
    return {
        "3cx": text,
        "aircall": json.dumps({"resource": "call", "data": told}).encode(),
        "asterisk": urlencode({name: str(value) for name, value in told.items()}, errors="replace").encode(),
        "bandwidth": text,
        "dialpad": jwt.PyJWS().encode(text, "x" * 32, algorithm="HS256").encode(),
        "quo": json.dumps({"type": "call.x", "data": {"resource": told, "context": told}}).encode(),
        "ringcentral": json.dumps({"body": {"telephonySessionId": "s", "parties": [told, {"from": told, "to": told}]} | told}).encode(),
    }


def request(name, body, **headers):
    return WebhookRequest("POST", f"/webhooks/{name}/events", "", headers, body, PUBLIC_URL, NOW)


@given(told=OBJECTS)
def test_any_member_may_be_anything(told):
    for name, body in in_envelopes(told).items():
        outcome = PROVIDERS[name].parse(request(name, body), Sender())
        assert isinstance(outcome, Heard | Ignored)
        assert isinstance(PROVIDERS[name].answer(outcome.kind, request(name, body)), Answer)
        if isinstance(outcome, Heard):
            assert merge(outcome.call, outcome.call) == outcome.call, name
            outcome.content.encode()
            assert not any("\x00" in text or "\ud800" <= text <= "\udfff" for text in (outcome.call.root_id, outcome.call.key))


HEAVY = {
    "numbers": b'{"data":{"id":"1"},"token":' + b"9" * 200_000 + b"}",
    "nested": b"[" * BODY_LIMIT,
    "opened": b'{"data":' * 30_000,
    "dots": b"." * BODY_LIMIT,
    "token": b"eyJhbGciOiJIUzI1NiJ9." + b"A" * 200_000 + b".AAAA",
    "fields": b"uniqueid=1&" * 20_000,
    "escapes": b"uniqueid=" + b"%e9" * 80_000,
}


@pytest.mark.parametrize("weight", HEAVY)
@pytest.mark.parametrize("name", ENVIRONMENT)
def test_the_heaviest_body_costs_little(name, weight):
    heavy = request(name, HEAVY[weight], **{"authorization": "Basic " + "A" * 8000, "openphone-signature": "hmac;1;1;A," * 700})
    spent = []
    for _ in range(3):
        begun = time.thread_time()
        with pytest.raises(Refused):
            PROVIDERS[name].verify(heavy)
        assert PROVIDERS[name].parse(heavy, Sender()).kind in set(Kind)
        spent.append(time.thread_time() - begun)
    assert min(spent) < 0.05

"""Outbound calls as each phone system tells them: a recording that names no direction is no question, before or after the call itself."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import urlencode

import pytest
import redis

from bridge.intake.accept import BELONGS
from bridge.intake.spool import Spool
from bridge.intake.webhook import Receiver
from bridge.ledger.entry import State
from bridge.ledger.ignored import Shelf
from bridge.providers import registry
from bridge.providers.base import Provider, Sender, WebhookRequest
from tests.support.builders import NOW
from tests.support.house import House

OWN, OTHER = "+15550109999", "+15550101234"
FORM, JSON = "application/x-www-form-urlencoded", "application/json"


def form(**fields: str) -> tuple[str, bytes]:
    return FORM, urlencode(fields).encode()


def document(**members: object) -> tuple[str, bytes]:
    return JSON, json.dumps(members).encode()


def telnyx(event: str, **payload: object) -> tuple[str, bytes]:
    return document(data={"event_type": event, "id": event, "payload": {"call_session_id": "s1", "call_leg_id": "l1"} | payload})


TWILIO = form(CallSid="CA1", Direction="outbound-api", From=OWN, To=OTHER, CallStatus="completed")
RECORDING = form(CallSid="CA1", RecordingSid="RE1", RecordingUrl="https://x.example.com/RE1", RecordingStatus="completed")
QUO = {"type": "call.completed", "data": {"resource": {"id": "AC1", "direction": "outgoing", "from": OWN, "to": OTHER}}}
CASES = {
    "a recording": ("twilio", TWILIO, RECORDING),
    "a recording under Telnyx": ("telnyx", TWILIO, RECORDING),
    "a recording under SignalWire": ("signalwire", TWILIO, RECORDING),
    "a leg": ("twilio", TWILIO, form(CallSid="CA2", ParentCallSid="CA1", Direction="outbound-dial", From=OWN, To=OTHER)),
    "a leg's recording": ("twilio", TWILIO, form(CallSid="CA2", ParentCallSid="CA1", RecordingSid="RE1", RecordingUrl="https://x/RE1")),
    "what Telnyx tells later": (
        "telnyx",
        telnyx("call.initiated", direction="outgoing", **{"from": OWN, "to": OTHER}),
        telnyx("call.answered"),
    ),
    "a recording of Telnyx": (
        "telnyx",
        telnyx("call.initiated", direction="outgoing", **{"from": OWN, "to": OTHER}),
        telnyx("call.recording.saved", recording_id="r", public_recording_urls={"mp3": "https://x.example.com/1"}),
    ),
    "a recording of Plivo": (
        "plivo",
        form(CallUUID="p1", Direction="outbound", From=OWN, To=OTHER, CallStatus="completed"),
        form(CallUUID="p1", RecordUrl="https://x.example.com/1", RecordingID="r1"),
    ),
    "a recording of Vonage": (
        "vonage",
        document(conversation_uuid="c1", uuid="u1", direction="outbound", status="completed", **{"from": OWN, "to": OTHER}),
        document(conversation_uuid="c1", recording_uuid="r1", recording_url="https://x.example.com/1"),
    ),
    "a recording of Quo": (
        "quo",
        document(**QUO),
        document(type="call.recording.completed", data={"resource": {"callId": "AC1", "media": [{"url": "https://x.example.com/1"}]}}),
    ),
    "a recording of the generic kind": (
        "generic",
        document(type="call.ended", data={"call_id": "g1", "direction": "outbound", "from": OWN, "to": OTHER}),
        document(type="call.recording.ready", data={"call_id": "g1", "recording_url": "https://x.example.com/1"}),
    ),
}
GUESSES = {
    "a transcription": ("twilio", TWILIO, form(CallSid="CA1", From=OWN, To=OTHER, TranscriptionSid="TR1", TranscriptionText="Hi")),
    "a step of Studio": ("twilio", TWILIO, form(CallSid="CA1", From=OTHER)),
    "an event of the generic kind": (
        "generic",
        document(type="call.ended", data={"call_id": "g1", "direction": "outbound", "from": OWN, "to": OTHER}),
        document(type="call.note", data={"call_id": "g1", "from": OTHER}),
    ),
}
SECRETS = {
    "TELNYX_PUBLIC_KEY": "5MZ1b4kEn6ucy2l3ODaGFDHSf0R2rCWmVSvUIDLJzRs=",
    "PLIVO_AUTH_TOKEN": "plivo_test_auth_token_made_up_0001",
    "VONAGE_SIGNATURE_SECRET": "vonage-signature-secret-made-up-0001",
    "SIGNALWIRE_SIGNING_KEY": "PSK_madeUpSigningKey000000000000",
    "GENERIC_SECRET": "whsec_Z2VuZXJpYy1tYWRlLXVwLXNpZ25pbmctc2VjcmV0ISE=",
    "QUO_SECRET": "whsec_Z2VuZXJpYy1tYWRlLXVwLXNpZ25pbmctc2VjcmV0ISE=",
}


class Bridge:
    """The webhook room with one provider, whose proofs are taken as given."""

    def __init__(self, connection: redis.Redis, spool: Path, provider: str) -> None:
        self.house = House(connection, **SECRETS)
        self.provider: Provider = registry.build(self.house.settings)[provider]
        self.provider.verify = lambda request: Sender()  # type: ignore[method-assign]  # proofs are tested elsewhere
        self.receiver = Receiver({provider: self.provider}, self.house.acceptor, self.house.store, Spool(spool), flush_after_s=60)

    def take(self, event: tuple[str, bytes]) -> None:
        kind, body = event
        request = WebhookRequest("POST", f"/webhooks/{self.provider.name}", "", {"content-type": kind}, body, "https://x", NOW)
        assert self.receiver.receive(self.provider, request).status in {200, 204}

    def end(self) -> list[State]:
        """Every call once its time has come."""
        for call_key in self.house.jobs():
            self.house.run(call_key)
        return [entry.state for entry in self.house.store.page(None, after=None, limit=9)]

    def unread(self) -> int:
        return self.house.store.ignored.counts()[Shelf.UNREAD]


@pytest.mark.parametrize("name", [*CASES, *GUESSES])
def test_an_outbound_call_leaves_nothing_that_waits(connection: redis.Redis, tmp_path: Path, name: str) -> None:
    provider, call, later = (CASES | GUESSES)[name]
    bridge = Bridge(connection, tmp_path / "spool", provider)
    bridge.take(call)
    bridge.take(later)
    assert (bridge.end(), bridge.house.crm.requests, bridge.unread()) == ([], [], 0)
    reasons = {event["reason"] for event in bridge.house.store.ignored.page(Shelf.OTHER, limit=9).events}
    assert any(reason.startswith("outbound call") for reason in reasons)
    assert reasons & set(BELONGS.values()) or name == "a leg"


@pytest.mark.parametrize("name", CASES)
def test_in_the_other_order_it_ends_as_done_without_a_lead(connection: redis.Redis, tmp_path: Path, name: str) -> None:
    provider, call, later = CASES[name]
    bridge = Bridge(connection, tmp_path / "spool", provider)
    bridge.take(later)
    bridge.take(call)
    assert bridge.end() in ([], [State.DONE])
    assert (bridge.house.crm.requests, bridge.unread()) == ([], 0)


@pytest.mark.parametrize("is_dialled_leg_first", [False, True])
def test_a_call_that_came_in_and_was_put_through_is_a_lead_under_one_shared_id(
    connection: redis.Redis, tmp_path: Path, *, is_dialled_leg_first: bool
) -> None:
    bridge = Bridge(connection, tmp_path / "spool", "telnyx")
    events = [
        telnyx("call.initiated", direction="incoming", **{"from": OTHER, "to": OWN}),
        telnyx("call.initiated", direction="outgoing", call_leg_id="l2", **{"from": OWN, "to": "+15550105555"}),
    ]
    for event in reversed(events) if is_dialled_leg_first else events:
        bridge.take(event)
    bridge.take(telnyx("call.recording.saved", recording_id="r", public_recording_urls={"mp3": "https://x.example.com/1"}))
    bridge.end()
    (entry,) = bridge.house.store.page(None, after=None, limit=9)
    assert entry.contact_id == "c1"
    assert len(entry.facts.recordings) == 1

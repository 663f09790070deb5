"""Values for tests: a call, an entry, settings, and a clock that moves when it is told to."""

from __future__ import annotations

from bridge.call import Call, Caller, CallerKind, Status
from bridge.ledger import moves
from bridge.ledger.entry import Cause, Entry, Plan, Trouble
from bridge.providers import registry
from bridge.settings import Settings, load

NOW = 1_768_489_445.0
PHONE = "+15550101234"
CALLER = Caller(PHONE, CallerKind.PSTN, PHONE)
ANONYMOUS = Caller("anonymous", CallerKind.WITHHELD)
TWILIO_TOKEN = "twilio_test_auth_token_made_up_01"

ENVIRONMENT = {
    "REDIS_URL": "redis://127.0.0.1:1/0",
    "PUBLIC_URL": "https://ivr.example.com",
    "SECRET_KEY": "a secret made up for tests",
    "GHL_TOKEN": "pit-made-up",
    "GHL_LOCATION_ID": "loc1",
    "TWILIO_AUTH_TOKEN": TWILIO_TOKEN,
    "BRIDGE_OWNER": "anna",
}


class Clock:
    """RedisClock's interface, moved by hand."""

    def __init__(self, at: float = NOW) -> None:
        self.at = at

    def now(self) -> float:
        return self.at

    def advance(self, seconds: float) -> None:
        self.at += seconds


def make_settings(**environment: str) -> Settings:
    return load(ENVIRONMENT | environment, registry.SETTINGS)


def make_call(**facts) -> Call:
    """A call that is over, from a caller with a number, unless told otherwise."""
    values = {
        "provider": "twilio",
        "account": "",
        "root_id": "CA1",
        "caller": CALLER,
        "dialled": "+15550109999",
        "status": Status.COMPLETED,
        "raw_status": "completed",
    }
    return Call(**values | facts)


KEY = make_call().key


def make_entry(**facts) -> Entry:
    """An accepted entry, not queued yet."""
    call = facts.pop("facts", make_call())
    values = {
        "call_key": call.key,
        "facts": call,
        "location_id": "loc1",
        "owner": "anna",
        "accepted_at": NOW,
        "last_event_at": NOW,
    }
    return Entry(**values | facts)


def make_trouble(cause: Cause = Cause.PERMANENT, word: str = "crm.403", at: float = NOW) -> Trouble:
    return Trouble(cause, word, "refused", "Check GHL_TOKEN.", at, at + 60)


def queued_entry(**facts) -> Entry:
    return moves.queue(make_entry(**facts), NOW)


def running_entry(**facts) -> Entry:
    return moves.begin(queued_entry(**facts), NOW, lease_s=30, worker="w1")


def done_entry(**facts) -> Entry:
    return moves.finish(running_entry(**facts), Plan(), NOW)


def parked_entry(cause: Cause = Cause.PERMANENT, **facts) -> Entry:
    return moves.park(running_entry(**facts), NOW, make_trouble(cause))


def entry_in(state: str) -> Entry:
    builders = {"accepted": queued_entry, "running": running_entry, "done": done_entry, "needs_attention": parked_entry}
    return builders[state]()

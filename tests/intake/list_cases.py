"""For each list of calls: the settings that open it, and a call that has a webhook among the samples."""

from __future__ import annotations

from dataclasses import dataclass, field

from bridge.providers import lists, registry
from bridge.providers.lists.base import Lister
from bridge.sandbox.call_lists import CallLists
from bridge.sandbox.phone import sample
from bridge.settings import Settings
from tests.providers.support import received, settings

TELNYX_KEY = "5nWcc7ZlA+MlGGz2Znz7wuROZuPGp2kKTZp0gpSR2ig="


@dataclass(frozen=True)
class ListCase:
    provider: str
    sample: str  # a webhook about the call whose key a listed call must have
    environment: dict[str, str] = field(default_factory=dict)
    credentials: dict[str, str] = field(default_factory=dict)
    numeric: bool = False  # ids are numbers


CASES = (
    ListCase("twilio", "voice-inbound", {"TWILIO_AUTH_TOKEN": "t" * 32}, {"TWILIO_ACCOUNT_SID": "AC1"}),
    ListCase("telnyx", "call-initiated", {"TELNYX_PUBLIC_KEY": TELNYX_KEY}, {"TELNYX_API_KEY": "KEY1"}),
    ListCase("plivo", "answer", {"PLIVO_AUTH_TOKEN": "plivo"}, {"PLIVO_AUTH_ID": "MA1", "PLIVO_TIME_ZONE": "America/Chicago"}),
    ListCase(
        "signalwire",
        "cxml-voice",
        {"SIGNALWIRE_SIGNING_KEY": "PSK_1"},
        {"SIGNALWIRE_SPACE": "example.signalwire.com", "SIGNALWIRE_PROJECT_ID": "p1", "SIGNALWIRE_API_TOKEN": "PT1"},
    ),
    ListCase("callrail", "post-call", {"CALLRAIL_SIGNING_KEY": "c" * 32}, {"CALLRAIL_API_KEY": "k", "CALLRAIL_ACCOUNT_ID": "ACC1"}),
    ListCase("vonage", "answer", {"VONAGE_SIGNATURE_SECRET": "v" * 32}, {"VONAGE_API_KEY": "k", "VONAGE_API_SECRET": "s"}),
    ListCase(
        "ringcentral",
        "session-setup",
        {"RINGCENTRAL_VALIDATION_TOKEN": "r" * 32},
        {"RINGCENTRAL_CLIENT_ID": "i", "RINGCENTRAL_CLIENT_SECRET": "s", "RINGCENTRAL_JWT": "j"},
    ),
    ListCase("dialpad", "call-ringing", {"DIALPAD_SECRET": "d" * 32}, {"DIALPAD_API_KEY": "k"}),
    ListCase(
        "aircall", "call-created", {"AIRCALL_WEBHOOK_TOKEN": "a" * 32}, {"AIRCALL_API_ID": "i", "AIRCALL_API_TOKEN": "t"}, numeric=True
    ),
    ListCase("quo", "call-completed", {"QUO_SECRET": "whsec_" + "QUJD" * 10}, {"QUO_API_KEY": "k"}),
    ListCase(
        "bandwidth",
        "initiate",
        {"BANDWIDTH_USER": "u", "BANDWIDTH_PASSWORD": "b" * 32},
        {"BANDWIDTH_ACCOUNT_ID": "A1", "BANDWIDTH_API_USER": "u", "BANDWIDTH_API_PASSWORD": "p"},
    ),
)


def settings_of(case: ListCase, world: CallLists | None = None, **more: str) -> Settings:
    where = {"BACKFILL_BASE_URLS": world.base_urls} if world else {}
    return settings(**case.environment | case.credentials | where | more)


def listers(case: ListCase, world: CallLists | None = None, **more: str) -> tuple[Lister, ...]:
    made = settings_of(case, world, **more)
    return lists.build(made, registry.build(made)).listers


def webhook_call(case: ListCase):
    """The call of the sample, as the adapter reads the webhook."""
    adapter = registry.build(settings_of(case))[case.provider]
    request = received(sample(case.provider, case.sample))
    from bridge.providers.base import Sender

    return adapter.parse(request, Sender()).call

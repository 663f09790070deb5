"""The phone systems that the bridge can hear: one line each. A module is imported on first use."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping

from bridge.errors import WrongSettings
from bridge.providers import lists
from bridge.providers.base import Provider
from bridge.settings import ProviderSetting, Settings

PROVIDERS: Mapping[str, str] = {
    "twilio": "bridge.providers.twilio.Twilio",
    "generic": "bridge.providers.signed_json.SignedJson",
    "telnyx": "bridge.providers.telnyx.Telnyx",
    "plivo": "bridge.providers.plivo.Plivo",
    "vonage": "bridge.providers.vonage.Vonage",
    "signalwire": "bridge.providers.signalwire.SignalWire",
    "callrail": "bridge.providers.callrail.CallRail",
    "aircall": "bridge.providers.aircall.Aircall",
    "asterisk": "bridge.providers.asterisk.Asterisk",
    "bandwidth": "bridge.providers.bandwidth.Bandwidth",
    "dialpad": "bridge.providers.dialpad.Dialpad",
    "quo": "bridge.providers.quo.Quo",
    "ringcentral": "bridge.providers.ringcentral.RingCentral",
    "3cx": "bridge.providers.threecx.ThreeCx",
}


def adapter(name: str) -> type[Provider]:
    """The adapter's class. Raises KeyError for a name that is not registered."""
    module, _, attribute = PROVIDERS[name].rpartition(".")
    found: type[Provider] = getattr(importlib.import_module(module), attribute)
    return found


def build(settings: Settings) -> dict[str, Provider]:
    """The configured providers by name: those with one of their `switches_on` settings set.

    Raises WrongSettings with the faults of all of them at once.
    """
    faults: list[str] = []
    built: dict[str, Provider] = {}
    for name in PROVIDERS:
        kind = adapter(name)
        if any(spec.switches_on and settings.value(spec.name) for spec in kind.settings):
            try:
                built[name] = kind(settings)
            except WrongSettings as error:
                faults += error.faults
    if faults:
        raise WrongSettings(faults)
    return built


def _specs() -> Iterator[ProviderSetting]:
    for name in PROVIDERS:
        yield from adapter(name).settings
    yield from lists.settings()


def __getattr__(name: str) -> object:
    """`SETTINGS`: every setting of every provider, for `settings.load`. Made when asked for, so that importing this imports no adapter."""
    if name == "SETTINGS":
        return tuple(_specs())
    raise AttributeError(name)


SETTINGS: tuple[ProviderSetting, ...]

"""The phone systems that the bridge can hear: one line each. A module is imported on first use."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from bridge.providers import lists
from bridge.providers.base import Provider
from bridge.settings import Faults, ProviderSetting, Settings

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
    faults = Faults()
    built = _build(settings, faults)
    faults.tell()
    return built


def check(settings: Settings) -> None:
    """Raises WrongSettings with the faults of all configured providers and of their lists of calls at once. Nothing is connected to."""
    faults = Faults()
    built = _build(settings, faults)
    with _unheard(logging.getLogger(lists.__name__)):
        for name, one in built.items():
            with faults:
                lists.build(settings, {name: one})
    faults.tell()


def _build(settings: Settings, faults: Faults) -> dict[str, Provider]:
    """Those that can be used; what is wrong with the others goes to `faults`."""
    built: dict[str, Provider] = {}
    for name in PROVIDERS:
        kind = adapter(name)
        if any(spec.switches_on and settings.value(spec.name) for spec in kind.settings):
            with faults:
                built[name] = kind(settings)
    return built


@contextmanager
def _unheard(logger: logging.Logger) -> Iterator[None]:
    """What a list warns of is told when it is built to be read, in the log's own form, which is not set up yet."""
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


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

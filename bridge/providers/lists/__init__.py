"""The phone systems whose own lists of calls can be read: one line each. A module is imported on first use.

A list is read by the adapter that reads the same system's webhooks (bridge/providers/), so a call has the same key and the same numbers
whichever way it comes.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType

from bridge.providers.base import Provider
from bridge.providers.lists.base import Lister, Unset
from bridge.settings import ProviderSetting, Settings

LISTS: Mapping[str, str] = {
    "twilio": "bridge.providers.lists.twilio",
    "telnyx": "bridge.providers.lists.telnyx",
    "plivo": "bridge.providers.lists.plivo",
    "signalwire": "bridge.providers.lists.signalwire",
    "callrail": "bridge.providers.lists.callrail",
    "vonage": "bridge.providers.lists.vonage",
    "ringcentral": "bridge.providers.lists.ringcentral",
    "dialpad": "bridge.providers.lists.dialpad",
    "aircall": "bridge.providers.lists.aircall",
    "bandwidth": "bridge.providers.lists.bandwidth",
    "quo": "bridge.providers.lists.quo",
}


@dataclass(frozen=True, slots=True)
class Lists:
    """What can be listed, and for each configured phone system that cannot: one line that says what to set."""

    listers: tuple[Lister, ...]
    skipped: Mapping[str, str]


def build(settings: Settings, adapters: Mapping[str, Provider]) -> Lists:
    """The lists of the configured phone systems. Raises WrongSettings where a setting cannot be used."""
    listers: list[Lister] = []
    skipped: dict[str, str] = {}
    for name, adapter in adapters.items():
        if name not in LISTS:
            skipped[name] = "it has no list of calls that can be asked for"
            continue
        try:
            listers += _module(name).build(settings, adapter)
        except Unset as unset:
            skipped[name] = str(unset)
    return Lists(tuple(listers), skipped)


def settings() -> Iterator[ProviderSetting]:
    """The settings of every list, beside those of the adapters."""
    for name in LISTS:
        yield from _module(name).SETTINGS


def _module(name: str) -> ModuleType:
    return importlib.import_module(LISTS[name])

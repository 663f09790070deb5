"""Secrets that a sender repeats as they are, for phone systems that sign nothing: tokens and passwords.

Such a secret proves that the sender knows it, not that a body is what was sent: whoever reads one request can make others. An adapter
that uses this says so in its `warnings()`.
"""

from __future__ import annotations

from collections.abc import Iterable

from bridge.errors import Refused, WrongSettings
from bridge.providers import signatures
from bridge.settings import Settings

SHORTEST = 12  # characters; below, a secret can be tried out over the network


def listed(settings: Settings, name: str, *, shortest: int = SHORTEST) -> tuple[str, ...]:
    """The secrets in a setting, separated by spaces or commas, so that one can be replaced without a gap.

    Raises WrongSettings, without the value, where there is none or one is too short to be a secret.
    """
    secrets = settings.words(name)
    if not secrets or min(map(len, secrets)) < shortest:
        raise WrongSettings([f"{name}: one or more secrets of {shortest} characters or more, separated by spaces"])
    return secrets


def is_one_of(given: str, secrets: Iterable[str]) -> bool:
    """Whether a text is one of the secrets. All of them are compared, each in constant time."""
    return any([signatures.same(given, secret) for secret in secrets])  # noqa: C419 - a list: every secret is compared


def prove(given: str, secrets: Iterable[str], *, what: str, setting: str) -> None:
    """Raise Refused unless `given` is one of the secrets. `what` says where the sender puts it, `setting` is the one to compare with."""
    if not given:
        raise Refused(f"{what} is missing.", reason="token missing", status=401)
    if not is_one_of(given, secrets):
        raise Refused(f"{what} is not one of those in {setting}; compare it with the sender's.", reason="token wrong")

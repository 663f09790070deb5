"""The errors of the bridge. The class is the verdict: it says what happened upstream and what the caller does next.

BridgeError
├── Refused            the sender is not who it claims to be: answer 401/403, keep nothing but a counter
├── Unstorable         neither Redis nor the spool took an event: answer 503, so that the provider sends it again
├── WrongSettings      the environment is wrong: do not start; the message lists every fault with its allowed values
├── WrongMove          code asked for a state change that the table of moves does not know: a bug, fail loudly
├── Fenced             another worker has taken over: stop at once, write nothing more
└── StepFailed         a step of a call did not succeed
    ├── Transient      nothing was changed upstream: try again later, within the budget
    │   └── NotYet     nothing was even tried (claim busy, rate budget spent, too early to look): later, at no cost
    ├── Uncertain      a write may or may not have taken effect: look first, never send again blindly
    └── Permanent      no retry can mend it: RQ's failed registry, one alert, needs attention
        ├── Gone       the contact or note is not there (deleted, merged): resolve it anew, once
        └── Ask        only a person can decide (settling ended with nothing found and the settings say: ask)
"""

from __future__ import annotations


class BridgeError(Exception):
    """Root of all errors that this project raises on purpose. Messages never hold personal data or secrets."""


class Refused(BridgeError):
    """A webhook is not proven to come from its provider.

    `status` is 401 where credentials are missing and 403 where they are wrong; `reason` is a short word for the counter;
    the message names the setting to check.
    """

    def __init__(self, message: str, *, reason: str, status: int = 403) -> None:
        super().__init__(message)
        self.reason = reason
        self.status = status


class Unstorable(BridgeError):
    """Neither Redis nor the local spool could keep an event."""


class WrongSettings(BridgeError, ValueError):
    """The environment has faults. `faults` holds one line each: the setting, what is wrong, what is allowed."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("\n".join(["The environment is not usable:", *(f"  - {fault}" for fault in faults)]))
        self.faults = faults


class WrongMove(BridgeError, ValueError):
    """A state change that the table of moves does not allow (bridge/ledger/moves.py)."""


class Fenced(BridgeError):
    """This attempt or claim no longer holds its lease; somebody else acts now."""


class StepFailed(BridgeError):
    """A step of a call did not succeed.

    `cause` is a stable word for grouping (`crm.401`, `crm.timeout`, `claim.busy`): alerts are fingerprinted by it.
    `hint` tells a person what to do next. `trace_id` is the upstream's id of the failed request, where it gave one.
    `retry_in` is the upstream's word, in seconds, on when to come back; it outranks our own backoff.
    `said` is what the upstream said, in its own words: it may name a person, so it goes to the ledger and never to a log or an alert.
    """

    def __init__(
        self,
        message: str,
        *,
        cause: str,
        hint: str = "",
        trace_id: str | None = None,
        retry_in: float | None = None,
        said: str = "",
    ) -> None:
        super().__init__(message)
        self.said = said
        self.cause = cause
        self.hint = hint
        self.trace_id = trace_id
        self.retry_in = retry_in


class Transient(StepFailed):
    """Nothing was changed upstream; the same request may succeed later."""


class NotYet(Transient):
    """Nothing was tried. Waiting costs no attempt of the budget. `retry_in` is always set."""


class Uncertain(StepFailed):
    """A write was sent and its effect is unknown. Whoever catches this looks in the CRM before sending anything again."""


class Permanent(StepFailed):
    """No retry can mend this; a person has to."""


class Gone(Permanent):
    """The contact or note that the ledger remembers is not in the CRM any more."""


class Ask(Permanent):
    """The truth could not be found and the settings say that a person decides (`UNCERTAIN_CREATE=ask`)."""

"""Whether an event reached Sentry. The SDK sends in the background and tells nobody what became of it; a promise has to know.

Inside `awaited` an event is sent in the caller's own thread, by the same transport with the same rate limits, and what the SDK says about
its loss is kept (sentry-sdk 2.75.0, transport.py: `on_dropped_event` is called for a network error, a refusal, a quota that is used up).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from sentry_sdk.envelope import Envelope
from sentry_sdk.transport import HttpTransport
from sentry_sdk.utils import capture_internal_exceptions

_SENT = "sent"
_fate: ContextVar[list[str] | None] = ContextVar("fate", default=None)


class AwaitedTransport(HttpTransport):
    """The SDK's own, but for what is sent inside `awaited`."""

    def capture_envelope(self, envelope: Envelope) -> None:
        fate = _fate.get()
        if fate is None:
            super().capture_envelope(envelope)
            return
        with capture_internal_exceptions():  # as the background thread does: what was raised has been told to `on_dropped_event`
            self._send_envelope(envelope)
            fate.append(_SENT)

    def on_dropped_event(self, _reason: str) -> None:
        fate = _fate.get()
        if fate is not None:
            fate.append(_reason)


@contextmanager
def awaited() -> Iterator[None]:
    """Whatever is captured inside has arrived when it ends. Raises OSError where it has not; waits for HttpTransport.TIMEOUT seconds."""
    fate: list[str] = []
    token = _fate.set(fate)
    try:
        yield
    finally:
        _fate.reset(token)
    if not fate or fate[0] != _SENT:
        why = fate[0] if fate else "nothing was sent; is SENTRY_DSN set?"
        raise OSError(f"Sentry did not take it: {why}")


def is_awaited() -> bool:
    return _fate.get() is not None

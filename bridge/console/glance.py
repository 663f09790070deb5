"""A look at GoHighLevel for somebody who waits: read only, and over after a time, however many questions it takes and however they hang."""

from __future__ import annotations

import time
from collections.abc import Callable

from bridge.crm.base import Contact, Crm, Note
from bridge.crm.http import Timeouts
from bridge.errors import Transient

WITHIN_S = 8.0  # a person waits this long for an answer about something that is wrong already; Heroku's router would wait 30 s
LEAST_S = 0.5  # with less, a healthy answer would look like none
NOBODY = "+12025550100"  # a number for fiction: what is found is looked at by nobody


class Glance:
    """All that one look asks, within WITHIN_S from its making on; waiting for the request budget may add two seconds to the last question.

    Each question may take as long as `timeouts` say, or what is left. Raises StepFailed like the Crm that `make` gives.
    """

    def __init__(self, make: Callable[[Timeouts], Crm], timeouts: Timeouts) -> None:
        self._make = make
        self._timeouts = timeouts
        self._crm: Crm | None = None
        self._until = time.monotonic() + WITHIN_S

    def find_contact(self, phone: str) -> Contact | None:
        return self._in_time().find_contact(phone)

    def list_notes(self, contact_id: str) -> tuple[Note, ...]:
        return self._in_time().list_notes(contact_id)

    def location(self) -> object:
        """Whether it answers and accepts the token: asked now, since the location's settings may be an hour old, and are known unasked."""
        return self._in_time().find_contact(NOBODY)

    def _in_time(self) -> Crm:
        left_s = self._until - time.monotonic()
        if left_s < LEAST_S:
            raise Transient(f"The {WITHIN_S:.0f} s that a look may take were over", cause="crm.timeout")
        if self._crm is None or left_s < self._timeouts.total_s:
            connect_s = min(self._timeouts.connect_s, left_s / 2)
            self._timeouts = Timeouts(connect_s, min(self._timeouts.read_s, left_s - connect_s))
            self._crm = self._make(self._timeouts)
        return self._crm

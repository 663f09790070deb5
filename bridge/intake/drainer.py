"""The drainer: a thread of each web process that brings what the spool holds into the ledger, as soon as Redis takes it."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable

from bridge.errors import Unstorable
from bridge.intake.spool import Spool, Spooled

logger = logging.getLogger(__name__)

_PAUSE_S = 0.25  # between two rounds: a storm of events during an outage costs four tries a second, not one per event


class Drainer:
    """A daemon thread that empties a spool: at once after a `put` of this process, and every `interval_s` for those of others.

    Call `start` in each web process after it was forked: threads do not survive a fork. Calling it again is harmless.
    It begins with what was parked: what mends the cause, a new release or another setting, comes with a new start.
    """

    def __init__(self, spool: Spool, take: Callable[[Spooled], None], *, interval_s: float = 5.0, batch: int = 20) -> None:
        self._spool = spool
        self._take = take
        self._interval_s = interval_s
        self._batch = batch
        self._pid = 0
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()

    def start(self) -> None:
        """Start the thread, unless it already runs in this process."""
        if self._thread and self._thread.is_alive() and self._pid == os.getpid():
            return
        if self._pid != os.getpid():
            # An event copied by a fork may be locked for ever by a thread that does not exist here.
            self._spool.arrived = threading.Event()
        self._pid = os.getpid()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._loop, args=(self._stopping,), name="spool-drainer", daemon=True)
        self._thread.start()

    def stop(self, wait_s: float = 5.0) -> None:
        """Ask the thread to end after the batch it is at, and wait for that at most `wait_s`. What is left stays in the spool."""
        self._stopping.set()
        self._spool.arrived.set()
        if self._thread and self._pid == os.getpid():
            self._thread.join(wait_s)

    def _loop(self, stopping: threading.Event) -> None:
        self._take_up_parked()
        while not stopping.is_set():
            # Cleared before draining: a `put` during the round makes another round.
            self._spool.arrived.clear()
            self._empty(stopping)
            stopping.wait(_PAUSE_S)
            self._spool.arrived.wait(self._interval_s)

    def _take_up_parked(self) -> None:
        try:
            if back := self._spool.unpark():
                logger.warning("%d spooled events that could not be taken before are tried again", back)
        except (Unstorable, OSError) as error:
            logger.warning("The spool cannot be read: %s", error)

    def _empty(self, stopping: threading.Event) -> None:
        try:
            while not stopping.is_set() and self._spool.drain(self._take, limit=self._batch) == self._batch:
                pass
        except (Unstorable, OSError) as error:
            logger.warning("The spool cannot be drained; next try in %g s: %s", self._interval_s, error)

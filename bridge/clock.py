"""One clock for all processes: Redis's. Leases and retries would otherwise be as wrong as the clock of whichever machine set them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

import redis

SYNC_EVERY_S = 30.0
REST_S = 5.0  # a Redis that did not answer is left alone for so long: each question costs a caller on the line a read time-out


class Clock(Protocol):
    """What time it is for the ledger. Proofs run years of it in seconds."""

    def now(self) -> float:
        """Seconds since the epoch (UTC)."""


class RedisClock:
    """Seconds since the epoch (UTC) by Redis's clock, asked every 30 s and counted on by the local monotonic clock in between.

    While Redis cannot be reached the last known offset is used, and before it was ever reached the local wall clock:
    the only thing written then is the spool, and its times are not compared with anything.
    """

    def __init__(self, connection: redis.Redis, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._connection = connection
        self._monotonic = monotonic
        self._offset: float | None = None
        self._ask_at = self._monotonic()

    def now(self) -> float:
        started = self._monotonic()
        if started >= self._ask_at:
            self._sync(started)
        return time.time() if self._offset is None else self._monotonic() + self._offset

    def _sync(self, started: float) -> None:
        try:
            seconds, microseconds = self._connection.time()
        except redis.RedisError:
            self._ask_at = self._monotonic() + REST_S
            return
        ended = self._monotonic()
        self._offset = seconds + microseconds / 1e6 - (started + ended) / 2
        self._ask_at = ended + SYNC_EVERY_S

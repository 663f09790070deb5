"""The rate limits: so many requests in any window of some seconds, and so many in a day. Every answer tells what is left.

Header names: https://marketplace.gohighlevel.com/docs/other/rate-limits/. Whether the real window slides or jumps is not documented; it
slides here, which is the harder of the two for a client.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping

from bridge.sandbox.ghl.world import World


class RateLimiter:
    """Counts requests of one token. A refused request does not count."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._recent: deque[float] = deque()
        self._day = 0
        self._today = 0

    def take(self, world: World) -> bool:
        """Whether one more request is within both limits."""
        with self._lock:
            self._forget_old(world)
            if len(self._recent) >= world.burst or self._today >= world.daily:
                return False
            self._recent.append(self._clock())
            self._today += 1
            return True

    def headers(self, world: World) -> Mapping[str, str]:
        with self._lock:
            self._forget_old(world)
            return {
                "X-RateLimit-Limit-Daily": str(world.daily),
                "X-RateLimit-Daily-Remaining": str(max(world.daily - self._today, 0)),
                "X-RateLimit-Interval-Milliseconds": str(round(world.burst_window_s * 1000)),
                "X-RateLimit-Max": str(world.burst),
                "X-RateLimit-Remaining": str(max(world.burst - len(self._recent), 0)),
            }

    def reset(self) -> None:
        with self._lock:
            self._recent.clear()
            self._today = 0

    def _forget_old(self, world: World) -> None:
        now = self._clock()
        while self._recent and now - self._recent[0] >= world.burst_window_s:
            self._recent.popleft()
        day = int(now // world.day_s)
        if day != self._day:
            self._day, self._today = day, 0

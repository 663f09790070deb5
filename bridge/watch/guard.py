"""The storm guard: of one cause, few alerts pass and all are counted. Shared in Redis, since each job fails in a process of its own.

At ordinary rates nothing is withheld, and one terminal failure is one event. Five thousand of one cause are one Sentry issue with two
events a minute at most, so that they do not use up a quota which the next, unrelated failure needs (https://docs.sentry.io/product/accounts/quotas/).
What was withheld is told with the next event of the cause that passes, and each failure stands in the console in any case.

A guard that cannot reach Redis lets everything pass: an alert too many is better than one too few.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import redis

from bridge.connections import web_connection
from bridge.ledger import keys

PER_MINUTE = 2
PER_HOUR = 30

# KEYS[1] when alerts of this cause were let through, newest first   KEYS[2] how many were not since   KEYS[3] the counters
# ARGV[1] how many in a minute   ARGV[2] how many in an hour
# Returns {1 where it passes, how many were withheld before it}. Redis's clock; both windows slide.
_ADMIT = """
local clock = redis.call('TIME')
local now = clock[1] + clock[2] / 1000000
for i, window in ipairs({60, 3600}) do
  local nth = redis.call('LINDEX', KEYS[1], ARGV[i] - 1)
  if nth and now - tonumber(nth) < window then
    redis.call('INCR', KEYS[2])
    redis.call('EXPIRE', KEYS[2], 7200)
    redis.call('HINCRBY', KEYS[3], 'alerts_withheld', 1)
    return {0, 0}
  end
end
redis.call('LPUSH', KEYS[1], string.format('%.6f', now))
redis.call('LTRIM', KEYS[1], 0, ARGV[2] - 1)
redis.call('EXPIRE', KEYS[1], 3600)
local withheld = redis.call('GET', KEYS[2])
redis.call('DEL', KEYS[2])
return {1, tonumber(withheld or 0)}
"""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether an alert leaves, and how many of its cause were only counted since the last one that did."""

    passes: bool
    withheld: int = 0


PASSES = Verdict(passes=True)
Admit = Callable[[str], Verdict]


class StormGuard:
    """Opens its connection when it is first asked, in the process that asks; a forked one gets its own."""

    def __init__(self, redis_url: str, connect: Callable[[str], redis.Redis] = web_connection) -> None:
        self._redis_url = redis_url
        self._connect = connect
        self._connection: redis.Redis | None = None

    def admit(self, fingerprint: str) -> Verdict:
        """Whether one more alert of this cause may leave now. Never raises."""
        name = keys.storm(fingerprint)
        try:
            self._connection = self._connection or self._connect(self._redis_url)
            answer = self._connection.eval(_ADMIT, 3, name, f"{name}:withheld", keys.COUNT, str(PER_MINUTE), str(PER_HOUR))
        except redis.RedisError:
            return PASSES
        passes, withheld = cast("list[int]", answer)
        return Verdict(bool(passes), withheld)

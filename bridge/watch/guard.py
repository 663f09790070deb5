"""The storm guard: of one cause, few alerts pass and all are counted. Shared in Redis, since each job fails in a process of its own.

At ordinary rates nothing is withheld, and one terminal failure is one event. Of one cause five may leave in a row, two a minute at most,
and after them one an hour, until the cause has rested for a quarter of an hour: what begins then is news. So neither five thousand
failures at once nor a plan that stays exhausted for a day uses up a quota which the next, unrelated failure needs
(https://docs.sentry.io/product/accounts/quotas/).
What was withheld is told with the next event of the cause that passes, and each failure stands in the console in any case.

A guard that cannot reach Redis, or that Redis lets wait, goes by what this process alone has let through, two a minute of a cause: an
alert too many is better than one too few, and an outage of Redis is when every request may log an error. Whoever logs one waits for the
answer, and whoever logs another meanwhile waits behind them, since the SDK's handler of log lines has a lock (sentry-sdk 2.75.0,
integrations/logging.py: EventHandler is a logging.Handler).
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

import redis

from bridge.connections import web_connection
from bridge.ledger import keys

PER_MINUTE = 2
IN_A_ROW = 5
REFILL_S = 3600
_MINUTE_S = 60.0
PATIENCE_S = 0.4  # for each answer; a connection takes some of them
AWAY_S = 5.0  # how long a Redis that did not answer in time is left alone
CAUSES = 256  # how many a process without Redis tells apart
RESTED_S = 900  # as long as the messages about a promise leave between two of one cause (bridge/watch/standing.py)

# Two limits. A sliding minute; and a bucket of IN_A_ROW that fills up by one every REFILL_S, kept as the instant at which it is full again
# (the generic cell rate algorithm, ITU-T I.371). The second does not hold back what comes after a rest.
# KEYS[1] when alerts of this cause were let through, newest first   KEYS[2] hash: full_at, when its bucket is full again; seen_at, its last
# KEYS[3] how many were not let through since   KEYS[4] the counters
# ARGV[1] how many in a minute   ARGV[2] how many in a row   ARGV[3] seconds for one more   ARGV[4] seconds of rest
# Returns {1 where it passes, how many were withheld before it}. By Redis's clock.
_ADMIT = """
local clock = redis.call('TIME')
local now = clock[1] + clock[2] / 1000000
local in_a_row, refill, rest = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local nth = tonumber(redis.call('LINDEX', KEYS[1], ARGV[1] - 1) or '-inf')
local bucket = redis.call('HMGET', KEYS[2], 'full_at', 'seen_at')
local full_at = math.max(now, tonumber(bucket[1] or 0))
local rested = now - tonumber(bucket[2] or 0) >= rest
redis.call('HSET', KEYS[2], 'seen_at', string.format('%.6f', now))
redis.call('EXPIRE', KEYS[2], math.ceil(math.max(full_at - now, rest)))
if now - nth < 60 or (full_at - now > (in_a_row - 1) * refill and not rested) then
  redis.call('INCR', KEYS[3])
  redis.call('EXPIRE', KEYS[3], 2 * refill)
  redis.call('HINCRBY', KEYS[4], 'alerts_withheld', 1)
  return {0, 0}
end
redis.call('LPUSH', KEYS[1], string.format('%.6f', now))
redis.call('LTRIM', KEYS[1], 0, ARGV[1] - 1)
redis.call('EXPIRE', KEYS[1], 60)
full_at = math.min(full_at + refill, now + in_a_row * refill)
redis.call('HSET', KEYS[2], 'full_at', string.format('%.6f', full_at))
redis.call('EXPIRE', KEYS[2], math.ceil(full_at - now))
local withheld = redis.call('GET', KEYS[3])
redis.call('DEL', KEYS[3])
return {1, tonumber(withheld or 0)}
"""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether an alert leaves, and how many of its cause were only counted since the last one that did."""

    passes: bool
    withheld: int = 0


PASSES = Verdict(passes=True)
HELD = Verdict(passes=False)
Admit = Callable[[str], Verdict]


@dataclass(slots=True)
class _Told:
    """What this process let through of a cause, by its monotonic clock, and how many it did not."""

    at: deque[float] = field(default_factory=lambda: deque(maxlen=PER_MINUTE))
    withheld: int = 0


class _Alone:
    """The sliding minute, for one process that cannot ask the others. Two threads at once may let one too many pass."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._causes: dict[str, _Told] = {}

    def admit(self, cause: str) -> Verdict:
        now = self._clock()
        if len(self._causes) >= CAUSES:  # messages that differ each time must not fill the memory
            self._causes.clear()
        told = self._causes.setdefault(cause, _Told())
        if len(told.at) == PER_MINUTE and now - told.at[0] < _MINUTE_S:
            told.withheld += 1
            return HELD
        told.at.append(now)
        return Verdict(passes=True, withheld=self.take(cause))

    def take(self, cause: str) -> int:
        """How many were withheld; from here on they count as told."""
        told = self._causes.get(cause)
        if told is None:
            return 0
        withheld, told.withheld = told.withheld, 0
        return withheld


def impatient(redis_url: str) -> redis.Redis:
    """As for a web, and with less time: the process can decide for itself. Set afterwards, since options in REDIS_URL would win."""
    connection = web_connection(redis_url)
    connection.connection_pool.connection_kwargs |= {"socket_connect_timeout": PATIENCE_S, "socket_timeout": PATIENCE_S}
    return connection


class StormGuard:
    """Opens its connection when it is first asked, in the process that asks; a forked one gets its own."""

    def __init__(
        self, redis_url: str, connect: Callable[[str], redis.Redis] = impatient, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._redis_url = redis_url
        self._connect = connect
        self._clock = clock
        self._connection: redis.Redis | None = None
        self._alone = _Alone(clock)
        self._ask_again_at = 0.0
        self._asking = threading.local()

    def admit(self, fingerprint: str) -> Verdict:
        """Whether one more alert of this cause may leave now. Never raises, and waits for Redis for a second or two at most.

        An error that is logged while Redis is asked, by the client for instance, is not asked about: that would go on for ever.
        """
        if self._clock() < self._ask_again_at or getattr(self._asking, "is_so", False):
            return self._alone.admit(fingerprint)
        self._asking.is_so = True
        began = self._clock()
        try:
            verdict = self._ask(fingerprint)
        except Exception:  # noqa: BLE001 - what else answers at that port makes the client raise anything, and the SDK would drop the event
            self._ask_again_at = self._clock() + AWAY_S
            return self._alone.admit(fingerprint)
        finally:
            self._asking.is_so = False
        if self._clock() - began > PATIENCE_S:
            self._ask_again_at = self._clock() + AWAY_S
        return Verdict(passes=True, withheld=verdict.withheld + self._alone.take(fingerprint)) if verdict.passes else verdict

    def _ask(self, fingerprint: str) -> Verdict:
        name = keys.storm(fingerprint)
        self._connection = self._connection or self._connect(self._redis_url)
        told = (name, f"{name}:bucket", f"{name}:withheld", keys.COUNT)
        answer = self._connection.eval(_ADMIT, len(told), *told, str(PER_MINUTE), str(IN_A_ROW), str(REFILL_S), str(RESTED_S))
        passes, withheld = cast("list[int]", answer)
        return Verdict(bool(passes), withheld)

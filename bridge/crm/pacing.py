"""The request budget of a location, shared by every process that talks to GoHighLevel for it.

The vendor allows 100 requests in 10 seconds and 200,000 a day for a private integration token in a location, and tells in headers what is
left (https://marketplace.gohighlevel.com/docs/other/rate-limits/). Its day has no documented end, so what it says about the day is
believed for a quarter of an hour and then asked for again.

Redis keys, all with a life of their own:

    cb:pace:<location>:sent    ZSET    one member per request of the last window, score = when it was granted (ms of Redis's clock)
    cb:pace:<location>:pause   STRING  there while the server told everybody to wait
    cb:pace:<location>:day:<n> STRING  requests granted on day n since the epoch (UTC), lives two days
    cb:pace:<location>:left    STRING  requests that the server says are left today, minus those granted since; lives 15 minutes
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import redis

from bridge.crm.causes import HINTS, Cause
from bridge.crm.outcomes import DAILY_WAIT_S, rate_limit_wait_s, whole_number
from bridge.errors import NotYet, Transient

LONGEST_SLEEP_S = 2.0  # longer, and the job hands its worker back
LONGEST_PAUSE_S = DAILY_WAIT_S  # one odd answer must not stop the whole location for longer: then somebody asks again
LIVE_SHARE = 0.3  # of the burst, kept for calls that ring now while backfill or replay runs

# KEYS[1] sent, [2] pause, [3] left, [4] prefix of the day's counter (the day is known only here, by Redis's clock)
# ARGV[1] window in ms, [2] requests that may be in it, [3] requests a day, [4] longest wait for a new day in ms
# Returns {ms to wait, 0 = granted; which limit: "", "pause", "burst" or "day"}
_TAKE = """
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local window, burst, daily, day_wait = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])

local day = KEYS[4] .. math.floor(now / 86400000)
local left = redis.call('GET', KEYS[3])
if left and tonumber(left) <= 0 then return {math.max(redis.call('PTTL', KEYS[3]), 1), 'day'} end
if tonumber(redis.call('GET', day) or 0) >= daily then return {math.min(day_wait, 86400000 - now % 86400000), 'day'} end

local pause = redis.call('PTTL', KEYS[2])
if pause > 0 then return {pause, 'pause'} end

redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', '(' .. now - window)
-- Only a clock that was set back leaves members in the future; kept, they would block until it has caught up.
redis.call('ZREMRANGEBYSCORE', KEYS[1], '(' .. now + window, '+inf')
local used = redis.call('ZCARD', KEYS[1])
if used >= burst then
  local oldest = redis.call('ZRANGE', KEYS[1], used - burst, used - burst, 'WITHSCORES')
  return {math.max(oldest[2] + window - now + 1, 1), 'burst'}
end
redis.call('ZADD', KEYS[1], now, clock[1] .. '.' .. clock[2] .. '.' .. used)
redis.call('PEXPIRE', KEYS[1], window * 2)
redis.call('INCR', day)
redis.call('PEXPIRE', day, 172800000)
if left then redis.call('DECR', KEYS[3]) end
return {0, ''}
"""

# KEYS[1] sent, [2] pause, [3] left
# ARGV[1] window in ms, [2] burst, [3] left in the burst or "", [4] left today or "", [5] life of that in ms, [6] ms to pause, 0 = no
# The server counts requests of others too. What it counts beyond ours is added as members that nobody sent, so that the
# window moves on by itself; what it does not count yet (requests under way) makes its number higher than ours, and ours stands.
_LEARN = """
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local window, burst = tonumber(ARGV[1]), tonumber(ARGV[2])
if ARGV[3] ~= '' then
  redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', '(' .. now - window)
  local others = math.min(burst - redis.call('ZCARD', KEYS[1]) - tonumber(ARGV[3]), 1000)
  for i = 1, others do redis.call('ZADD', KEYS[1], now, clock[1] .. '.' .. clock[2] .. '.other.' .. i) end
  if others > 0 then redis.call('PEXPIRE', KEYS[1], window * 2) end
end
if ARGV[4] ~= '' then
  local known = redis.call('GET', KEYS[3])
  if not known or tonumber(ARGV[4]) < tonumber(known) then redis.call('SET', KEYS[3], ARGV[4], 'PX', ARGV[5]) end
end
local pause = tonumber(ARGV[6])
if pause > 0 and pause > redis.call('PTTL', KEYS[2]) then redis.call('SET', KEYS[2], '1', 'PX', pause) end
"""

# KEYS as for taking; ARGV[1] window in ms, [2] burst, [3] daily.  Returns {left in the burst, left today, ms of pause}; changes nothing.
_REMAINING = """
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local used = redis.call('ZCOUNT', KEYS[1], now - ARGV[1], now + ARGV[1])
local today = ARGV[3] - tonumber(redis.call('GET', KEYS[4] .. math.floor(now / 86400000)) or 0)
local left = tonumber(redis.call('GET', KEYS[3]) or today)
return {math.max(ARGV[2] - used, 0), math.max(math.min(today, left), 0), math.max(redis.call('PTTL', KEYS[2]), 0)}
"""


@dataclass(frozen=True, slots=True)
class Remaining:
    """What is left of a location's budget. `paused_s` is how much longer the server told everybody to wait."""

    burst: int
    daily: int
    paused_s: float


class Pacing:
    """Grants requests so that no window of `window_s` holds more than `burst` of them and no UTC day more than `daily`.

    Any number of processes share one budget through Redis, whose clock is the only one used.
    """

    def __init__(
        self,
        connection: redis.Redis,
        *,
        burst: int = 100,
        window_s: float = 10.0,
        daily: int = 200_000,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._burst = burst
        self._window_ms = math.ceil(window_s * 1000)
        self._daily = daily
        self._sleep = sleep
        self._take = connection.register_script(_TAKE)
        self._learn = connection.register_script(_LEARN)
        self._remaining = connection.register_script(_REMAINING)

    def take(self, location_id: str, *, background: bool = False) -> float:
        """Grant one request now and return 0, or return the seconds to wait before asking again. Raises Transient without Redis.

        `background` work (backfill, replay) never takes the last 30 % of a burst.
        """
        wait_s, _limit = self._try(location_id, background=background)
        return wait_s

    def wait(self, location_id: str, *, background: bool = False) -> None:
        """Return when a request is granted, sleeping two seconds at most in total. Raises NotYet where it takes longer."""
        slept_s = 0.0
        while True:
            wait_s, limit = self._try(location_id, background=background)
            if not wait_s:
                return
            if slept_s + wait_s > LONGEST_SLEEP_S:
                cause = Cause.DAILY_LIMIT if limit == "day" else Cause.BUDGET
                raise NotYet(_SPENT[limit], cause=cause, hint=HINTS[cause], retry_in=wait_s)
            self._sleep(wait_s)
            slept_s += wait_s

    def learn(self, location_id: str, status: int, headers: Mapping[str, str]) -> None:
        """Take the server's word from an answer: what remains, where that is less than we thought, and how long a 429 stops everybody.

        Never raises: without Redis the answer that was just received must not be lost for the sake of a counter.
        """
        burst = whole_number(headers, "x-ratelimit-remaining")
        today = whole_number(headers, "x-ratelimit-daily-remaining")
        pause_ms = math.ceil(min(rate_limit_wait_s(headers), LONGEST_PAUSE_S) * 1000) if status == 429 else 0
        if burst is None and today is None and not pause_ms:
            return
        told = ["" if count is None else count for count in (burst, today)]
        with suppress(redis.RedisError):
            self._learn(
                keys=_keys(location_id)[:3],
                args=[self._window_ms, self._burst, *told, int(DAILY_WAIT_S * 1000), pause_ms],
            )

    def remaining(self, location_id: str) -> Remaining:
        """What is left right now, for metrics. Raises Transient without Redis."""
        with redis_needed():
            burst, daily, pause_ms = self._remaining(keys=_keys(location_id), args=[self._window_ms, self._burst, self._daily])
        return Remaining(burst=int(burst), daily=int(daily), paused_s=int(pause_ms) / 1000)

    def _try(self, location_id: str, *, background: bool) -> tuple[float, str]:
        burst = max(int(self._burst * (1 - LIVE_SHARE)), 1) if background else self._burst
        with redis_needed():
            wait_ms, limit = self._take(keys=_keys(location_id), args=[self._window_ms, burst, self._daily, int(DAILY_WAIT_S * 1000)])
        return int(wait_ms) / 1000, limit.decode() if isinstance(limit, bytes) else str(limit)


_SPENT = {
    "pause": "GoHighLevel asked every process to wait",
    "burst": "The location's request budget is spent for the moment",
    "day": "The location's request budget is spent for today",
}


def _keys(location_id: str) -> list[str]:
    return [f"cb:pace:{location_id}:{part}" for part in ("sent", "pause", "left", "day:")]


@contextmanager
def redis_needed() -> Iterator[None]:
    """Turn a fault of Redis into Transient: nothing was sent to the CRM, so the attempt simply comes again."""
    try:
        yield
    except redis.RedisError as error:
        raise Transient(
            f"Redis did not answer for the request budget ({type(error).__name__})", cause=Cause.REDIS, hint=HINTS[Cause.REDIS]
        ) from error

"""Turns: one call that may wait starts after the other, so that a thousand of them leave room for those that ring now.

Replays and backfill share one row of turns. A turn that is not used costs nothing but its pause.
"""

from __future__ import annotations

import redis

from bridge.ledger import keys

# KEYS[1] when the next turn may start   ARGV[1] now   ARGV[2] pause between two, seconds. Returns when this one starts.
_TAKE = """
local at = math.max(tonumber(redis.call('GET', KEYS[1]) or 0), tonumber(ARGV[1]))
local after = at + tonumber(ARGV[2])
redis.call('SET', KEYS[1], string.format('%.6f', after), 'PX', math.ceil((after - tonumber(ARGV[1])) * 1000) + 1000)
return string.format('%.6f', at)
"""


def take(connection: redis.Redis, now: float, *, every_s: float) -> float:
    """When the next one may start, seconds since the epoch. Raises redis.RedisError."""
    return float(connection.eval(_TAKE, 1, keys.REPLAYS, repr(now), repr(every_s)))

"""Hours of a storm in milliseconds: the guard goes by Redis's clock, so what it remembers is made older instead."""

from __future__ import annotations

import redis

from bridge.ledger import keys


def make_older(connection: redis.Redis, fingerprint: str, seconds: float) -> None:
    """As if what was let through so far had been `seconds` earlier."""
    name = keys.storm(fingerprint)
    times = [float(at) - seconds for at in connection.lrange(name, 0, -1)]
    connection.delete(name)
    if times:
        connection.rpush(name, *times)
    bucket = {field: float(at) - seconds for field, at in connection.hgetall(f"{name}:bucket").items()}
    if bucket:
        connection.hset(f"{name}:bucket", mapping=bucket)

"""What a location's settings were when they were last read: an hour in Redis for all processes, and for as long in this one."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import asdict

import redis

from bridge.crm.base import Location
from bridge.crm.pacing import redis_needed

LIFE_S = 3600
ASSUMED_S = 60  # each call asks twice; a scope that is added shows this soon


def location_key(location_id: str) -> str:
    """STRING, JSON of `Location`; lives an hour, a minute where it is assumed."""
    return f"cb:location:{location_id}"


class LocationCache:
    """At most an hour old, whichever process read it; a minute where it could not be read and is assumed."""

    def __init__(self, connection: redis.Redis, *, life_s: float = LIFE_S, assumed_s: float = ASSUMED_S) -> None:
        self._connection = connection
        self._life_s = life_s
        self._assumed_s = assumed_s
        self._known: dict[str, tuple[float, Location]] = {}  # until when (monotonic)

    def get(self, location_id: str) -> Location | None:
        """None where it has to be read anew. Raises Transient without Redis."""
        until, location = self._known.get(location_id, (0.0, None))
        if location and time.monotonic() < until:
            return location
        with redis_needed(), self._connection.pipeline() as pipe:
            pipe.get(location_key(location_id))
            pipe.pttl(location_key(location_id))
            text, left_ms = pipe.execute()
        location = _read(text)
        if location:
            self._known[location_id] = (time.monotonic() + max(left_ms, 0) / 1000, location)
        return location

    def put(self, location: Location) -> None:
        """Never raises: what was just read is true, remembered or not."""
        life_s = self._assumed_s if location.is_assumed else self._life_s
        self._known[location.id] = (time.monotonic() + life_s, location)
        with suppress(redis.RedisError):
            self._connection.set(location_key(location.id), json.dumps(asdict(location)), px=int(life_s * 1000))


def _read(text: bytes | str | None) -> Location | None:
    if text is None:
        return None
    try:
        return Location(**json.loads(text))
    except (ValueError, TypeError):  # written by another release
        return None

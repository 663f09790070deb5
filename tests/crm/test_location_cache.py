import time

import pytest
import redis

from bridge.crm.base import Location
from bridge.crm.location_cache import LocationCache, location_key
from bridge.errors import Transient

LOCATION = Location("loc1", allows_duplicates=True, timezone="Europe/Berlin", country="DE")


def test_unknown_location_is_none(connection):
    assert LocationCache(connection).get("loc1") is None


def test_other_processes_find_what_one_has_read_for_an_hour(connection):
    LocationCache(connection).put(LOCATION)
    assert LocationCache(connection).get("loc1") == LOCATION
    assert 3590 < connection.ttl(location_key("loc1")) <= 3600


def test_own_memory_needs_no_redis(connection):
    cache = LocationCache(connection)
    cache.put(LOCATION)
    connection.flushall()
    assert cache.get("loc1") == LOCATION


def test_memory_filled_from_redis_does_not_outlive_the_hour_there(connection):
    LocationCache(connection, life_s=0.1).put(LOCATION)
    cache = LocationCache(connection)
    assert cache.get("loc1") == LOCATION
    deadline = time.monotonic() + 5
    while cache.get("loc1") is not None:
        assert time.monotonic() < deadline, "it outlived its tenth of a second"
        time.sleep(0.01)


@pytest.mark.parametrize("text", ["{", "[]", '{"id": "loc1"}', '{"unknown": 1}'])
def test_what_another_release_wrote_is_read_anew(connection, text):
    connection.set(location_key("loc1"), text)
    assert LocationCache(connection).get("loc1") is None


def test_without_redis_a_read_comes_again_and_a_write_is_only_not_shared():
    with redis.Redis(host="127.0.0.1", port=1, retry=None) as client:
        cache = LocationCache(client)
        with pytest.raises(Transient):
            cache.get("loc1")
        cache.put(LOCATION)
        assert cache.get("loc1") == LOCATION

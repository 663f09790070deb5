"""Fixtures for every test: a real Redis on a private socket, one database for each test, never the developer's own."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from bridge.sandbox.redis_server import RedisServer


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    # A short path: a Unix socket's name is limited to some 100 characters.
    folder = Path(tempfile.mkdtemp(prefix="cb"))
    server = RedisServer(folder).start()
    yield server
    server.stop()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def connection(redis_server: RedisServer) -> Iterator[redis.Redis]:
    client = redis.Redis.from_url(redis_server.url)
    client.flushall()
    yield client
    client.close()


@pytest.fixture
def redis_url(redis_server: RedisServer, connection: redis.Redis) -> str:
    """The URL of an empty Redis."""
    del connection
    return redis_server.url

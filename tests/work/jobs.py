"""Jobs for the tests. What one does stands in Redis under `do:<call key>`; what it did is pushed to lists that a test can wait for."""

from __future__ import annotations

import contextlib
import os
import signal
import time

import redis

REDIS_URL = "TEST_REDIS_URL"  # the environment variable


def run(call_key: str) -> None:
    with redis.Redis.from_url(os.environ[REDIS_URL], decode_responses=True, socket_timeout=30) as connection:
        connection.rpush("began", f"{call_key} {os.getpid()}")
        what = connection.get(f"do:{call_key}")
        if what == "outage":
            await_outage(connection)
            return
        act(connection, call_key, what)
        connection.rpush("ended", call_key)


def act(connection: redis.Redis, call_key: str, what: str | None) -> None:
    if what == "fail":
        raise ValueError("as told")
    if what == "wait":  # for the test to push to `go:<call key>`
        connection.blpop([f"go:{call_key}"], 20)
    if what == "die":
        os.kill(os.getpid(), signal.SIGKILL)


def await_outage(connection: redis.Redis) -> None:
    """End just after Redis went away."""
    with contextlib.suppress(redis.ConnectionError):
        while connection.ping():
            time.sleep(0.01)
    print("the outage has begun", flush=True)  # noqa: T201 - the test waits for it in the log

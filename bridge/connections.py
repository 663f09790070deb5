"""The two kinds of Redis client that the bridge needs: an impatient one for the web and a patient one for workers.

Both answer in bytes, as RQ expects. redis-py's own defaults fit neither: a client made from a URL never tries again, one made from
a host name tries for some five seconds, and a lost reply makes a retrying client send its commands twice
(https://redis.readthedocs.io/en/stable/retry.html).
"""

from __future__ import annotations

import functools
import logging
import time
from typing import Any
from urllib.parse import parse_qs, urlsplit

import redis
from redis.backoff import ExponentialWithJitterBackoff, NoBackoff
from redis.retry import Retry

CONNECT_TIMEOUT_S = 0.5
PATIENT_TIMEOUT_S = 5.0  # of a worker, for each try
READ_TIMEOUT_S = 1.0  # the clock may be asked first, and a caller on the line waits for both

# Twelve pauses of up to 0.1, 0.2, 0.4, 0.8 and then 1 s: an outage of 3 s is survived inside one command, and a worker that waits is
# back within a second of Redis' return.
_PATIENCE = (0.05, 1.0, 12)  # base, cap, retries

log = logging.getLogger(__name__)


def web_connection(url: str) -> redis.Redis:
    """A client that answers or fails within seconds, and sends nothing twice: a provider is waiting, and the spool stands by.

    An idle connection that Redis has closed is replaced when it is taken from the pool, so that this needs no retry.
    """
    return redis.Redis.from_url(
        url,
        socket_connect_timeout=CONNECT_TIMEOUT_S,
        socket_timeout=READ_TIMEOUT_S,
        retry=Retry(NoBackoff(), 0),
        **_tls(url),
    )


def worker_connection(url: str) -> redis.Redis:
    """A client that tries again for some five seconds. Its commands may be sent twice, so use it for work that bears repeating.

    For commands that Redis answers at once: a blocking pop needs more time (bridge/work/worker.py, `run_worker`).
    """
    base, cap, retries = _PATIENCE
    return redis.Redis.from_url(
        url,
        socket_connect_timeout=PATIENT_TIMEOUT_S,
        socket_timeout=PATIENT_TIMEOUT_S,
        health_check_interval=30,
        retry=Retry(ExponentialWithJitterBackoff(base=base, cap=cap), retries),
        **_tls(url),
    )


def await_redis(connection: redis.Redis, *, pause_s: float = 1.0) -> None:
    """Return as soon as Redis answers, however long that takes; the outage is logged once.

    Without it a process that starts while Redis is away would end, and its supervisor would wait ever longer between two starts.
    """
    told = False
    while True:
        try:
            connection.ping()
        except (redis.ConnectionError, redis.TimeoutError) as error:
            if not told:
                log.warning("Redis does not answer (%s); waiting for it. Check REDIS_URL if this lasts.", type(error).__name__)
                told = True
            time.sleep(pause_s)
        else:
            return


def _tls(url: str) -> dict[str, Any]:
    """Options for `rediss://`, unless the URL brings its own.

    Heroku's certificates are self-signed and change without notice, so a client cannot verify them
    (https://devcenter.heroku.com/articles/heroku-redis). Another host can be held to account in the URL:
    `rediss://…?ssl_cert_reqs=required&ssl_ca_certs=/path/to/ca.pem`.
    """
    parts = urlsplit(url)
    if parts.scheme != "rediss" or "ssl_cert_reqs" in parse_qs(parts.query):
        return {}
    _say_unverified()
    return {"ssl_cert_reqs": "none", "ssl_check_hostname": False}


@functools.cache
def _say_unverified() -> None:
    """Cached, so that a process says it once and not for each of its clients."""
    log.info("Redis is reached over TLS without verifying its certificate; add ?ssl_cert_reqs=required to REDIS_URL to verify it.")

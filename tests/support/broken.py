"""A Redis client whose connection breaks off at a chosen command, and one that cannot connect at all."""

from __future__ import annotations

from dataclasses import dataclass

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

BEFORE, AFTER, GONE = "before", "after", "gone"


@dataclass
class Cut:
    """`how` before: the command is not sent; after: it is carried out and its answer lost; gone: nothing works from then on.

    `at` counts what is sent while `armed`, from 1; a transaction is sent as one.
    """

    at: int = 1
    how: str = BEFORE
    armed: bool = False
    sent: int = 0

    @property
    def is_now(self) -> bool:
        return self.armed and (self.sent == self.at or (self.how == GONE and self.sent >= self.at))

    @property
    def happened(self) -> bool:
        return self.sent >= self.at


class _CutConnection(redis.UnixDomainSocketConnection):
    def __init__(self, *args, cut: Cut, **options) -> None:
        self._cut = cut
        self._is_answer_lost = self._is_greeting = False
        super().__init__(*args, **options)

    def _connect(self):
        if self._cut.armed and self._cut.how == GONE and self._cut.happened:
            raise redis.ConnectionError("gone")
        return super()._connect()

    def on_connect_check_health(self, check_health=True):
        self._is_greeting = True  # what redis-py itself sends on a new connection is not counted
        try:
            super().on_connect_check_health(check_health=check_health)
        finally:
            self._is_greeting = False

    def send_packed_command(self, command, check_health=True):
        if self._is_greeting:
            return super().send_packed_command(command, check_health=check_health)
        if self._cut.armed:
            self._cut.sent += 1
        if self._cut.is_now and self._cut.how != AFTER:
            self.disconnect()
            raise redis.ConnectionError("cut before sending")
        self._is_answer_lost = self._cut.is_now
        return super().send_packed_command(command, check_health=check_health)

    def read_response(self, *args, **options):
        answer = super().read_response(*args, **options)
        if self._is_answer_lost:
            self._is_answer_lost = False
            self.disconnect()
            raise redis.ConnectionError("the answer was lost")
        return answer


def breaking(url: str, cut: Cut) -> redis.Redis:
    """A client of the Redis behind a `unix://` URL that breaks off where `cut` says."""
    pool = redis.ConnectionPool(
        connection_class=_CutConnection, path=url.removeprefix("unix://"), cut=cut, retry=Retry(NoBackoff(), 0), driver_info=None
    )
    return redis.Redis(connection_pool=pool)


def unreachable() -> redis.Redis:
    return redis.Redis(unix_socket_path="no-such.sock", retry=Retry(NoBackoff(), 0))

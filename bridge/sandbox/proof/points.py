"""Every effect outside the process as a point: each write to Redis and each request to the CRM, counted, and stopped at where asked.

The seams are the Redis client and the CRM's transport, so a write that is added tomorrow is a point by itself; a test compares what was
counted here with what the server says it executed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, cast

import redis
from redis.client import Pipeline

from bridge.crm.http import Timeouts
from bridge.crm.outcomes import Broken, Kind, Outcome, Response
from bridge.sandbox.ghl.asked import Request
from bridge.sandbox.ghl.engine import Delivery, Engine
from bridge.sandbox.ghl.faults import Spoil

_READS = frozenset(
    [
        "GET",
        "MGET",
        "HGET",
        "HGETALL",
        "HMGET",
        "LRANGE",
        "LLEN",
        "LPOS",
        "EXISTS",
        "ZRANGE",
        "ZRANGEBYSCORE",
        "ZCARD",
        "ZSCORE",
        "SMEMBERS",
        "SISMEMBER",
        "TIME",
        "PING",
        "INFO",
        "TYPE",
        "TTL",
        "PTTL",
        "WATCH",
        "UNWATCH",
        "SCRIPT",
        "HELLO",
        "CLIENT",
        "SELECT",
        "KEYS",
        "SCAN",
    ]
)
_PLUMBING = ("bridge/ledger/store.py", "bridge/ledger/claims.py", "bridge/work/queues.py", "bridge/crm/", "bridge/sandbox/", "bridge/clock")


class CrashedError(BaseException):
    """The process is gone. No `except Exception` survives it, and nothing that a `finally` still tries has an effect."""


class Side(StrEnum):
    BEFORE = "before"
    AFTER = "after"


@dataclass
class Points:
    """The effects of one process, in order. At effect number `at` (from 1), on `side`, `act` is called; it may raise CrashedError."""

    at: int = 0
    side: Side = Side.BEFORE
    act: Callable[[], None] | None = None
    names: list[str] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)  # every Redis command that writes, those inside a transaction one by one
    crashed: bool = False

    @contextmanager
    def effect(self, name: str, commands: Sequence[str] = ()) -> Iterator[None]:
        self.check()
        self.names.append(name)
        self.commands += commands
        number = len(self.names)
        self._reach(number, Side.BEFORE)
        yield
        self._reach(number, Side.AFTER)

    def check(self) -> None:
        """A process that has crashed does nothing any more."""
        if self.crashed:
            raise CrashedError

    def crash(self) -> None:
        self.crashed = True
        raise CrashedError

    def _reach(self, number: int, side: Side) -> None:
        if number == self.at and side is self.side and self.act is not None:
            act, self.act = self.act, None
            act()


class WatchedRedis(redis.Redis):
    """A client whose writes are points."""

    points: Points

    @classmethod
    def watching(cls, url: str, points: Points) -> WatchedRedis:
        client = cast("WatchedRedis", cls.from_url(url))
        client.points = points
        return client

    def execute_command(self, *args: Any, **options: Any) -> Any:  # noqa: ANN401 - as in redis-py
        command = str(args[0]).split(maxsplit=1)[0].upper()
        if command in _READS:
            self.points.check()
            return super().execute_command(*args, **options)  # type: ignore[no-untyped-call]  # - redis-py leaves it untyped
        with self.points.effect(f"{_who()}: {command}", [command]):
            return super().execute_command(*args, **options)  # type: ignore[no-untyped-call]  # - redis-py leaves it untyped

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> Pipeline:
        pipe = _WatchedPipeline(self.connection_pool, self.response_callbacks, transaction, shard_hint)
        pipe.points = self.points
        return pipe


class _WatchedPipeline(Pipeline):
    points: Points

    def execute(self, raise_on_error: bool = True) -> list[Any]:
        commands = [str(command[0][0]).split(maxsplit=1)[0].upper() for command in self.command_stack]
        writes = [command for command in commands if command not in _READS]
        if not writes:
            self.points.check()
            return super().execute(raise_on_error)
        name = f"{_who()}: EXEC {' '.join(dict.fromkeys(writes))}"
        with self.points.effect(name, [*writes, "EXEC"]):
            return super().execute(raise_on_error)

    def immediate_execute_command(self, *args: Any, **options: Any) -> Any:  # noqa: ANN401 - as in redis-py
        self.points.check()
        return super().immediate_execute_command(*args, **options)  # type: ignore[no-untyped-call]  # - redis-py leaves it untyped


def _who() -> str:
    """The business of an effect: the innermost function of ours that is no plumbing."""
    frame = sys._getframe(2)  # noqa: SLF001 - the only way to name a caller without touching each of them
    while frame is not None:
        path = frame.f_code.co_filename.replace("\\", "/")
        where = path[path.rfind("/bridge/") + 1 :] if "/bridge/" in path else path[path.rfind("/handlers/") + 1 :]
        if where.startswith(("bridge/", "handlers/")) and not where.startswith(_PLUMBING):
            return f"{where.removesuffix('.py').replace('/', '.')}.{frame.f_code.co_name.lstrip('_')}"
        if frame.f_back is None:
            break
        frame = frame.f_back
    return "?"


class InProcessHttp:
    """The CRM's transport without a socket: each request goes straight to the stand-in's engine, and is a point."""

    def __init__(self, engine: Engine, points: Points, timeouts: Timeouts, on_loss: Callable[[Request], None]) -> None:
        self.timeouts = timeouts
        self._engine = engine
        self._points = points
        self._on_loss = on_loss  # told of each request that was lost before it had an effect: the network may still hold it

    def send(
        self, method: str, path: str, *, kind: Kind, query: Mapping[str, str] | None = None, body: Mapping[str, object] | None = None
    ) -> Outcome:
        del kind
        request = Request(method, path, query or {}, self._headers(), _encode(body))
        with self._points.effect(f"{_who()}: {method} {path.rsplit('/', 1)[-1] if method == 'GET' else _shape(path)}"):
            outcome = _outcome(self._engine.answer(request))
            if isinstance(outcome, Broken) and not self._engine.truth.requests()[-1].effect:
                self._on_loss(request)
            return outcome

    def close(self) -> None:
        """Nothing is open."""

    def _headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self._engine.world.token}", "version": "2021-07-28", "content-type": "application/json"}


def _shape(path: str) -> str:
    parts = path.strip("/").split("/")
    # Names in a path are lower-case words; an id of twenty letters and digits may do without digits, but never without capitals.
    return "/" + "/".join(part if index % 2 == 0 or part.islower() else "…" for index, part in enumerate(parts))


def _encode(body: Mapping[str, object] | None) -> bytes:
    return b"" if body is None else json.dumps(body).encode()


def _outcome(delivery: Delivery) -> Outcome:
    if delivery.how is Spoil.RESET:
        return Broken.RESET
    if delivery.how is Spoil.HOLD:
        return Broken.TIMEOUT
    headers = {name.lower(): value for name, value in delivery.reply.headers.items()}
    return Response(delivery.reply.status, headers, delivery.reply.content)

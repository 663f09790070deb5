"""An alert while it stands, and what is to be said about it. Pure, but for `Book`, which changes one by compare-and-set.

On each route at most one message about a cause in a quarter of an hour, however often the promise is broken and kept in it; a second one
says at once that it is over. While it lasts another comes when the number has doubled, or after a day.

A sending belongs to whoever wrote it into the alert, until a time that stands there too. A process that was frozen meanwhile finds that
somebody else has taken over, and keeps quiet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import cast

import redis
from pydantic import TypeAdapter, ValidationError

from bridge.ledger import keys

GAP_S = 900.0
REMIND_S = 86_400.0
SENDING_S = 60.0  # after which a sending that nobody has settled is taken to have failed: its process died
TRIES_AT_ONCE = 3  # failures of a route after which pauses begin: a mail server locks out who logs in wrongly every five seconds
FIRST_PAUSE_S, LONGEST_PAUSE_S = 10.0, 300.0
LONGEST_S = 31.0  # that one can take on any route; what has waited until less is left of SENDING_S is not begun
_TRIES = 20


class Kind(StrEnum):
    OPEN = "open"
    STILL = "still"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class Told:
    """What one route has been told."""

    at: float | None = None  # when it last heard that the promise is broken
    count: int = 0  # how many it heard of then
    is_open: bool = False  # it has to hear of the end
    by: str | None = None  # who is sending right now
    until: float = 0.0  # and until when that is believed; with nobody sending, until when no more is tried
    failed: int = 0  # times in a row


@dataclass(frozen=True, slots=True)
class Standing:
    """One cause of one process. `since` None: the promise holds, and this only remembers what was said."""

    since: float | None = None
    ended_at: float | None = None
    count: int = 0
    most: int = 0  # the highest count since `since`
    routes: Mapping[str, Told] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sending:
    """What `by` has to send now."""

    route: str
    kind: Kind
    since: float
    count: int
    by: str
    until: float = 0.0


def look(
    old: Standing, count: int, now: float, routes: Iterable[str], by: str, *, began: float | None = None
) -> tuple[Standing, tuple[Sending, ...]]:
    """What becomes of an alert when `count` calls are concerned now (0: the promise holds), and what `by` has to say on which routes.

    `began`: since when the promise is broken, where that is known to be earlier than now.
    """
    seen = _seen(old, count, now, began)
    sendings = []
    told = dict(seen.routes)
    for route in routes:
        before = told.get(route, Told())
        kind = _due(seen, before, now)
        if kind is not None:
            told[route] = replace(before, by=by, until=now + SENDING_S)
            sendings.append(Sending(route, kind, seen.since or now, seen.count or seen.most, by, now + SENDING_S))
    return replace(seen, routes=told), tuple(sendings)


def _seen(old: Standing, count: int, now: float, began: float | None) -> Standing:
    if count:
        begins = old.since is None or old.ended_at is not None
        since = now if began is None else min(began, now)
        return replace(
            old, since=since if begins else old.since, ended_at=None, count=count, most=count if begins else max(old.most, count)
        )
    if old.since is None:
        return old
    if not any(told.is_open for told in old.routes.values()):
        return replace(old, since=None, ended_at=None, count=0)
    return replace(old, ended_at=old.ended_at or now, count=0)


def _due(standing: Standing, told: Told, now: float) -> Kind | None:
    """A clock may have been wrong for a while: an instant too far ahead was never meant, and keeps nobody quiet."""
    if 0.0 < told.until - now <= LONGEST_PAUSE_S:
        return None
    if standing.count == 0:
        return Kind.OVER if told.is_open else None
    silent_s = abs(now - told.at) if told.at is not None else REMIND_S
    if silent_s < GAP_S:
        return None
    if not told.is_open:
        return Kind.OPEN
    return Kind.STILL if standing.count >= 2 * told.count or silent_s >= REMIND_S else None


def is_due(standing: Standing, sending: Sending, now: float) -> bool:
    """Whether a sending that has waited for its turn may begin: it is still `by`'s, can end in time, and still says what is the case."""
    told = standing.routes.get(sending.route, Told())
    is_true = (standing.count == 0) == (sending.kind is Kind.OVER)
    return _is_own(told, sending) and now + LONGEST_S <= sending.until and is_true


def _is_own(told: Told, sending: Sending) -> bool:
    return told.by == sending.by and told.until == sending.until


def settle(old: Standing, sending: Sending, now: float, *, is_sent: bool | None) -> Standing:
    """After a sending; `is_sent` None: the answer was lost, and it may have arrived.

    What was not sent is due again, from its fourth failure on after a pause. What may have arrived is not said again within GAP_S, then it
    is. What somebody else has taken over is left to them.
    """
    told = old.routes.get(sending.route, Told())
    if not _is_own(told, sending):
        return old
    after = replace(told, by=None, until=0.0, failed=0)
    if is_sent is False:
        after = replace(after, failed=told.failed + 1, until=now + _pause(told.failed + 1))
    elif sending.kind is Kind.OVER:
        after = replace(after, is_open=False)
    else:
        after = replace(after, at=now, count=sending.count if is_sent else 0, is_open=True)
    return replace(old, routes={**old.routes, sending.route: after})


def _pause(failed: int) -> float:
    return min(FIRST_PAUSE_S * 2.0 ** min(failed - TRIES_AT_ONCE - 1, 10), LONGEST_PAUSE_S) if failed > TRIES_AT_ONCE else 0.0


def is_over(standing: Standing, now: float) -> bool:
    """Nothing is left to remember: the promise holds, all have heard, and the next breach may be told at once."""
    return standing.since is None and all(told.by is None and abs(now - (told.at or 0.0)) >= GAP_S for told in standing.routes.values())


_CODEC: TypeAdapter[Standing] = TypeAdapter(Standing)
Decide = Callable[[Standing], Standing]


def _read(document: bytes | None) -> Standing:
    """What an earlier version wrote and this one cannot read is forgotten: an alert too many is better than none."""
    try:
        return _CODEC.validate_json(document) if document else Standing()
    except ValidationError:
        return Standing()


class Book:
    """The alerts of all processes in Redis. Every method raises redis.RedisError."""

    def __init__(self, connection: redis.Redis) -> None:
        self._connection = connection

    def standing(self, process: str, causes: Iterable[str]) -> dict[str, Standing]:
        """Those of `causes` about which something is remembered."""
        named = tuple(causes)
        documents = cast("list[bytes | None]", self._connection.mget([keys.alert(process, cause) for cause in named]))
        return {cause: _read(document) for cause, document in zip(named, documents, strict=True) if document}

    def change(self, process: str, cause: str, decide: Decide, now: float) -> Standing:
        """Write what `decide` makes of an alert. Of two who try at once, the second decides on what the first wrote."""
        name = keys.alert(process, cause)
        with self._connection.pipeline() as pipe:
            for _ in range(_TRIES):
                pipe.watch(name)  # type: ignore[no-untyped-call]  # redis-py leaves it untyped
                document = cast("bytes | None", pipe.get(name))
                old = _read(document)
                new = decide(old)
                forget = is_over(new, now)
                if new == old and not (forget and document):
                    pipe.unwatch()
                    return old
                pipe.multi()
                if forget:
                    pipe.delete(name)
                else:
                    pipe.set(name, _CODEC.dump_json(new, exclude_defaults=True), ex=keys.ALERT_LIFE_S)
                try:
                    pipe.execute()
                except redis.WatchError:
                    continue
                return new
        raise redis.WatchError(f"the alert {cause} of {process} kept changing under {_TRIES} tries")

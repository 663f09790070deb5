"""From a look to a message: what is said about a cause, and whether at all, is decided on the alert in Redis (bridge/watch/standing.py)."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

import redis

from bridge.clock import Clock
from bridge.watch.notify import Message, Route
from bridge.watch.outbox import IsSent, Letter, Outbox
from bridge.watch.standing import Book, Sending, Standing, is_due, look, settle

log = logging.getLogger(__name__)

Write = Callable[[Sending], Message]


@dataclass
class Teller:
    """Two who look at once never say a thing twice: each decides on what the other wrote."""

    book: Book
    clock: Clock
    routes: Sequence[Route]
    outbox: Outbox = field(default_factory=Outbox)
    name: str = field(default_factory=lambda: uuid.uuid4().hex)

    def tell(self, process: str, cause: str, count: int, write: Write, *, began: float | None = None, but_not: Iterable[str] = ()) -> None:
        """Say what is due about `cause`, of which `count` calls are a case now (0: all is well).

        Waits for nobody. Raises redis.RedisError.
        """
        now, due = self.clock.now(), list[Sending]()
        names = [route.name for route in self.routes if route.name not in but_not]

        def decide(old: Standing) -> Standing:
            new, due[:] = look(old, count, now, names, self.name, began=began)
            return new

        self.book.change(process, cause, decide, now)
        ways = {route.name: route for route in self.routes}
        for sending in due:
            letter = Letter(write(sending), partial(self._told, process, cause, sending), partial(self._is_due, process, cause, sending))
            self.outbox.put(ways[sending.route], letter)

    def _is_due(self, process: str, cause: str, sending: Sending) -> bool:
        """Without Redis it cannot be known whether somebody else has said it meanwhile; it is due again when Redis is back."""
        try:
            standing = self.book.standing(process, [cause]).get(cause, Standing())
            return is_due(standing, sending, self.clock.now())
        except redis.RedisError as error:
            log.warning("an alert waits for Redis", extra={"error": type(error).__name__, "cause": cause})
            return False

    def _told(self, process: str, cause: str, sending: Sending, is_sent: IsSent) -> None:
        try:
            now = self.clock.now()
            self.book.change(process, cause, lambda old: settle(old, sending, now, is_sent=is_sent), now)
        except redis.RedisError as error:
            log.warning("what was said could not be written down; it may be said again", extra={"error": type(error).__name__})

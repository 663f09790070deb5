"""What waits to be said to owners. Each route has a lane and a thread of its own, so that none waits for another, and nobody for any.

In a lane at most one message about a cause waits: a newer one takes its place. Before a message is sent it is asked whether it is still
due: one that has waited too long, that another process has taken over, or that is not true any more is dropped.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from bridge.watch.notify import LostAnswerError, Message, Route, reason

log = logging.getLogger(__name__)

STOP_WAIT_S = 3.0

IsSent = bool | None  # None: it may have arrived


@dataclass(frozen=True, slots=True)
class Letter:
    """`told(is sent)` is called after the sending, in the lane's thread; so is `is_due()` before it."""

    message: Message
    told: Callable[[IsSent], None]
    is_due: Callable[[], bool] = lambda: True


class Outbox:
    """Threads live while there is something to send."""

    def __init__(self) -> None:
        self._lanes: dict[str, _Lane] = {}

    def put(self, route: Route, letter: Letter) -> None:
        """Returns at once."""
        self._lanes.setdefault(route.name, _Lane(route)).put(letter)

    def join(self, timeout_s: float = STOP_WAIT_S) -> None:
        """Wait for what is under way. What is not sent by then is due again for the next one who watches."""
        until = time.monotonic() + timeout_s
        for lane in list(self._lanes.values()):
            lane.join(until - time.monotonic())


class _Lane:
    def __init__(self, route: Route) -> None:
        self._route = route
        self._waiting: dict[tuple[str, str], Letter] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def put(self, letter: Letter) -> None:
        with self._lock:
            self._waiting[letter.message.process, letter.message.cause] = letter
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._work_off, name=f"alerts by {self._route.name}", daemon=True)
                self._thread.start()

    def join(self, timeout_s: float) -> None:
        thread = self._thread
        if thread is not None:
            thread.join(max(timeout_s, 0.0))

    def _work_off(self) -> None:
        while (letter := self._next()) is not None:
            if letter.is_due():
                letter.told(_send(self._route, letter.message))
            else:
                letter.told(False)

    def _next(self) -> Letter | None:
        with self._lock:
            if self._waiting:
                return self._waiting.pop(next(iter(self._waiting)))
            self._thread = None
            return None


def _send(route: Route, message: Message) -> IsSent:
    about = {"cause": message.cause, "kind": message.kind.value}
    try:
        route.send(message)
    except LostAnswerError as error:
        log.warning("an alert may have arrived by %s: %s; it is not repeated for a while", route.name, error, extra=about)
        return None
    except (OSError, ValueError) as error:
        log.warning("an alert could not be sent by %s (%s); it is tried again", route.name, reason(error), extra=about)
        return False
    log.info("an alert was sent by %s", route.name, extra=about)
    return True

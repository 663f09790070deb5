"""Looks at each process's promises, and has its owner told of those that are broken and of those that hold again.

The sweeper calls `look` every few seconds; whether anything is said is decided by bridge/watch/telling.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from bridge.ledger.store import Store
from bridge.watch import alerts, promises
from bridge.watch.closing import over
from bridge.watch.masking import mask
from bridge.watch.notify import Message, Route, ToSentry
from bridge.watch.promises import Breach, Figures, Process, counted
from bridge.watch.standing import Book, Sending
from bridge.watch.telling import Teller

LeftToday = Callable[[], int | None]


@dataclass
class Watcher:
    """`left_today()` says how many requests to the CRM are left, or None where that cannot be told now."""

    store: Store
    book: Book
    watched: Sequence[Process]
    routes: Sequence[Route]
    public_url: str
    left_today: LeftToday
    teller: Teller = field(init=False)
    _checked_in_at: float | None = None

    def __post_init__(self) -> None:
        self.teller = Teller(self.book, self.store.clock, self.routes)

    def look(self) -> None:
        """One look at every process. Sends nothing itself and waits for no owner. Raises redis.RedisError."""
        promises.begin_watch(self.store)
        for process in self.watched:
            self._look_at(process)
        self._check_in()

    def stop(self) -> None:
        """Give what is being sent a moment to leave."""
        self.teller.outbox.join()

    def _check_in(self) -> None:
        """Once a minute, and only after a look that came to its end: where nobody sweeps or looks, nobody may say that all is well."""
        now = self.store.clock.now()  # it may have been set back, and silence would be taken for death
        if self._checked_in_at is None or abs(now - self._checked_in_at) >= alerts.CHECK_IN_EVERY_S:
            self._checked_in_at = now
            for process in self.watched:
                alerts.check_in(f"callbridge-{process.name}")

    def _look_at(self, process: Process) -> None:
        figures = promises.read(self.store, process, left_today=self.left_today())
        broken = {breach.cause: breach for breach in promises.breaches(process, figures)}
        remembered = self.book.standing(process.name, promises.CAUSES)
        for cause in promises.CAUSES:
            is_known = cause != promises.BUDGET or figures.left_today is not None
            if is_known and (cause in broken or cause in remembered):
                self._look_into(process, cause, figures, broken.get(cause))

    def _look_into(self, process: Process, cause: str, figures: Figures, breach: Breach | None) -> None:
        now = figures.at

        def write(sending: Sending) -> Message:
            if breach is None:
                title, lines = over(process, cause, figures, sending, now)
            else:
                title, lines = mask(breach.say), self._lines(process, breach, figures.at)
            link = f"{self.public_url}/console{breach.page if breach else ''}"
            return Message(sending.kind, process.name, cause, process.owner, title, lines, link, _thread(process.name, cause, sending))

        # Sentry has an event of its own for each call that failed for good; a second issue about the same would be noise.
        but_not = (ToSentry.name,) if cause.startswith("attention.") else ()
        self.teller.tell(
            process.name, cause, breach.count if breach else 0, write, began=now - (breach.for_s if breach else 0.0), but_not=but_not
        )

    def _lines(self, process: Process, breach: Breach, at: float) -> tuple[str, ...]:
        who, may_be_more = promises.callers(self.store, process, breach, at)
        affected = f"{'At least ' if may_be_more else ''}{counted(who, 'caller is', 'callers are')} affected." if who else ""
        return tuple(mask(line) for line in (affected, f"What to do: {breach.do}") if line)


def _thread(process: str, cause: str, sending: Sending) -> str:
    return f"callbridge.{process}.{cause}.{int(sending.since)}"

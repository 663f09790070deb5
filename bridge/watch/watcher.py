"""Looks at each process's promises, and has its owner told of those that are broken and of those that hold again.

The sweeper calls `look` every few seconds; whether anything is said is decided by bridge/watch/telling.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from bridge.ledger.store import Store
from bridge.watch import alerts, promises
from bridge.watch.masking import mask
from bridge.watch.notify import Message, Route, ToSentry
from bridge.watch.promises import Breach, Process, counted, span
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
        for process in self.watched:
            self._look_at(process)
        self._check_in()

    def stop(self) -> None:
        """Give what is being sent a moment to leave."""
        self.teller.outbox.join()

    def _check_in(self) -> None:
        """Once a minute, and only after a look that came to its end: where nobody sweeps or looks, nobody may say that all is well."""
        now = self.store.clock.now()
        if self._checked_in_at is None or now - self._checked_in_at >= alerts.CHECK_IN_EVERY_S:
            self._checked_in_at = now
            for process in self.watched:
                alerts.check_in(f"callbridge-{process.name}")

    def _look_at(self, process: Process) -> None:
        figures = promises.read(self.store, process, left_today=self.left_today())
        broken = {breach.cause: breach for breach in promises.breaches(process, figures)}
        remembered = self.book.standing(process.name, promises.CAUSES)
        for cause in promises.CAUSES:
            if cause in broken or cause in remembered:
                self._look_into(process, cause, broken.get(cause))

    def _look_into(self, process: Process, cause: str, breach: Breach | None) -> None:
        now = self.store.clock.now()

        def write(sending: Sending) -> Message:
            said = self._over(process, cause, sending, now) if breach is None else self._open(process, breach, sending)
            return Message(sending.kind, process.name, cause, process.owner, *said)

        # Sentry has an event of its own for each call that failed for good; a second issue about the same would be noise.
        but_not = (ToSentry.name,) if cause.startswith("attention.") else ()
        self.teller.tell(process.name, cause, breach.count if breach else 0, write, but_not=but_not)

    def _open(self, process: Process, breach: Breach, sending: Sending) -> tuple[str, tuple[str, ...], str, str]:
        who, may_be_more = promises.callers(self.store, process, breach.cause)
        affected = f"{'At least ' if may_be_more else ''}{counted(who, 'caller is', 'callers are')} affected." if who else ""
        lines = (affected, f"What to do: {breach.do}", f"Owner: {process.owner}.")
        link = f"{self.public_url}/console{breach.page}"
        return mask(breach.say), tuple(mask(line) for line in lines if line), link, _thread(process.name, breach.cause, sending)

    def _over(self, process: Process, cause: str, sending: Sending, now: float) -> tuple[str, tuple[str, ...], str, str]:
        say = f"{_ABOUT[cause]} It lasted {span(max(now - sending.since, 0.0))}."
        lines = (f"At its height it was about {counted(sending.count, 'call', 'calls')}.",) if sending.count > 1 else ()
        return say, (*lines, "Nothing is left to do."), f"{self.public_url}/console", _thread(process.name, cause, sending)


_ABOUT = {
    promises.LATE: "No call waits longer than promised any more.",
    promises.SLOW: "Leads come as fast as promised again.",
    promises.FAILURES: "Few calls fail again.",
    promises.BUDGET: "There are enough requests to GoHighLevel for today again.",
    promises.SILENCE: "Calls come again.",
} | {cause: f"No call needs attention any more ({cause.partition('.')[2]})." for cause in promises.CAUSES if cause.startswith("attention.")}


def _thread(process: str, cause: str, sending: Sending) -> str:
    return f"callbridge.{process}.{cause}.{int(sending.since)}"

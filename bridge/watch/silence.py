"""Silence: a phone system lists calls that no webhook announced, or a number is quiet for longer than it ever is at this hour of the week.

One alert for each provider, with the likely cause, through the same book and routes as the other alerts (bridge/watch/standing.py,
notify.py). It ends by itself with the next call that a webhook announces.

How long is too long is learned: for each dialled number, the calls of the same hours in the last four weeks say how many would have come
since the last one. Calls come at random, so at 8 that were to be expected and did not come the odds against chance are 3000 to 1.

Redis keys, beside those of bridge/ledger/keys.py:

    cb:silence:numbers             ZSET    "<provider> <digest> <number, masked>" by when a webhook last announced a call to it
    cb:silence:refused:<provider>  HASH    reason to how many webhooks had been refused for it when all was last well
    cb:silence:watched             STRING  when somebody first watched, since Redis was last empty (bridge/watch/promises.py)
    cb:silence:missed:<provider>   STRING  when the last call began that no webhook announced; there until calls flow again
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import redis
import requests

from bridge.ledger import keys
from bridge.ledger.entry import Entry
from bridge.ledger.find import Wanted
from bridge.ledger.store import Store
from bridge.settings import DAY_S
from bridge.watch.closing import lasted
from bridge.watch.masking import mask
from bridge.watch.notify import Message, Route
from bridge.watch.promises import Breach, counted, span
from bridge.watch.standing import Book, Sending
from bridge.watch.telling import Teller

NUMBERS = "cb:silence:numbers"
BACKFILL = "backfill"
HOUR_S = 3600.0
WEEK_S = 7 * DAY_S
WEEKS = 4
LEAST_HISTORY_S = 2 * WEEK_S
LONGEST_LOOK_S = WEEK_S
PROBE_TIMEOUT_S = 3.0
_NEWEST = 500  # calls that are looked through for one that a webhook announced
_NAMED = 3


@dataclass(frozen=True, slots=True)
class Quiet:
    """A number at which no call has been announced for `quiet_s` seconds, in which `expected` calls would usually have come."""

    number: str  # masked
    quiet_s: float
    expected: float


@dataclass(frozen=True, slots=True)
class Signs:
    """All that is known of a provider's silence."""

    provider: str
    missed: int = 0  # calls of this look that no webhook announced
    missed_since: float | None = None  # when the last such call began, while no webhook has come since
    quiet: tuple[Quiet, ...] = ()
    refused: Mapping[str, int] = field(default_factory=dict)  # reason → how many since all was well
    web_answers: bool | None = None  # None: not asked
    heard_at: float | None = None  # when a webhook last announced a call


def is_silent(signs: Signs) -> bool:
    return bool(signs.missed or signs.missed_since is not None or signs.quiet)


def judge(signs: Signs, public_url: str) -> Breach | None:
    """What to tell the owner; None where all is well. Pure."""
    if not is_silent(signs):
        return None
    say, do = likely_cause(signs, public_url)
    return Breach(f"silence.{signs.provider}", max(signs.missed, len(signs.quiet), 1), f"{_what(signs)} {say}", do)


def _what(signs: Signs) -> str:
    if signs.missed:
        told = counted(signs.missed, "call that no webhook announced", "calls that no webhook announced")
        return f"{signs.provider} lists {told}; the backfill has brought them in."
    if signs.quiet:
        longest = sorted(signs.quiet, key=lambda quiet: -quiet.expected)[:_NAMED]
        told = ", ".join(f"{quiet.number} ({span(quiet.quiet_s)}, usually {quiet.expected:.0f} calls)" for quiet in longest)
        return f"{signs.provider}: no webhook has announced a call to {told}."
    return f"{signs.provider}: no webhook has come since calls were missed."


def likely_cause(signs: Signs, public_url: str) -> tuple[str, str]:
    """The most telling sign first, and what to do about it."""
    if signs.web_answers is False:
        return (
            "Likely cause: the web process does not answer at PUBLIC_URL.",
            f"Start the Procfile's web process, and see that {public_url}/healthz answers.",
        )
    if signs.refused:
        reason, _ = max(signs.refused.items(), key=lambda one: one[1])
        times = counted(sum(signs.refused.values()), "request was", "requests were")
        return (
            f"Likely cause: {times} refused ({reason}).",
            f"Compare the secret (docs/providers/{signs.provider}.md) with {signs.provider}'s own, and PUBLIC_URL with the URL there.",
        )
    return (
        f"Likely cause: {signs.provider} does not call the bridge; its webhook URL was changed or removed, or the bridge was down.",
        f"At {signs.provider}, the number's webhook has to be {public_url}/webhooks/{signs.provider} or below. Then ring it yourself.",
    )


def expected_calls(counts: Iterable[tuple[float, int]], weeks: float) -> float:
    """How many calls would have come. `counts`: for each piece of the silence its share of an hour, and its calls in `weeks` weeks."""
    return sum(share * calls for share, calls in counts) / weeks


@dataclass
class Silence:
    """Looks after each run of the backfill. `probe(url)` says whether the web answers."""

    store: Store
    book: Book
    routes: Sequence[Route]
    public_url: str
    owner: str
    process: str
    after_calls: float
    probe: Callable[[str], bool] | None = None
    teller: Teller = field(init=False)

    def __post_init__(self) -> None:
        self.teller = Teller(self.book, self.store.clock, self.routes)

    @property
    def connection(self) -> redis.Redis:
        return self.store.connection

    def look(self, providers: Iterable[str], missed: Mapping[str, Sequence[str]]) -> dict[str, Breach]:
        """One look at each provider; `missed` are call keys that just went in from its list. Returns what is wrong, by provider."""
        found = {}
        for provider in providers:
            signs = self.signs(provider, missed.get(provider, ()))
            breach = judge(signs, self.public_url)
            if breach is not None:
                found[provider] = breach
            else:
                self._remember_refused(provider)
            self._tell(signs, breach)
        return found

    def signs(self, provider: str, missed: Sequence[str]) -> Signs:
        """Raises redis.RedisError."""
        now = self.store.clock.now()
        newest = self._heard(provider)
        # Calls from before the ledger's birth are no silence: the bridge was installed, or has lost its memory, since.
        missed = [entry.call_key for entry in self.store.get_many(missed) if entry.suspect_since is None]
        missed_since = self._missed_since(provider, missed, newest)
        quiet = tuple(self._quiet(provider, now))
        signs = Signs(provider, len(missed), missed_since, quiet, self._refused(provider), heard_at=newest)
        if not is_silent(signs):
            return signs
        return replace(signs, web_answers=(self.probe or web_answers)(f"{self.public_url}/healthz"))

    # ---- Calls that no webhook announced

    def _heard(self, provider: str) -> float | None:
        """When a webhook last announced a call; its numbers are remembered."""
        entries = self.store.find.page(Wanted(provider=provider), after=None, limit=_NEWEST, newest=True).entries
        heard = [entry for entry in entries if entry.source != BACKFILL]
        rows = {row: entry.accepted_at for entry in reversed(heard) if (row := _row(entry))}
        if rows:
            self.connection.zadd(NUMBERS, rows, gt=True)
        return heard[0].accepted_at if heard else None

    def _missed_since(self, provider: str, missed: Sequence[str], heard: float | None) -> float | None:
        """When the newest missed call went in, while no webhook has come since."""
        name = f"cb:silence:missed:{provider}"
        if missed:
            latest = max((entry.accepted_at for entry in self.store.get_many(missed)), default=self.store.clock.now())
            self.connection.set(name, repr(latest), ex=2 * WEEK_S)
            return latest
        told = cast("bytes | None", self.connection.get(name))
        if told is None:
            return None
        if heard is not None and heard > float(told):
            self.connection.delete(name)
            return None
        return float(told)

    # ---- Numbers that are quiet

    def _quiet(self, provider: str, now: float) -> Iterable[Quiet]:
        rows = cast("list[tuple[bytes, float]]", self.connection.zrange(NUMBERS, 0, -1, withscores=True))
        for row, heard_at in rows:
            named, digest, number = row.decode().split(" ", 2)
            if named == provider:
                expected = self._expected(digest, heard_at, now)
                if expected is not None and expected >= self.after_calls:
                    yield Quiet(number, now - heard_at, expected)

    def _expected(self, digest: str, heard_at: float, now: float) -> float | None:
        """Calls that the last weeks would lead one to expect since `heard_at`; None without enough history."""
        index = keys.index("dialled", digest)
        first = cast("list[tuple[bytes, float]]", self.connection.zrange(index, 0, 0, withscores=True))
        if not first or now - first[0][1] < LEAST_HISTORY_S:
            return None
        weeks = min(WEEKS, int((now - first[0][1]) // WEEK_S))
        pieces = _pieces(max(heard_at, now - LONGEST_LOOK_S), now)
        with self.connection.pipeline(transaction=False) as pipe:
            for begin, _ in pieces:
                for week in range(1, weeks + 1):
                    pipe.zcount(index, begin - week * WEEK_S, f"({begin - week * WEEK_S + HOUR_S}")
            counts = cast("list[int]", pipe.execute())
        sums = (sum(counts[number * weeks : (number + 1) * weeks]) for number in range(len(pieces)))
        return expected_calls(((share, calls) for (_, share), calls in zip(pieces, sums, strict=True)), weeks)

    # ---- Refusals

    def _refused(self, provider: str) -> dict[str, int]:
        counted_now = self._refusals(provider)
        told = cast("dict[bytes, bytes]", self.connection.hgetall(f"cb:silence:refused:{provider}"))
        before = {reason.decode(): int(times) for reason, times in told.items()}
        return {reason: more for reason, times in counted_now.items() if (more := times - before.get(reason, 0)) > 0}

    def _remember_refused(self, provider: str) -> None:
        now = self._refusals(provider)
        if now:
            self.connection.hset(f"cb:silence:refused:{provider}", mapping={reason: str(times) for reason, times in now.items()})

    def _refusals(self, provider: str) -> dict[str, int]:
        prefix = f"refused.{provider}:"
        counts = cast("dict[bytes, bytes]", self.connection.hgetall(keys.COUNT))
        return {name.decode().removeprefix(prefix): int(times) for name, times in counts.items() if name.decode().startswith(prefix)}

    # ---- Telling

    def _tell(self, signs: Signs, breach: Breach | None) -> None:
        cause, now = f"silence.{signs.provider}", self.store.clock.now()
        self.teller.tell(
            self.process, cause, breach.count if breach else 0, lambda sending: self._message(signs, cause, breach, sending, now)
        )

    def _message(self, signs: Signs, cause: str, breach: Breach | None, sending: Sending, now: float) -> Message:
        thread = f"callbridge.{self.process}.{cause}.{int(sending.since)}"
        if breach is None:
            title, lines = _over(signs, sending, now)
        else:
            title, lines = mask(breach.say), (f"What to do: {breach.do}",)
        return Message(sending.kind, self.process, cause, self.owner, title, lines, f"{self.public_url}/console", thread)


def _over(signs: Signs, sending: Sending, now: float) -> tuple[str, tuple[str, ...]]:
    """What ended it: mostly a call, else a memory that is gone or a setting."""
    has_come = signs.heard_at is not None and signs.heard_at >= sending.since
    title = f"{signs.provider} announces calls again." if has_come else f"There is no sign any more that {signs.provider} is silent."
    return title, (lasted(sending.since, now),)


def web_answers(url: str) -> bool:
    """Whether anything but a server error comes back. From inside, so a network that cannot reach its own outside says no."""
    try:
        with requests.get(url, timeout=PROBE_TIMEOUT_S, allow_redirects=False, stream=True) as answer:
            return answer.status_code < 500
    except requests.RequestException:
        return False


def _row(entry: Entry) -> str | None:
    dialled = entry.facts.dialled
    return f"{entry.facts.provider} {keys.digest(dialled)} {mask(dialled)}" if dialled else None


def _pieces(begin: float, end: float) -> list[tuple[float, float]]:
    """Hours from `begin` on, each with its share: the last one is not whole."""
    found = []
    while begin < end:
        found.append((begin, min(end - begin, HOUR_S) / HOUR_S))
        begin += HOUR_S
    return found

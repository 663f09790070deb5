"""How long the console's pages take with a million calls in the ledger. Run by hand, not in the suite:

    python -m tests.console.million [CALLS]

It starts a Redis of its own, writes entries and index rows by pipelines, asks each page as a browser would and prints p50 and p95 of the
server's time in milliseconds. A million calls need about 2.5 GB.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from statistics import quantiles

import redis

from bridge.ledger import index, keys, moves
from bridge.ledger.entry import Cause, Entry, Plan, State
from bridge.ledger.store import _CODEC
from bridge.ledger.trail import line
from bridge.sandbox.ghl import GhlStandIn
from bridge.sandbox.redis_server import RedisServer
from tests.console.support import Browser, Site
from tests.support.builders import make_call, make_entry, make_trouble

CALLS = 1_000_000
ROUNDS = 60
BATCH = 2000
DAYS = 90
PROVIDERS = ("twilio", "telnyx", "vonage", "generic")


def entries(count: int, now: float, rng: random.Random) -> Iterator[Entry]:
    """Ninety days of calls: most are done, one in a hundred needs attention, a few wait."""
    for number in range(count):
        at = now - DAYS * 86_400 * (1 - number / count)
        phone = f"+1{rng.randrange(200, 999)}555{rng.randrange(10_000):04}"
        caller = replace(make_call().caller, raw=phone, e164=phone)
        call = make_call(
            provider=rng.choice(PROVIDERS), root_id=f"CA{number:032x}", caller=caller, dialled=f"+1555010{rng.randrange(40):04}"
        )
        entry = replace(make_entry(facts=call), accepted_at=at, last_event_at=at)
        draw = rng.random()
        if draw < 0.01:
            yield moves.park(running(entry, at), at, make_trouble(rng.choice(list(Cause)), at=at))
        elif draw < 0.011:
            yield moves.queue(entry, at)
        else:
            done = moves.finish(running(entry, at), Plan(), at + 1)
            yield moves.adopt(done, f"contact{rng.randrange(count // 2)}", created=True)


def running(entry: Entry, at: float) -> Entry:
    return moves.begin(moves.queue(entry, at), at, lease_s=30, worker="w")


def fill(connection: redis.Redis, count: int, now: float, rng: random.Random) -> None:
    made = entries(count, now, rng)
    while batch := list(islice(made, BATCH)):
        indexed: dict[str, dict[str, float]] = defaultdict(dict)
        for entry in batch:
            for name, score in index.rows(entry).items():
                indexed[name][entry.call_key] = score
        told = line(batch[0].accepted_at, "event new", event="voice", source="webhook").to_json()
        with connection.pipeline(transaction=False) as pipe:
            pipe.mset({keys.entry(entry.call_key): _CODEC.dump_json(entry, exclude_defaults=True) for entry in batch})
            pipe.rpush(keys.trail(batch[0].call_key), told)
            for name, scores in indexed.items():
                pipe.zadd(name, scores)
            pipe.execute()


def pages(site: Site, now: float, rng: random.Random) -> dict[str, Callable[[], str]]:
    """A name for each kind of page, and an address of it."""
    some = [entry.call_key for entry in site.store.page(State.DONE, after=(now - DAYS / 2 * 86_400, ""), limit=500)]
    lasts = [f"{number:04}" for number in range(10_000)]
    return {
        "today": lambda: "/console",
        "calls": lambda: "/console/calls",
        "calls, far back": lambda: f"/console/calls?day={time.strftime('%Y-%m-%d', time.gmtime(now - rng.randrange(DAYS) * 86_400))}",
        "calls, one state": lambda: f"/console/calls?state={rng.choice(list(State)).value}",
        "calls, three filters": lambda: (
            f"/console/calls?state=done&provider={rng.choice(PROVIDERS)}&dialled=%2B1555010{rng.randrange(40):04}"
        ),
        "calls, nothing fits": lambda: "/console/calls?state=done&cause=stale&provider=twilio",
        "calls, last four digits": lambda: f"/console/calls?last4={rng.choice(lasts)}&provider={rng.choice(PROVIDERS)}",
        "needs attention": lambda: "/console/attention",
        "needs attention, one cause": lambda: f"/console/attention?cause={rng.choice(list(Cause)).value}&provider={rng.choice(PROVIDERS)}",
        "one call": lambda: f"/console/calls/{rng.choice(some)}",
    }


def timed(browser: Browser, address: Callable[[], str]) -> list[float]:
    times = []
    for _ in range(ROUNDS):
        path = address()
        begun = time.perf_counter()
        answer = browser.get(path)
        times.append((time.perf_counter() - begun) * 1000)
        assert answer.status_code == 200, path
    return times


def main(count: int) -> None:
    """Fill a Redis, then measure in a fresh process: the one that wrote a million entries is no web process any more."""
    with tempfile.TemporaryDirectory(prefix="cb") as folder:
        server = RedisServer(Path(folder)).start()
        connection = redis.Redis.from_url(server.url)
        connection.config_set("appendonly", "no")
        begun = time.time()
        fill(connection, count, begun, random.Random(1))
        told = f"{connection.zcard(keys.ALL):,} calls in {connection.info('memory')['used_memory_human']}"
        sys.stdout.write(f"{told}, written in {time.time() - begun:.0f} s, at {server.url}\n")
        sys.stdout.flush()
        subprocess.run([sys.executable, "-m", "tests.console.million", server.url], check=True)
        connection.close()
        server.stop()


def measure(url: str) -> None:
    with GhlStandIn() as ghl:
        site = Site(url, ghl)
        site.employ()
        browser, rng = site.browser("vera"), random.Random(2)
        for name, address in pages(site, site.store.clock.now(), rng).items():
            cuts = quantiles(timed(browser, address), n=20)
            sys.stdout.write(f"{name:<28} p50 {cuts[9]:6.1f} ms   p95 {cuts[18]:6.1f} ms\n")
        site.close()


if __name__ == "__main__":
    argument = sys.argv[1] if len(sys.argv) > 1 else str(CALLS)
    if argument.isdigit():
        main(int(argument))
    else:
        measure(argument)

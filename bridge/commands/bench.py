"""How long a phone system waits for its answer: `flask --app app bench`, or `python -m bridge.commands bench --sandbox` from nothing.

Many clients at once send first requests of new calls, as fast as they are answered; beside them, in rounds of their own, as many requests
to /healthz of the same bridge, which does nothing. What differs between the two is what an acknowledgement costs; what they share is the
web server, this machine and the bench itself. The rounds alternate and their medians are shown, so that a busy minute hits both.

Each call of the bench would become a lead, so both the bridge and its GoHighLevel have to be on this machine.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import random
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urlsplit

import click
from flask import current_app, has_app_context

from bridge.parts import Parts
from bridge.settings import Settings

CLIENTS = 50
ROUNDS = 5
REQUESTS = 500  # in a round
_PATIENCE_S = 15.0  # as long as Twilio waits (https://www.twilio.com/docs/api/errors/11200)


@dataclass(frozen=True, slots=True)
class Target:
    """A bridge, and what its phone system signs with."""

    url: str
    token: str


@dataclass(frozen=True, slots=True)
class Asked:
    """One request, ready to be sent."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes | None = None


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one round, or the medians of all. `failed` counts answers other than a 2xx, and those that did not come."""

    p50_ms: float
    p99_ms: float
    per_s: float
    failed: int


@dataclass(frozen=True, slots=True)
class Result:
    """What was measured, round by round."""

    clients: int
    requests: int  # in each round
    webhook: list[Figures]
    healthz: list[Figures]

    @property
    def ok(self) -> bool:
        return not any(figures.failed for figures in (*self.webhook, *self.healthz))


@click.command("bench")
@click.option("--clients", type=click.IntRange(1, 500), default=CLIENTS, show_default=True, help="How many ask at the same time.")
@click.option("--rounds", type=click.IntRange(1, 100), default=ROUNDS, show_default=True, help="Rounds for each of the two.")
@click.option("--requests", "count", type=click.IntRange(10, 100_000), default=REQUESTS, show_default=True, help="Requests in a round.")
@click.option("--sandbox", is_flag=True, help="Measure a deployment of its own, which is started for it and ended afterwards.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of lines.")
def command(clients: int, rounds: int, count: int, sandbox: bool, as_json: bool) -> None:
    """Measure how soon webhooks are acknowledged. Ends 0 only when every request was."""
    with own_deployment() if sandbox else contextlib.nullcontext(configured()) as target:
        result = measure(target, clients=clients, rounds=rounds, count=count)
    click.echo(json.dumps(as_document(result)) if as_json else as_text(result))
    sys.exit(0 if result.ok else 1)


def configured() -> Target:
    """The bridge that the environment describes. Raises click.ClickException where its calls could reach a real GoHighLevel."""
    if not has_app_context():
        raise click.ClickException("no bridge is configured here: add --sandbox, or use `flask --app app bench`")
    parts: Parts = current_app.extensions["callbridge"]
    return allowed(parts.settings)


def allowed(settings: Settings) -> Target:
    """Raises click.ClickException naming the setting that forbids a bench."""
    for name, url in (("PUBLIC_URL", settings.public_url), ("GHL_BASE_URL", settings.ghl_base_url)):
        if urlsplit(url).scheme != "http":  # which the settings allow for a loopback host alone
            raise click.ClickException(f"{name} is not on this machine, and calls of the bench become leads: use --sandbox")
    token = settings.value("TWILIO_AUTH_TOKEN")
    if not token:
        raise click.ClickException("TWILIO_AUTH_TOKEN is not set, and the bench signs as Twilio does: set it, or use --sandbox")
    return Target(settings.public_url, token)


@contextlib.contextmanager
def own_deployment() -> Iterator[Target]:
    """Redis, GoHighLevel's stand-in, two gunicorn processes and two workers, in a temporary folder."""
    from bridge.sandbox.deployment import Deployment  # noqa: PLC0415 - production imports every command, and has no sandbox

    environment = {"WEB_CONCURRENCY": "2", "WORKERS": "2"}
    with tempfile.TemporaryDirectory(prefix="cb-bench-") as folder, Deployment(Path(folder), workers=1, environment=environment) as own:
        yield Target(own.url, own.environment["TWILIO_AUTH_TOKEN"])


def measure(target: Target, *, clients: int, rounds: int, count: int) -> Result:
    """Alternate between the two, after one round of each that is not counted: a process's first request builds its parts."""
    result = Result(clients, count, [], [])
    run_round(target.url, webhooks(target, clients), clients)
    run_round(target.url, healthz(target, clients), clients)
    for _ in range(rounds):
        result.webhook.append(run_round(target.url, webhooks(target, count), clients))
        result.healthz.append(run_round(target.url, healthz(target, count), clients))
    return result


def webhooks(target: Target, count: int) -> list[Asked]:
    """First requests of new calls, from numbers of the range for fiction."""
    from bridge.sandbox.phone import TwilioPhone, new_call  # noqa: PLC0415 - production imports every command, and has no sandbox

    rng = random.SystemRandom()
    phone = TwilioPhone(target.url, target.token, rng)
    made = (phone.voice(new_call(rng, started=time.time())) for _ in range(count))
    return [Asked(one.method, urlsplit(one.url).path, dict(one.headers), one.body) for one in made]


def healthz(target: Target, count: int) -> list[Asked]:
    return [Asked("GET", f"{urlsplit(target.url).path}/healthz", {})] * count


def run_round(url: str, asked: Sequence[Asked], clients: int) -> Figures:
    """Share `asked` out among clients that start together, each with a connection of its own that it keeps."""
    gate = threading.Barrier(clients + 1)

    def client(share: Sequence[Asked]) -> list[float | None]:
        connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=_PATIENCE_S)
        with contextlib.closing(connection):
            gate.wait()
            return [ask(connection, one) for one in share]

    with ThreadPoolExecutor(clients) as pool:
        shares = [pool.submit(client, asked[number::clients]) for number in range(clients)]
        gate.wait()
        began = time.perf_counter()
        waited = [took for share in shares for took in share.result()]
        return figures(waited, time.perf_counter() - began)


def ask(connection: http.client.HTTPConnection, asked: Asked) -> float | None:
    """Seconds until the whole answer was there; None where it was no 2xx, or none came."""
    began = time.perf_counter()
    try:
        connection.request(asked.method, asked.path, asked.body, asked.headers)
        answer = connection.getresponse()
        answer.read()
    except (OSError, http.client.HTTPException):
        connection.close()  # the next request opens a new one
        return None
    return time.perf_counter() - began if 200 <= answer.status < 300 else None


def figures(waited: Sequence[float | None], lasted_s: float) -> Figures:
    """Percentiles of the answers that came, in milliseconds; zeros where none did."""
    came = [took * 1000 for took in waited if took is not None]
    failed = len(waited) - len(came)
    if len(came) < 2:
        return Figures(0.0, 0.0, 0.0, failed)
    cuts = statistics.quantiles(came, n=100, method="inclusive")
    return Figures(round(cuts[49], 2), round(cuts[98], 2), round(len(came) / lasted_s, 1), failed)


def medians(rounds: Sequence[Figures]) -> Figures:
    """Of each figure by itself; failures are summed."""
    p50, p99, per_s = (round(statistics.median(column), 2) for column in zip(*((r.p50_ms, r.p99_ms, r.per_s) for r in rounds), strict=True))
    return Figures(p50, p99, per_s, sum(one.failed for one in rounds))


def as_document(result: Result) -> dict[str, object]:
    return {
        "ok": result.ok,
        "clients": result.clients,
        "requests": result.requests,
        "webhook": asdict(medians(result.webhook)),
        "healthz": asdict(medians(result.healthz)),
        "rounds": [{"webhook": asdict(one), "healthz": asdict(other)} for one, other in zip(result.webhook, result.healthz, strict=True)],
    }


def as_text(result: Result) -> str:
    rows = [("webhook", medians(result.webhook)), ("/healthz", medians(result.healthz))]
    more = rows[0][1].p50_ms - rows[1][1].p50_ms
    return "\n".join(
        [
            f"{result.clients} clients at once; medians of {len(result.webhook)} rounds of {result.requests} requests, taken in turns",
            "              p50 ms    p99 ms  answers/s    failed",
            *(f"{name:<10}{one.p50_ms:>10.1f}{one.p99_ms:>10.1f}{one.per_s:>11.0f}{one.failed:>10}" for name, one in rows),
            f"An acknowledgement takes {more:.1f} ms more (p50) than a route that does nothing.",
        ]
    )

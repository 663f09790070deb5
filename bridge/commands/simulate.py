"""`flask --app app simulate <provider>`: signed webhooks about made-up calls, sent to the running bridge, and what became of the calls."""

from __future__ import annotations

import json
import random
import re
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click
import redis
import requests
from flask import current_app

from bridge.console import api
from bridge.ledger.entry import Entry, State
from bridge.ledger.store import Store
from bridge.parts import Parts
from bridge.providers import registry

if TYPE_CHECKING:  # production imports every command, and the sandbox only when it is used
    from bridge.sandbox.resigned import Line
    from bridge.sandbox.scenarios import Phone, Plan, Sent

# The phone systems that make calls of their own; the others repeat one visit from their samples.
WITH_SCENARIOS = ("twilio", "generic")
SCENARIOS = ("new-caller", "repeat", "withheld", "out-of-order", "recording-late", "twice-at-once", "storm")
STORM_CALLS = 20
SOON_S = 2.0
_LOOK_EVERY_S = 0.1


@click.command("simulate")
@click.argument("provider", type=click.Choice(tuple(registry.PROVIDERS)))
@click.option("--scenario", type=click.Choice(SCENARIOS), help="What happens (twilio and generic). Default: new-caller.")
@click.option("--sample", metavar="NAME", help="One recorded request instead, about a new call; `list` shows the names.")
@click.option("--url", metavar="URL", help="A bridge on this machine. Default: PUBLIC_URL.")
@click.option("--count", type=click.IntRange(1, 1000), metavar="N", help=f"How often; how many callers in a storm ({STORM_CALLS}).")
@click.option("--telnyx-seed", metavar="HEX", help="Private key, 64 hex digits, of a test key pair in TELNYX_PUBLIC_KEY.")
@click.option("--wait", "wait_s", type=click.FloatRange(0, 3600), default=30, help="Seconds to wait for the calls to end. Default: 30.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of lines.")
def command(
    provider: str,
    scenario: str | None,
    sample: str | None,
    url: str | None,
    count: int | None,
    telnyx_seed: str | None,
    wait_s: float,
    as_json: bool,
) -> None:
    """Send made-up calls to the running bridge, as PROVIDER would. Ends 0 only when each was accepted and is done, or waits for its end."""
    if sample and scenario:
        raise click.UsageError("--sample or --scenario, not both")
    if scenario and provider not in WITH_SCENARIOS:
        raise click.UsageError(f"{provider} plays one visit from its samples; --scenario is for {' and '.join(WITH_SCENARIOS)}")
    if sample == "list":
        _list_samples(provider)
        return
    parts: Parts = current_app.extensions["callbridge"]
    line = _line(parts, provider, sample or "", target(url, parts.settings.public_url), telnyx_seed)
    plans = _sample_plans(line, provider, sample, count or 1) if sample else _plans(line, scenario or SCENARIOS[0], count)
    try:
        sent, keys = _send(parts, provider, plans, wait_s)
        entries = await_settled(parts.store, keys, wait_s)
    except requests.RequestException as error:
        where = url or parts.settings.public_url
        raise click.ClickException(f"{where} does not answer ({type(error).__name__}): start the Procfile's `web`, or give --url") from None
    except redis.RedisError as error:
        raise click.ClickException(f"Redis does not answer ({type(error).__name__}): check REDIS_URL") from None
    ok = all(one.is_accepted for one in sent) and len(entries) == len(keys) and all(is_well(entry) for entry in entries)
    _show(sent, keys, entries, now=parts.store.clock.now(), ok=ok, as_json=as_json)
    sys.exit(0 if ok else 1)


def target(url: str | None, public_url: str) -> str:
    """Where to send: PUBLIC_URL, or a bridge on this machine. Raises click.UsageError for any other: made-up calls go nowhere else."""
    if url is None:
        return public_url
    parts = urlsplit(url)
    if parts.scheme in {"http", "https"} and parts.hostname in {"127.0.0.1", "localhost", "::1"} and not parts.query:
        return url.rstrip("/")
    raise click.UsageError("--url is http://127.0.0.1:<port> or localhost; everything else is reached through PUBLIC_URL")


def is_settled(entry: Entry | None, now: float) -> bool:
    """Whether nothing will happen to it within seconds, unless more is delivered."""
    if entry is None:
        return False
    waits = entry.state is State.ACCEPTED and entry.queued_at is None and (entry.next_try_at or 0) > now + SOON_S
    return (waits and not _is_held_up(entry)) or entry.state in {State.DONE, State.NEEDS_ATTENTION}


def is_well(entry: Entry) -> bool:
    """Done, or waiting for more of the call to be told; not a try that failed, nor a question."""
    waits = entry.state is State.ACCEPTED and entry.next_try_at is not None and not entry.spent
    return entry.state is State.DONE or (waits and not _is_held_up(entry))


def _is_held_up(entry: Entry) -> bool:
    """Whether its last try cost nothing since it never had its turn: the request budget was spent, or another worker was busy with it."""
    return bool(entry.attempts) and entry.attempts[-1].outcome == "again" and not entry.spent


def await_settled(store: Store, keys: Sequence[str], wait_s: float) -> list[Entry]:
    """The entries as soon as all are settled, or as they stand after `wait_s` seconds; those that do not exist are left out."""
    deadline = time.monotonic() + wait_s
    while True:
        entries = store.get_many(keys)
        now = store.clock.now()
        if (len(entries) == len(keys) and all(is_settled(entry, now) for entry in entries)) or time.monotonic() >= deadline:
            return entries
        time.sleep(_LOOK_EVERY_S)


def _line(parts: Parts, provider: str, sample: str, url: str, telnyx_seed: str | None) -> Line:
    from bridge.sandbox import resigned  # noqa: PLC0415 - see above

    value = parts.settings.value
    seed = _trusted_seed(telnyx_seed, value("TELNYX_PUBLIC_KEY")) if provider == "telnyx" else b""
    names = resigned.signing_settings(provider, sample)
    if provider not in parts.providers or not any(value(name).strip() for name in names):
        raise click.ClickException(f"{' or '.join(names)} is not set: it signs what is sent, and proves it to the bridge")
    return resigned.line_of(provider, value, url, parts.settings.public_url, random.SystemRandom(), telnyx_seed=seed)


def _trusted_seed(text: str | None, public_keys: str) -> bytes:
    """The seed of a test key pair that the bridge trusts. Raises click.ClickException saying how to make one, or where to put it."""
    from bridge.sandbox import resigned  # noqa: PLC0415 - see above

    if not text:
        raise click.ClickException(
            "Telnyx alone has the key that signs its webhooks. Give the seed of a test key pair, --telnyx-seed and 64 hex digits "
            'that nobody knows (python3 -c "import secrets; print(secrets.token_hex(32))"): you are told what TELNYX_PUBLIC_KEY needs then'
        )
    try:
        seed = bytes.fromhex(text)
        public_key = resigned.telnyx_public_key(seed)
    except ValueError:
        raise click.UsageError("--telnyx-seed is 64 hex digits") from None
    if public_key not in re.split(r"[\s,]+", public_keys):
        raise click.ClickException(
            f"TELNYX_PUBLIC_KEY does not hold the key of this seed: add {public_key} to it, behind a space, restart the bridge, and take "
            "it out again after the test, since whoever knows the seed can sign"
        )
    return seed


def _list_samples(provider: str) -> None:
    from bridge.sandbox import phone  # noqa: PLC0415 - see above

    for name in phone.sample_names(provider):
        click.echo(name)


def _sample_plans(line: Line, provider: str, name: str, count: int) -> list[Plan]:
    from bridge.sandbox import phone, resigned, scenarios  # noqa: PLC0415 - see above

    names = phone.sample_names(provider)
    if name not in names:
        raise click.UsageError(f"there is no sample {name!r} of {provider}; there are: {', '.join(names)}")
    return [(scenarios.Batch((resigned.new_sample(line, name, random.SystemRandom()),)),) for _ in range(count)]


def _plans(line: Line, scenario: str, count: int | None) -> list[Plan]:
    from bridge.sandbox import resigned, scenarios  # noqa: PLC0415 - see above

    if isinstance(line, resigned.RecordedPhone):
        return [(scenarios.Batch(line.visit(random.SystemRandom())),) for _ in range(count or 1)]
    return _scenario_plans(line, scenario, count)


def _scenario_plans(line: Phone, scenario: str, count: int | None) -> list[Plan]:
    from bridge.sandbox import scenarios  # noqa: PLC0415 - see above

    rng = random.SystemRandom()
    if scenario == "storm":
        return [scenarios.storm(line, rng, count or STORM_CALLS)]
    return [scenarios.SCENARIOS[scenario](line, rng, None) for _ in range(count or 1)]


def _send(parts: Parts, provider: str, plans: Sequence[Plan], wait_s: float) -> tuple[list[Sent], list[str]]:
    """Send all; the answers, and the keys of the calls that they made or touched, each once."""
    from bridge.sandbox import scenarios  # noqa: PLC0415 - see above

    sent: list[Sent] = []
    keys: dict[str, None] = {}
    for plan in plans:
        for batch in plan:
            if batch.when_settled:
                await_settled(parts.store, list(keys), wait_s)
            answers = scenarios.send_batch(batch)
            sent += answers
            found = [scenarios.call_key_of(one.delivery, parts.providers[provider], parts.settings.public_url) for one in answers]
            keys |= dict.fromkeys(key for key in found if key)
    return sent, list(keys)


def _show(sent: Sequence[Sent], keys: Sequence[str], entries: Sequence[Entry], *, now: float, ok: bool, as_json: bool) -> None:
    deliveries = [{"method": one.delivery.method, "path": urlsplit(one.delivery.url).path, "status": one.status} for one in sent]
    calls = [api.show(entry, now) for entry in entries]
    if as_json:
        click.echo(json.dumps({"ok": ok, "deliveries": deliveries, "calls": calls}))
        return
    for one in deliveries:
        click.echo(f"{one['status']}  {one['method']} {one['path']}")
    if not keys:
        click.echo("No call of ours: the bridge keeps it among the ignored ones, or has refused it.")
    for call in calls:
        click.echo(describe(call))
    for key in sorted(set(keys) - {entry.call_key for entry in entries}):
        click.echo(f"{key}  not in the ledger yet: the bridge may have spooled it; see /readyz")


def describe(call: dict[str, Any]) -> str:
    """One line about a call as the API shows it."""
    if call["state"] == State.NEEDS_ATTENTION:
        return f"{call['call_key']}  needs attention ({call['cause_word']}): {call['message']} {call['hint']}".rstrip()
    if call["state"] == State.DONE:
        became = f"contact {call['contact_id']}" if call["contact_id"] else f"no lead: {call['reason']}"
        return f"{call['call_key']}  done, {became}"
    waits = f", next try at {call['next_try_at']}, because {call['waiting_for']}" if call["next_try_at"] else ""
    return f"{call['call_key']}  {call['state']}{waits}"

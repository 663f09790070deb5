"""`flask --app app backfill --file calls.jsonl`: calls that never reached the bridge, or that it has forgotten, from a list.

One JSON object on each line: `provider` and `call_id` as in the phone system's webhooks, `account` for a subaccount, and what is known of
`from`, `to`, `direction`, `status`, `caller_name`, `started_at`, `ended_at` (ISO 8601 or seconds since the epoch) and `duration_seconds`.
A call that the ledger knows is a repeat, so the same list can be given again and again.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, TextIO

import click
import redis
from flask import current_app

from bridge import numbers
from bridge.call import Call, Direction, Status
from bridge.intake.accept import Acceptor, Event
from bridge.parts import Parts
from bridge.providers import reading

SOURCE = "backfill"
STATUSES: Mapping[str, Status] = {status.value: status for status in Status} | {
    "ended": Status.COMPLETED,
    "answered": Status.IN_PROGRESS,
    "cancelled": Status.CANCELED,
}


class Unreadable(ValueError):
    """A line that names no call; the message says what is missing, and nothing of what stands there."""


@click.command("backfill")
@click.option("--file", "source", type=click.File("r", encoding="utf-8"), required=True, help="One JSON object a line; - reads stdin.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of lines.")
def command(source: TextIO, as_json: bool) -> None:
    """Bring calls from a list into the ledger. Ends 0 only when every line was taken."""
    parts: Parts = current_app.extensions["callbridge"]
    acceptor = Acceptor(parts.store, parts.plan, parts.settings)
    try:
        taken, faults = take(source, acceptor, region=parts.settings.default_region)
    except redis.RedisError as error:
        message = f"Redis does not answer ({type(error).__name__}): check REDIS_URL, then give the same file again"
        raise click.ClickException(message) from None
    if as_json:
        click.echo(json.dumps({"ok": not faults, "calls": sum(taken.values()), **taken, "faults": faults}))
    else:
        told = ", ".join(f"{count} {what}" for what, count in sorted(taken.items())) or "nothing"
        click.echo(f"{sum(taken.values())} calls: {told}")
        for fault in faults:
            click.echo(fault, err=True)
    sys.exit(1 if faults else 0)


def take(lines: Iterable[str], acceptor: Acceptor, *, region: str) -> tuple[Counter[str], list[str]]:
    """What each call was to the ledger, counted (new, news, repeat, conflict, not inbound), and a line for each that could not be read.

    Raises redis.RedisError; what was taken before stays taken.
    """
    taken: Counter[str] = Counter()
    faults = []
    for number, text in enumerate(lines, 1):
        if not text.strip():
            continue
        try:
            event = read(text, region=region)
        except Unreadable as fault:
            faults.append(f"line {number}: {fault}")
            continue
        taken[acceptor.accept(event).value if event else "not inbound"] += 1
    return taken, faults


def read(text: str, *, region: str) -> Event | None:
    """The event of one line; None for a call that is not inbound. Raises Unreadable."""
    told = reading.json_object(text.encode("utf-8", "surrogatepass"))
    if told is None:
        raise Unreadable("is no JSON object")
    provider, call_id = reading.told(told.get("provider")), reading.told(told.get("call_id"))
    if not provider or not call_id:
        raise Unreadable("needs `provider` and `call_id`, as in the phone system's webhooks")
    if (reading.told(told.get("direction")) or Direction.INBOUND).casefold() != Direction.INBOUND:
        return None
    call = _call(told, provider, call_id, region)
    raw = {"at": datetime.now(UTC).timestamp(), "source": SOURCE, "body": text.strip()}
    return Event(call, SOURCE, reading.canonical(SOURCE, told), None, SOURCE, json.dumps(raw))


def _call(told: Mapping[str, Any], provider: str, call_id: str, region: str) -> Call:
    raw_from, raw_to, raw_status = reading.word(told.get("from")), reading.word(told.get("to")), reading.told(told.get("status"))
    return Call(
        provider=provider,
        account=reading.told(told.get("account")) or "",
        root_id=call_id,
        caller=None if raw_from is None else numbers.identify(raw_from, region=region),
        dialled=numbers.dialled(raw_to, region),
        status=STATUSES.get(re.sub(r"[\s-]", "_", (raw_status or "").casefold()), Status.UNKNOWN),
        raw_status=raw_status,
        caller_name=reading.told(told.get("caller_name")),
        started_at=reading.instant(told.get("started_at")),
        ended_at=reading.instant(told.get("ended_at")),
        duration_s=reading.seconds(told.get("duration_seconds")),
    )

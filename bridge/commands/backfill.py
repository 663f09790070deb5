"""`flask --app app backfill`: calls that never reached the bridge, or that it has forgotten.

`--since 2h` asks each phone system for its own list of calls (docs/backfill.md). `--file calls.jsonl` takes one from a file, one JSON
object on each line: `provider` and `call_id` as in the phone system's webhooks, `account` for a subaccount, and what is known of
`from`, `to`, `direction`, `status`, `caller_name`, `started_at`, `ended_at` (ISO 8601 or seconds since the epoch) and `duration_seconds`.
A call that the ledger knows is a repeat, so both can be given again and again.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Self, TextIO

import click
import redis
from flask import current_app

from bridge import numbers
from bridge.call import Call, Direction, Status
from bridge.commands import call_lists
from bridge.errors import WrongSettings
from bridge.intake.accept import Acceptor, Event
from bridge.intake.backfill import SOURCE, Found, Waiting, is_lacking, news_for
from bridge.ledger.entry import Taken
from bridge.ledger.store import Store
from bridge.parts import Parts
from bridge.providers import reading
from bridge.providers.lists import Lists
from bridge.providers.lists.base import Lister, Window
from bridge.providers.registry import PROVIDERS

STATUSES: Mapping[str, Status] = {status.value: status for status in Status} | {
    "ended": Status.COMPLETED,
    "answered": Status.IN_PROGRESS,
    "cancelled": Status.CANCELED,
}
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


class Unreadable(ValueError):
    """A line that names no call; the message says what is missing, and nothing of what stands there."""


@click.command("backfill")
@click.option("--since", help="Ask the phone systems for their calls since then: 30m, 2h, 3d, or 2026-01-15T08:00Z.")
@click.option("--provider", help="With --since: this phone system alone.")
@click.option("--dry-run", is_flag=True, help="With --since: say what would be brought in, and change nothing.")
@click.option(
    "--file", "source", type=click.File("r", encoding="utf-8"), help="Take calls from a file; one JSON object a line; - reads stdin."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of lines.")
def command(since: str | None, provider: str | None, source: TextIO | None, *, dry_run: bool, as_json: bool) -> None:
    """Bring calls from a list into the ledger. Ends 0 only when every list was read to its end, and every line taken."""
    if (since is None) == (source is None):
        raise click.UsageError("give --since, to ask the phone systems, or --file")
    parts: Parts = current_app.extensions["callbridge"]
    try:
        if source is not None:
            ok = _from_file(parts, source, as_json=as_json)
        else:
            ok = _from_lists(parts, _begin(since or "", parts.store.clock.now()), provider, dry_run=dry_run, as_json=as_json)
    except redis.RedisError as error:
        message = f"Redis does not answer ({type(error).__name__}): check REDIS_URL, then give the same command again"
        raise click.ClickException(message) from None
    sys.exit(0 if ok else 1)


# ---- From the phone systems


def _from_lists(parts: Parts, since: float, provider: str | None, *, dry_run: bool, as_json: bool) -> bool:
    configured = chosen_lists(parts, provider)
    window, backfill = Window(since, parts.store.clock.now()), call_lists.make_backfill(parts)
    found: list[Found] = []
    for lister in configured.listers:
        with Bar(lister, is_shown=not as_json) as bar:
            found.append(backfill.bring(backfill.read(lister, window, bar.show), bar.show, dry_run=dry_run))
    ok = bool(found) and all(one.ok for one in found)
    if as_json:
        told = {"ok": ok, "dry_run": dry_run, "lists": [one.as_document() for one in found], "skipped": dict(configured.skipped)}
        click.echo(json.dumps(told))
    else:
        click.echo("\n".join([*lines(found, dry_run=dry_run), *(f"{name}: skipped, {why}" for name, why in configured.skipped.items())]))
    return ok


def chosen_lists(parts: Parts, provider: str | None) -> Lists:
    """The lists of all configured phone systems, or of one. Raises click.ClickException where that one has none."""
    try:
        configured = call_lists.configured(parts)
    except WrongSettings as wrong:
        raise click.ClickException(str(wrong)) from None
    if provider is None:
        return configured
    listers = tuple(lister for lister in configured.listers if lister.name == provider)
    if not listers:
        raise click.ClickException(f"{provider}: {configured.skipped.get(provider, 'it is not configured')}")
    return Lists(listers, {})


def lines(found: Sequence[Found], *, dry_run: bool) -> list[str]:
    """What was found, one list after the other, with the reasons for what was left out."""
    said = []
    for one in found:
        lister, fault = one.listed.lister, one.listed.fault
        who = f"{lister.name} {lister.account}".strip()
        verb = "would be brought in" if dry_run else "brought in"
        young = f", {one.too_young} so young that their webhooks may be on the way" if one.too_young else ""
        more = f", {one.updated} known ones completed" if one.updated else ""
        said.append(f"{who}: {len(one.listed.rows)} calls listed: {one.inserted} {verb}{more}, {one.known} known{young}")
        said += [f"    {times} ignored: {reason}" for reason, times in sorted(one.listed.ignored.items())]
        said += [f"    NOT READ TO ITS END: {fault} {fault.hint}".rstrip()] if fault else []
    return said


class Bar:
    """A progress bar on a terminal's standard error; nothing elsewhere."""

    def __init__(self, lister: Lister, *, is_shown: bool) -> None:
        self._who = f"{lister.name} {lister.account}".strip()
        self._is_shown = is_shown and sys.stderr.isatty()
        self._width = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._write("", end="\r")

    def show(self, what: str, number: int, of: int) -> None:
        if of:
            filled = 30 * number // of
            self._write(f"{self._who}  [{'#' * filled}{'.' * (30 - filled)}] {number}/{of}", end="\r")
        else:
            self._write(f"{self._who}  {number} calls {what}", end="\r")

    def _write(self, text: str, *, end: str) -> None:
        if self._is_shown:
            click.echo(text.ljust(self._width) + end, err=True, nl=False)
            self._width = len(text)


def _begin(since: str, now: float) -> float:
    """When a window begins. Raises click.UsageError."""
    match = re.fullmatch(r"([0-9]{1,6})([smhd])", since.strip())
    if match:
        return now - int(match[1]) * _UNITS[match[2]]
    at = reading.instant(since)
    if at is None:
        raise click.UsageError("--since: a span such as 30m, 2h or 3d, or a time such as 2026-01-15T08:00Z")
    return at.timestamp()


# ---- From a file


def _from_file(parts: Parts, source: TextIO, *, as_json: bool) -> bool:
    waiting = Waiting(parts.store, parts.plan, call_lists.pause_s(parts.settings))
    acceptor = Acceptor(parts.store, waiting, parts.settings)
    taken, faults = take(source, parts.store, acceptor, region=parts.settings.default_region)
    if as_json:
        click.echo(json.dumps({"ok": not faults, "calls": sum(taken.values()), **taken, "faults": faults}))
    else:
        told = ", ".join(f"{count} {what}" for what, count in sorted(taken.items())) or "nothing"
        click.echo(f"{sum(taken.values())} calls: {told}")
        for fault in faults:
            click.echo(fault, err=True)
    return not faults


def take(source: Iterable[str], store: Store, acceptor: Acceptor, *, region: str) -> tuple[Counter[str], list[str]]:
    """What each call was to the ledger, counted (new, news, repeat, not inbound), and a line for each that could not be read.

    A known call is a repeat, as in a phone system's own list, unless the ledger lacks what the file tells (bridge/intake/backfill.py):
    who writes a file spells numbers in another way than the webhooks did, which would be taken for a contradiction.
    Raises redis.RedisError; what was taken before stays taken.
    """
    taken: Counter[str] = Counter()
    faults = []
    for number, text in enumerate(source, 1):
        if not text.strip():
            continue
        try:
            event = read(text, region=region)
        except Unreadable as fault:
            faults.append(f"line {number}: {fault}")
            continue
        taken[_take_one(event, store, acceptor) if event else "not inbound"] += 1
    return taken, faults


def _take_one(event: Event, store: Store, acceptor: Acceptor) -> str:
    entry = store.get(event.call.key)
    if not is_lacking(entry, event.call):
        return Taken.REPEAT.value
    return acceptor.accept(replace(event, call=news_for(entry, event.call))).value


def read(text: str, *, region: str) -> Event | None:
    """The event of one line; None for a call that is not inbound. Raises Unreadable."""
    told = reading.json_object(text.encode("utf-8", "surrogatepass"))
    if told is None:
        raise Unreadable("is no JSON object")
    provider, call_id = (reading.told(told.get("provider")) or "").casefold(), reading.told(told.get("call_id"))
    if not provider or not call_id:
        raise Unreadable("needs `provider` and `call_id`, as in the phone system's webhooks")
    if provider not in PROVIDERS:  # its calls would have other keys than those of the webhooks, and a second note
        raise Unreadable(f"`provider` is the last part of the webhook's address: one of {', '.join(PROVIDERS)}")
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

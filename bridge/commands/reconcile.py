"""`flask --app app reconcile --day 2026-01-15`: is every call of that day a lead, or is there a reason why not?

Calls at the provider = leads + done without lead + needs attention + under way. A difference is red, and names the calls.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import UTC, date, datetime, timedelta

import click
import redis
from flask import current_app

from bridge.commands import call_lists
from bridge.commands.backfill import Bar, chosen_lists
from bridge.intake import daily
from bridge.intake.catch_up import by_provider
from bridge.intake.daily import Sum
from bridge.parts import Parts


@click.command("reconcile")
@click.option("--day", default="today", help="A day in UTC: 2026-01-15, today or yesterday.")
@click.option("--provider", help="This phone system alone.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of lines.")
def command(day: str, provider: str | None, *, as_json: bool) -> None:
    """Compare the phone systems' lists of one day with the ledger. Ends 0 only when nothing is left over."""
    parts: Parts = current_app.extensions["callbridge"]
    lists = chosen_lists(parts, provider)
    try:
        now = parts.store.clock.now()
        wanted, backfill, read = _day(day, now), call_lists.make_backfill(parts), []
        for lister in lists.listers:
            with Bar(lister, is_shown=not as_json) as bar:
                read.append(backfill.read(lister, daily.window(wanted, now), bar.show))
        sums = [daily.read(parts.store, wanted, *one) for one in by_provider(read).items()]
        daily.keep(parts.connection, sums)
    except redis.RedisError as error:
        raise click.ClickException(f"Redis does not answer ({type(error).__name__}): check REDIS_URL") from None
    ok = bool(sums) and all(one.ok for one in sums)
    if as_json:
        shown = [asdict(one) | {"ok": one.ok} for one in sums]
        click.echo(json.dumps({"ok": ok, "day": wanted.isoformat(), "sums": shown, "skipped": dict(lists.skipped)}))
    else:
        for one in sums:
            for line in _lines(one):
                click.echo(line)
        for name, why in lists.skipped.items():
            click.echo(f"{name}: skipped, {why}")
    sys.exit(0 if ok else 1)


def _lines(one: Sum) -> Iterator[str]:
    """The sum, then what it is made of. Red where something is left over; the words say so as well."""
    without, attention = sum(one.without_lead.values()), sum(one.attention.values())
    total = f"{one.leads} leads + {without} without lead + {attention} need attention + {one.under_way} under way"
    verdict = click.style("DOES NOT ADD UP", fg="red", bold=True) if not one.ok else "adds up"
    yield f"{one.day} {one.provider}: {one.listed} calls at the provider = {total}: {verdict}"
    yield from _reasons("without lead", one.without_lead)
    yield from _reasons("need attention", one.attention)
    if one.missing:
        yield click.style(f"    {len(one.missing)} missing here; flask backfill --since brings them in:", fg="red")
        yield from (f"        {key}" for key in one.missing)
    if one.unlisted:
        yield click.style(f"    {len(one.unlisted)} here, but not in the provider's list:", fg="red")
        yield from (f"        {key}" for key in one.unlisted)
    if one.fault:
        yield click.style(f"    the list was not read to its end: {one.fault}", fg="red")


def _reasons(what: str, counted: Mapping[str, int]) -> Iterator[str]:
    yield from (f"    {times} {what}: {word}" for word, times in counted.items())


def _day(text: str, now: float) -> date:
    """Raises click.UsageError."""
    today = datetime.fromtimestamp(now, UTC).date()
    named = {"today": today, "yesterday": today - timedelta(days=1)}
    if text in named:
        return named[text]
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise click.UsageError("--day: a day such as 2026-01-15, or today, or yesterday") from None

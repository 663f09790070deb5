"""`flask --app app replay`: put calls back that need attention, with the same guards as the console. `--dry-run` says what would happen."""

from __future__ import annotations

import getpass
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC
from typing import Any

import click
import redis
from flask import current_app

from bridge.console import filters
from bridge.console.actions import Declined, Desk, Survey
from bridge.console.site import desk as desk_of
from bridge.errors import Transient
from bridge.intake.replay import Preview
from bridge.ledger.entry import Cause, State
from bridge.parts import Parts


@click.command("replay")
@click.argument("call_keys", nargs=-1, metavar="[CALL_KEY]...")
@click.option("--all", "every", is_flag=True, help="Every call that needs attention, or those that fit the options below.")
@click.option("--cause", type=click.Choice([cause.value for cause in Cause]), help="With --all: only this cause.")
@click.option("--provider", help="With --all: only this phone system.")
@click.option("--day", help="With --all: only calls accepted on this day (UTC), such as 2026-11-29.")
@click.option("--from-step", help="Do this step and those behind it again. For single calls.")
@click.option("--reason", default="", help="Why; needed for a call that is old, done or otherwise doubtful. Kept in its trail.")
@click.option("--by", default=None, help="Who does it; your login name on this machine if left out.")
@click.option("--dry-run", is_flag=True, help="Look, say what would happen, and change nothing.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of lines.")
def command(
    call_keys: tuple[str, ...],
    *,
    every: bool,
    cause: str | None,
    provider: str | None,
    day: str | None,
    from_step: str | None,
    reason: str,
    by: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Replay calls. Ends 0 only when every one of them was put back or, with --dry-run, could be."""
    if bool(call_keys) == every:
        raise click.UsageError("name the calls by their keys, or give --all")
    if every and from_step:
        raise click.UsageError("--from-step is for single calls: what was done differs from one to the next")
    parts: Parts = current_app.extensions["callbridge"]
    desk, who = desk_of(parts), by or getpass.getuser()
    try:
        if every:
            survey = _survey(desk, parts, {"cause": cause, "provider": provider, "day": day})
            result = _replay_all(desk, survey, by=who, reason=reason, dry_run=dry_run)
        else:
            result = _replay_each(desk, call_keys, by=who, reason=reason, from_step=from_step, dry_run=dry_run)
    except (redis.RedisError, Transient) as error:
        raise click.ClickException(f"Redis does not answer ({type(error).__name__}): check REDIS_URL") from None
    click.echo(json.dumps(result) if as_json else "\n".join(_lines(result)))
    sys.exit(0 if result["ok"] else 1)


def _survey(desk: Desk, parts: Parts, options: Mapping[str, str | None]) -> Survey:
    try:
        given = {name: value for name, value in options.items() if value}
        wanted = filters.read(given, region=parts.settings.default_region, zone=UTC)
    except filters.WrongFilter as wrong:
        raise click.UsageError(str(wrong)) from None
    return desk.survey(replace(wanted, state=State.NEEDS_ATTENTION))


def _replay_all(desk: Desk, survey: Survey, *, by: str, reason: str, dry_run: bool) -> dict[str, Any]:
    chosen = len(survey.clean) + (len(survey.doubtful) if reason.strip() else 0)
    done = 0 if dry_run else desk.replay_all(survey, by=by, reason=reason)[0]
    left = len(survey.previews) - (chosen if dry_run else done)
    return {
        "ok": not left and not survey.is_cut,
        "dry_run": dry_run,
        "found": len(survey.previews),
        "clean": len(survey.clean),
        "need_reason": len(survey.doubtful),
        "replayed": done,
        "left": left,
        "more": survey.is_cut,
        "crm": survey.failure or "answers",
        "requests_left_today": survey.left_today,
        "start_every_s": round(survey.start_every_s, 3),
        "calls": [_shown(preview) for preview in survey.doubtful],
    }


def _replay_each(desk: Desk, call_keys: Sequence[str], *, by: str, reason: str, from_step: str | None, dry_run: bool) -> dict[str, Any]:
    calls = [_replay_one(desk, key, by=by, reason=reason, from_step=from_step, dry_run=dry_run) for key in call_keys]
    return {"ok": all(call["ok"] for call in calls), "dry_run": dry_run, "calls": calls}


def _replay_one(desk: Desk, call_key: str, *, by: str, reason: str, from_step: str | None, dry_run: bool) -> dict[str, Any]:
    try:
        preview = desk.preview(call_key, from_step)
        if preview is None:
            return {"call_key": call_key, "ok": False, "declined": "There is no such call."}
        shown = _shown(preview)
        if dry_run:
            return shown | {"ok": preview.is_possible and (not preview.needs_reason or bool(reason.strip()))}
        entry = desk.replay(call_key, by=by, reason=reason, seen=preview.seen, from_step=from_step)
    except Declined as declined:
        return {"call_key": call_key, "ok": False, "declined": str(declined)}
    return shown | {"ok": True, "state": entry.state.value}


def _shown(preview: Preview) -> dict[str, Any]:
    return {
        "call_key": preview.entry.call_key,
        "state": preview.entry.state.value,
        "possible": preview.is_possible,
        "needs_reason": preview.needs_reason,
        "would_do": list(preview.will_do),
        "checks": [{"name": check.name, "level": check.level.value, "say": check.say} for check in preview.checks],
    }


def _lines(result: Mapping[str, Any]) -> list[str]:
    lines = []
    if "found" in result:
        lines.append(
            f"{result['found']} need attention: {result['clean']} can be replayed as they are, {result['need_reason']} need a reason. "
            f"GoHighLevel: {result['crm']}. Requests left today: {result['requests_left_today']}; "
            f"one starts every {result['start_every_s']} s."
        )
        lines.append("Nothing was done." if result["dry_run"] else f"{result['replayed']} put back, {result['left']} left as they are.")
        if result["more"]:
            lines.append("There are more: repeat the command.")
    for call in result["calls"]:
        would = f"would do {', '.join(call['would_do']) or 'nothing'}" if "would_do" in call else "declined"
        lines.append(f"{call['call_key']}  {'put back' if call.get('ok') and not result['dry_run'] else would}")
        lines += [f"    {check['level']:<8}{check['say']}" for check in call.get("checks", ())]
        lines += [f"    {call['declined']}"] if "declined" in call else []
    return lines

"""`flask --app app replay`: put calls back that need attention, with the same guards as the console. `--dry-run` says what would happen."""

from __future__ import annotations

import getpass
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC
from typing import Any

import click
import redis
from flask import current_app

from bridge.console import filters
from bridge.console.actions import Declined, Desk, Survey, named
from bridge.console.site import desk as desk_of
from bridge.console.typed import legible
from bridge.errors import Transient
from bridge.intake.replay import Preview
from bridge.ledger.entry import Cause, State
from bridge.ledger.find import Wanted
from bridge.parts import Parts
from bridge.providers.registry import PROVIDERS

PART = 500  # calls that are looked at, then put back, before the next ones
LOOKS = 25  # contacts that GoHighLevel is asked about beforehand, for some seconds at most
ANSWERS, NOT_ASKED = "answers", "not asked"  # what is told of GoHighLevel, or else why it could not be asked
SHOWN = 50  # doubtful calls that are told in lines; --json tells all


@click.command("replay")
@click.argument("call_keys", nargs=-1, metavar="[CALL_KEY]...")
@click.option("--all", "every", is_flag=True, help="Every call that needs attention, or those that fit the options below.")
@click.option("--cause", type=click.Choice([cause.value for cause in Cause]), help="With --all: only this cause.")
@click.option("--provider", type=click.Choice([*PROVIDERS]), help="With --all: only this phone system.")
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
    options = {name: value for name, value in {"cause": cause, "provider": provider, "day": day}.items() if value is not None}
    if call_keys and options:
        raise click.UsageError(f"--{' and --'.join(options)} choose among all calls: give them with --all, or name the calls by their keys")
    parts: Parts = current_app.extensions["callbridge"]
    desk, who, reason = desk_of(parts), _who(by), legible(reason)
    try:
        if every:
            result = _replay_all(desk, _wanted(parts, options), by=who, reason=reason, dry_run=dry_run)
        else:
            result = _replay_each(desk, tuple(dict.fromkeys(call_keys)), by=who, reason=reason, from_step=from_step, dry_run=dry_run)
    except (redis.RedisError, Transient) as error:
        raise click.ClickException(f"Redis does not answer ({type(error).__name__}): check REDIS_URL") from None
    click.echo(json.dumps(result) if as_json else "\n".join(_lines(result)))
    sys.exit(0 if result["ok"] else 1)


def _who(told: str | None) -> str:
    """As it stands in the trail, which viewers read. A container may run as a user who has no name."""
    try:
        return named(told if told is not None else getpass.getuser())
    except Declined:
        raise click.UsageError("--by is a name") from None
    except (KeyError, OSError):
        return "flask replay"


def _wanted(parts: Parts, options: Mapping[str, str]) -> Wanted:
    """Calls of now: one that comes in meanwhile is nobody's to replay yet."""
    try:
        given = filters.read(options, region=parts.settings.default_region, zone=UTC)
    except filters.WrongFilter as wrong:
        raise click.UsageError(str(wrong)) from None
    now = parts.clock.now()
    return replace(given, state=State.NEEDS_ATTENTION, until=now if given.until is None else min(now, given.until))


@dataclass
class Sums:
    """What has become of all calls so far."""

    found: int = 0
    clean: int = 0
    replayed: int = 0
    looked: int = 0
    failure: str | None = None
    doubtful: list[Preview] = field(default_factory=list)

    def add(self, survey: Survey, replayed: int) -> None:
        self.found += len(survey.previews)
        self.clean += len(survey.clean)
        self.replayed += replayed
        self.looked += len(survey.looked)
        self.failure = self.failure or (survey.unasked.says_of_cause if survey.unasked else None)
        self.doubtful += survey.doubtful


def _replay_all(desk: Desk, wanted: Wanted, *, by: str, reason: str, dry_run: bool) -> dict[str, Any]:
    sums, survey = Sums(), None
    for survey in _parts(desk, wanted, sums):
        sums.add(survey, 0 if dry_run else desk.replay_all(survey, by=by, reason=reason)[0])
        if survey.is_cut:
            click.echo(f"{sums.found:,} looked at, {sums.replayed:,} put back …", err=True)
    would = sums.clean + (len(sums.doubtful) if reason.strip() else 0)
    left = sums.found - (would if dry_run else sums.replayed)
    return {
        "ok": not left,
        "dry_run": dry_run,
        "found": sums.found,
        "clean": sums.clean,
        "need_reason": len(sums.doubtful),
        "replayed": sums.replayed,
        "left": left,
        "looked_at": sums.looked,
        "crm": sums.failure or (ANSWERS if sums.looked else NOT_ASKED),
        "requests_left_today": desk.left_today(),
        "start_every_s": round(desk.replay_every_s, 3),
        "calls": [_shown(preview) for preview in sums.doubtful],
    }


def _parts(desk: Desk, wanted: Wanted, sums: Sums) -> Iterator[Survey]:
    """All that fit, part by part behind a cursor: what is left as it is keeps nothing that stands behind it from being reached."""
    after = None
    while True:
        # Asked at the beginning alone, since that takes seconds; as long as GoHighLevel does not answer, again each time.
        is_asked = not sums.found or sums.failure is not None
        survey = desk.survey(wanted, after=after, size=PART, ask=is_asked, looks=1 if sums.failure else LOOKS)
        yield survey
        if survey.after is None:
            return
        after = survey.after


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
        if preview.is_possible and preview.needs_reason and not reason.strip():
            return shown | {"ok": False, "declined": _why_a_reason(preview)}
        entry = desk.replay(call_key, by=by, reason=reason, seen=preview.seen, from_step=from_step)
    except Declined as declined:
        return {"call_key": call_key, "ok": False, "declined": str(declined)}
    return shown | {"ok": True, "state": entry.state.value}


def _why_a_reason(preview: Preview) -> str:
    return (
        f"Nothing was done. What is marked as a warning needs an answer ({', '.join(preview.doubts)}): say why all the same with --reason."
    )


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
    lines = _sum_lines(result) if "found" in result else []
    for call in result["calls"] if "found" not in result else result["calls"][:SHOWN]:
        lines.append(f"{call['call_key']}  {_outcome(call, dry_run=result['dry_run'])}")
        lines += [f"    {check['level']:<8}{check['say']}" for check in call.get("checks", ())]
        lines += [f"    {call['declined']}"] if "declined" in call else []
    if "found" in result and len(result["calls"]) > SHOWN:
        lines.append(f"And {len(result['calls']) - SHOWN:,} more that need a reason: --json tells all of them.")
    return lines


def _sum_lines(result: Mapping[str, Any]) -> list[str]:
    is_failure = result["crm"] not in (ANSWERS, NOT_ASKED)
    crm = result["crm"].rstrip(".") if is_failure else f"GoHighLevel: {result['crm']}"
    lines = [
        f"{result['found']:,} need attention: {result['clean']:,} can be replayed as they are, {result['need_reason']:,} need a reason.",
        f"{crm}. Requests left today: {result['requests_left_today']:,}.",
        f"One call starts every {result['start_every_s']} s.",
    ]
    unlooked = result["found"] - result["looked_at"]
    if unlooked and not is_failure:
        lines += [
            f"The contacts of {result['looked_at']:,} calls were looked at in GoHighLevel, those of {unlooked:,} were not.",
            "Each is looked at again right before its call is sent.",
            "Where it does not want to be contacted, is gone or another, nothing is sent and the call needs attention again.",
        ]
    lines.append("Nothing was done." if result["dry_run"] else f"{result['replayed']:,} put back, {result['left']:,} left as they are.")
    if result["left"] and result["need_reason"]:
        lines.append(f"{result['need_reason']:,} are replayed only with --reason. Why stands below each:")
    return lines


def _outcome(call: Mapping[str, Any], *, dry_run: bool) -> str:
    if "declined" in call or "would_do" not in call:
        return "declined"
    return "put back" if call.get("ok") and not dry_run else f"would do {', '.join(call['would_do']) or 'nothing'}"

"""Proof by experiment: a storm of calls with every fault at once, on real processes of their own. `python -m bridge.commands prove`.

It starts its own Redis, CRM stand-in, webs and workers in a temporary folder and touches nothing that is configured.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:  # production imports every command, and the sandbox only when it is used
    from bridge.sandbox.proof.drill import Drill, Recovery
    from bridge.sandbox.proof.storm import Result

FAULTS_SHOWN = 20
_BAR = 40


@click.command("prove")
@click.option("--calls", type=click.IntRange(1, 100_000), default=300, show_default=True, help="How many calls.")
@click.option("--seed", type=int, default=1, show_default=True, help="The same seed makes the same calls and the same faults.")
@click.option("--per-second", type=click.FloatRange(0.1, 500), default=12, show_default=True, help="How many ring in a second.")
@click.option("--disturb-every", type=click.FloatRange(0.1), default=3, show_default=True, help="Seconds from one kill to the next.")
@click.option("--location", type=click.Choice(("allows", "refuses")), default="allows", show_default=True, help="... duplicate contacts.")
@click.option("--drill", is_flag=True, help="Instead: Redis loses everything in mid-run, and a backfill mends it.")
@click.option("--recovery", is_flag=True, help="Instead: kill processes one by one with production's own times; takes some four minutes.")
@click.option("--keep", type=click.Path(file_okay=False, path_type=Path), help="An empty folder for data and logs, which then stay.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of a table.")
def command(
    calls: int,
    seed: int,
    per_second: float,
    disturb_every: float,
    location: str,
    drill: bool,
    recovery: bool,
    keep: Path | None,
    as_json: bool,
) -> None:
    """Prove that no call is lost and no lead doubled. Ends 0 only where that is so."""
    from bridge.sandbox.proof import drill as drills  # noqa: PLC0415 - see above
    from bridge.sandbox.proof import storm as storms  # noqa: PLC0415 - see above

    if drill and recovery:
        raise click.UsageError("--drill or --recovery, not both")
    progress = bar(sys.stderr.isatty())
    with tempfile.TemporaryDirectory(prefix="cb-prove-") as temporary:
        folder = keep or Path(temporary)
        if recovery:
            show_recovery(drills.recover(folder), as_json=as_json)
            return
        storm = storms.Storm(calls, seed, per_second, allows_duplicates=location == "allows", disturb_every_s=disturb_every)
        if drill:
            show_drill(drills.run(storm, folder, progress=progress), as_json=as_json)
        else:
            show(storms.run(storm, folder, progress=progress), as_json=as_json)


def bar(is_terminal: bool) -> Callable[[int, int], None]:
    """Shows on a terminal how many calls have ended; elsewhere a line for each tenth."""
    told = [-1]

    def tell(ended: int, of: int) -> None:
        tenth = min(10, 10 * ended // of)
        if is_terminal:
            filled = min(_BAR, _BAR * ended // of)
            click.echo(f"\r[{'#' * filled}{'.' * (_BAR - filled)}] {ended} of {of} calls have ended ", nl=False, err=True)
        elif tenth > told[0]:
            told[0] = tenth
            click.echo(f"{ended} of {of} calls have ended", err=True)

    return tell


def show(result: Result, *, as_json: bool) -> None:
    """The table, and the exit code."""
    _end(result.as_document(), result.judgement.faults, ok=result.ok, as_json=as_json)


def show_drill(drill: Drill, *, as_json: bool) -> None:
    _end(drill.as_document(), drill.judgement.faults, ok=drill.ok, as_json=as_json)


def show_recovery(recovered: Sequence[Recovery], *, as_json: bool) -> None:
    ok = all(one.ok for one in recovered)
    if as_json:
        document = {"ok": ok, "recoveries": [one.as_document() for one in recovered]}
        click.echo(json.dumps(document))
    else:
        for one in recovered:
            click.echo(f"{one.what:<32}{one.slowest_s:>6.1f} s to the end of the slowest call, {one.goal_s:.0f} s allowed")
    sys.exit(0 if ok else 1)


def table(document: dict[str, object]) -> str:
    """One row for each figure, in the order in which they are told."""
    rows = {name: value for name, value in document.items() if not isinstance(value, dict)}
    return "\n".join(f"{name.replace('_', ' '):<22}{_shown(value):>12}" for name, value in rows.items())


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, (int, float)) else str(value)


def _end(document: dict[str, object], faults: Sequence[str], *, ok: bool, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(document | ({"faults": faults[:FAULTS_SHOWN]} if faults else {})))
    else:
        click.echo(("\n" if sys.stderr.isatty() else "") + table(document))
    for fault in faults[:FAULTS_SHOWN]:
        click.echo(f"WRONG  {fault}", err=True)
    if len(faults) > FAULTS_SHOWN:
        click.echo(f"WRONG  and {len(faults) - FAULTS_SHOWN} more", err=True)
    sys.exit(0 if ok else 1)

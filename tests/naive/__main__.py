"""`python -m tests.naive --calls 500 --seed 1`: the same storm, this bridge and Callbridge, side by side."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import click

from bridge.commands.prove import bar
from bridge.sandbox.proof.storm import Result, Storm, StormDeployment, run
from tests.naive.deployment import NaiveDeployment

FIGURES = ("calls", "deliveries", "contacts", "duplicates", "lost", "notes_twice", "needs_attention", "conflicts", "wrong_state")


@click.command()
@click.option("--calls", default=500, show_default=True)
@click.option("--seed", default=1, show_default=True)
@click.option("--per-second", default=12.0, show_default=True)
@click.option("--patience", default=900.0, show_default=True, help="Seconds to wait for the end, after the last call has rung.")
@click.option("--location", type=click.Choice(("allows", "refuses")), default="allows", show_default=True)
@click.option("--json", "as_json", is_flag=True)
def main(calls: int, seed: int, per_second: float, patience: float, location: str, as_json: bool) -> None:
    """Put both through the same calls and the same faults. Ends 0 where Callbridge stands it."""
    storm = Storm(calls, seed, per_second, allows_duplicates=location == "allows", patience_s=patience)
    results = {name: _run(storm, kind) for name, kind in (("naive", NaiveDeployment), ("callbridge", StormDeployment))}
    documents = {name: result.as_document() for name, result in results.items()}
    if as_json:
        click.echo(json.dumps(documents))
    else:
        click.echo(f"{'':<18}{'naive':>12}{'Callbridge':>12}")
        for figure in FIGURES:
            click.echo(f"{figure.replace('_', ' '):<18}{documents['naive'][figure]:>12,}{documents['callbridge'][figure]:>12,}")
    sys.exit(0 if results["callbridge"].ok else 1)


def _run(storm: Storm, kind: type[StormDeployment]) -> Result:
    with tempfile.TemporaryDirectory(prefix="cb-storm-") as folder:
        return run(storm, Path(folder), make=kind, progress=bar(sys.stderr.isatty()))


if __name__ == "__main__":
    main()

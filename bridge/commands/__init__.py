"""What is started by hand: `flask --app app <command>`. Each ends 0 only when all is well."""

from __future__ import annotations

from flask import Flask

from bridge.commands import backfill, bench, console_user, doctor, prove, reconcile, replay, simulate, worker


def register(app: Flask) -> None:
    """Add every command to the app. One line for each."""
    app.cli.add_command(worker.command)
    app.cli.add_command(doctor.command)
    app.cli.add_command(simulate.command)
    app.cli.add_command(bench.command)
    app.cli.add_command(backfill.command)
    app.cli.add_command(prove.command)
    app.cli.add_command(reconcile.command)
    app.cli.add_command(replay.command)
    app.cli.add_command(console_user.command)

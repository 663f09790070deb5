"""Commands that need no environment: `python -m bridge.commands prove`, `python -m bridge.commands bench --sandbox`.

All others are started by `flask --app app <command>`.
"""

from __future__ import annotations

import click

from bridge.commands import bench, prove

if __name__ == "__main__":
    click.Group("bridge.commands", commands=[bench.command, prove.command])()

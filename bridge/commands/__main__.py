"""Commands that need no environment: `python -m bridge.commands bench --sandbox`. All others are started by `flask --app app <command>`."""

from __future__ import annotations

import click

from bridge.commands import bench

if __name__ == "__main__":
    click.Group("bridge.commands", commands=[bench.command])()

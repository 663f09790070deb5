"""`flask --app app console-user NAME ROLE`: one part of CONSOLE_USERS, with the password hashed. Nothing is stored."""

from __future__ import annotations

import sys

import click

from bridge.console.users import Role, hashed, parse
from bridge.errors import WrongSettings


@click.command("console-user")
@click.argument("name")
@click.argument("role", type=click.Choice([role.name.lower() for role in Role]))
@click.option("--password-stdin", is_flag=True, help="Read the password from standard input instead of asking for it twice.")
def command(name: str, role: str, *, password_stdin: bool) -> None:
    """Print the line for NAME. Put it into CONSOLE_USERS, one line for each user, and restart the web process."""
    if password_stdin:
        password = sys.stdin.readline().rstrip("\r\n")
    else:
        password = click.prompt("Password", hide_input=True, confirmation_prompt=True)
    try:
        line = f"{name}:{role}:{hashed(password)}"
        parse(line)
    except WrongSettings:
        raise click.UsageError("a name has letters, digits and . _ @ + - only, and begins with a letter or digit") from None
    except ValueError as short:
        raise click.UsageError(str(short)) from None
    click.echo(line)

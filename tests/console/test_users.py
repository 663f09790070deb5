"""CONSOLE_USERS: who gets in, and what is refused before anything starts."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from bridge.commands.console_user import command
from bridge.console.users import SECRET_HEADER, Role, hashed, parse
from bridge.errors import WrongSettings
from tests.console.support import PASSWORD, USERS

SECRET = "a secret of the proxy"
PROXIED = f"@proxy:X-Auth-Request-Email:{SECRET.replace(' ', '-')}"


def header(**told: str):
    return lambda name: told.get(name.replace("-", "_"), "")


def test_a_password_opens_its_own_account_alone() -> None:
    users = parse(USERS)
    account = users.with_password("otto", PASSWORD)
    assert account is not None
    assert (account.name, account.role) == ("otto", Role.OPERATOR)
    assert users.with_password("otto", PASSWORD + "!") is None
    assert users.with_password("nobody", PASSWORD) is None


@pytest.mark.parametrize("separator", ["\n", ";", " ", "\r\n", " ; "])
def test_users_may_be_separated_as_the_platform_allows(separator: str) -> None:
    assert set(parse(USERS.replace("\n", separator)).accounts) == {"vera", "otto", "olga"}


HASH = USERS.partition("\n")[0].rpartition(":viewer:")[2]
WRONG = {
    "no role": f"anna:{HASH}",
    "a role that does not exist": f"anna:admin:{HASH}",
    "a password that is not hashed": "anna:owner:a plain password",
    "a name twice": f"anna:owner:{HASH}\nanna:viewer:{HASH}",
    "nothing": "",
    "a name with markup": f"<b>:owner:{HASH}",
    "a proxy without a secret": "@proxy:X-User:short",
    "a user of a proxy that is not named": "anna:owner:@proxy",
}


@pytest.mark.parametrize("text", WRONG.values(), ids=WRONG)
def test_what_cannot_be_read_is_refused_without_being_shown(text: str) -> None:
    with pytest.raises(WrongSettings, match="CONSOLE_USERS") as caught:
        parse(text)
    assert "plain" not in str(caught.value)
    assert HASH not in str(caught.value)


def test_a_proxy_is_believed_only_with_its_secret() -> None:
    users = parse(f"{PROXIED} anna@example.com:operator:@proxy otto:operator:{HASH}")
    name, secret = {"X_Auth_Request_Email": "anna@example.com"}, {SECRET_HEADER.replace("-", "_"): SECRET.replace(" ", "-")}
    found = users.with_header(header(**name, **secret))
    assert found is not None
    assert found.name == "anna@example.com"
    assert users.with_header(header(**name)) is None
    assert users.with_header(header(**name, **{key: value + "x" for key, value in secret.items()})) is None
    assert users.with_header(header(X_Auth_Request_Email="otto", **secret)) is None, "somebody with a password logs in with it"
    assert users.with_password("anna@example.com", "@proxy") is None


def test_without_a_proxy_no_header_is_believed() -> None:
    assert parse(USERS).with_header(lambda _: "otto") is None


@pytest.mark.parametrize(
    "change", [lambda line: line.replace("operator", "viewer"), lambda _: f"otto:operator:{hashed('another password')}"]
)
def test_a_changed_role_or_password_ends_the_sessions_of_before(change) -> None:
    line = next(line for line in USERS.splitlines() if line.startswith("otto"))
    session = parse(line).accounts["otto"].get_id()
    assert parse(line).of_session(session) is not None
    assert parse(change(line)).of_session(session) is None
    assert parse(USERS).of_session("ghost 0123456789abcdef") is None


def test_the_command_prints_a_line_that_opens_the_console() -> None:
    done = CliRunner().invoke(command, ["anna", "owner", "--password-stdin"], input=f"{PASSWORD}\n")
    assert done.exit_code == 0, done.output
    account = parse(done.output).with_password("anna", PASSWORD)
    assert account is not None
    assert account.role is Role.OWNER


@pytest.mark.parametrize(("name", "password"), [("anna", "too short"), ("two words", PASSWORD)])
def test_the_command_refuses_what_would_not_work(name: str, password: str) -> None:
    done = CliRunner().invoke(command, [name, "owner", "--password-stdin"], input=f"{password}\n")
    assert done.exit_code == 2
    assert password not in done.output

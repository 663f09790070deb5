# ruff: noqa: BLE001, TRY301 - they are raised to be caught
"""Exceptions of every shape that quote what a caller said: a name, which no form betrays."""

from __future__ import annotations

from collections.abc import Callable

from bridge.errors import Permanent

NAME = " ".join(map(bytes.decode, (b"\x41da", b"\x45xample")))  # not as one word: Sentry gets the lines of the source around a raise


def _raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:
        return caught


def raised() -> BaseException:
    return _raised(ValueError(f"bad {NAME!r}"))


def never_raised() -> BaseException:
    return KeyError(NAME)


def with_an_apostrophe() -> BaseException:
    return _raised(ValueError(f"bad '{NAME[:3]} O'Neill {NAME}'"))


def of_many_lines() -> BaseException:
    return _raised(ValueError(f"bad\n\n  '{NAME}\n\n{NAME}'\n| \"{NAME}\""))


def with_notes() -> BaseException:
    error = ValueError(f"bad '{NAME}'")
    error.add_note(f"a note on '{NAME}'")
    return _raised(error)


def from_one_that_was_never_raised() -> BaseException:
    error = Permanent("no lead", cause="bug")
    error.__cause__ = KeyError(NAME)
    return _raised(error)


def from_none() -> BaseException:
    try:
        try:
            raise ValueError(f"'{NAME}'")
        except ValueError:
            raise LookupError(f"'{NAME}'") from None
    except LookupError as error:
        return error


def while_another_was_handled() -> BaseException:
    try:
        try:
            raise ValueError(f"'{NAME}'")
        except ValueError:
            raise Permanent("no lead", cause="bug")  # noqa: B904 - "during handling" is what is wanted
    except Permanent as error:
        return error


def in_a_circle() -> BaseException:
    one, other = ValueError(f"'{NAME}'"), KeyError(NAME)
    one.__cause__, other.__context__ = other, one
    return _raised(one)


def a_group() -> BaseException:
    inner = ExceptionGroup("inner", [raised(), of_many_lines(), while_another_was_handled()])
    return _raised(ExceptionGroup(f"several of '{NAME}'", [raised(), never_raised(), with_notes(), inner]))


def from_a_group() -> BaseException:
    try:
        raise Permanent("no lead", cause="bug") from a_group()
    except Permanent as error:
        return error


SHAPES: tuple[Callable[[], BaseException], ...] = (
    raised,
    never_raised,
    with_an_apostrophe,
    of_many_lines,
    with_notes,
    from_one_that_was_never_raised,
    from_none,
    while_another_was_handled,
    in_a_circle,
    a_group,
    from_a_group,
)

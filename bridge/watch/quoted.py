"""What an exception of somebody else's making quotes is left out of logs and alerts: it may be what a caller said.

`ValueError: invalid literal for int() with base 10: 'Ada Example'` has no form by which masking could know a name. Our own errors never
quote what the CRM or a caller wrote, so they stay as they are, and so do those that quote the program: names of types, attributes, files.

An exception at hand is written anew (`traceback_of`); only in a text that somebody else has made of one is it looked for
(`mask_traceback`). All of it is linear in the length of the text, also where the text is hostile.
"""

from __future__ import annotations

import re
import textwrap
import traceback
from collections.abc import Iterator
from types import TracebackType

HIDDEN = "***"
_OURS = ("bridge.", "handlers.")
_OF_THE_PROGRAM = frozenset(
    {
        *("AttributeError", "NameError", "UnboundLocalError", "TypeError", "ImportError", "ModuleNotFoundError", "SyntaxError"),
        *("OSError", "FileNotFoundError", "FileExistsError", "PermissionError", "IsADirectoryError", "NotADirectoryError"),
    }
)
# Not behind a letter, or the apostrophe of "can't" would open one; nor before a letter, or that of O'Neill would close it. One that nobody
# closes goes to the end. Nothing behind the star can fail, so there is no way back into it.
_QUOTED = re.compile(
    r"""(?xs)
    (?<!\w) (?P<open>[bru]?(?P<mark>["']))
    (?: [^"'\\]+ | \\. | (?!(?P=mark)(?!\w))["'] )*
    (?P<close>(?P=mark)?)
    """
)

# --- an exception at hand

_BECAUSE = "\nThe above exception was the direct cause of the following exception:\n\n"
_MEANWHILE = "\nDuring handling of the above exception, another exception occurred:\n\n"
_WIDEST, _DEEPEST = 15, 10  # of a group, as in the module traceback


def mask_quotes(kind: str, text: str) -> str:
    """The text of an exception; `kind` is its type, with the module unless that is `builtins`."""
    if kind.startswith(_OURS) or kind in _OF_THE_PROGRAM:
        return text
    return _QUOTED.sub(rf"\g<open>{HIDDEN}\g<close>", text)


def kind_of(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ in {"builtins", "__main__"} else f"{kind.__module__}.{kind.__qualname__}"


class Unquoted:
    """Stands for an exception where a text is made of it."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def __str__(self) -> str:
        return mask_quotes(kind_of(self._error), str(self._error))

    def __repr__(self) -> str:
        return mask_quotes(kind_of(self._error), repr(self._error))


def unquoted(value: object) -> object:
    """The value, or what stands for an exception; also for those in a list, such as what a gathering of results gives."""
    if isinstance(value, list | tuple):
        return [unquoted(item) for item in value] if any(isinstance(item, BaseException) for item in value) else value
    return Unquoted(value) if isinstance(value, BaseException) else value


def traceback_of(error: BaseException, trace: TracebackType | None = None) -> str:
    """What `traceback.format_exception` says, causes, groups and notes included, without the quotes."""
    return "".join(_told(error, set(), 0, trace)).rstrip("\n")


def _told(error: BaseException, seen: set[int], depth: int, trace: TracebackType | None = None) -> Iterator[str]:
    links: list[tuple[BaseException, str]] = []  # from the outermost inwards, each with what stands between it and the one before
    link, between = error, ""
    while id(link) not in seen:
        seen.add(id(link))
        links.append((link, between))
        inner = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
        if inner is None:
            break
        between = _BECAUSE if inner is link.__cause__ else _MEANWHILE
        link = inner
    for link, between in reversed(links):
        yield from _one(link, seen, depth, trace if link is error else None)
        yield between


def _one(error: BaseException, seen: set[int], depth: int, trace: TracebackType | None) -> Iterator[str]:
    frames = traceback.format_tb(error.__traceback__ or trace)
    yield from ["Traceback (most recent call last):\n", *frames] if frames else []
    yield mask_quotes(kind_of(error), "".join(traceback.format_exception_only(error)))
    if isinstance(error, BaseExceptionGroup) and depth < _DEEPEST:
        for number, part in enumerate(error.exceptions[:_WIDEST], 1):
            yield f"  +---------------- {number} ----------------\n"
            yield textwrap.indent("".join(_told(part, seen, depth + 1)), "  | ", lambda _line: True)
        yield f"  +---------------- of {len(error.exceptions)} ----------------\n"


# --- the text of one

_HEADING = "Traceback (most recent call last):"
_MARGIN = re.compile(r"(?: *\| )*")  # of a group
_KIND = re.compile(r"[ |]*(?P<kind>[A-Za-z_][\w.]*)")
_BETWEEN = re.compile(r"[ |]*(?:The above exception was the direct cause|During handling of the above exception|\+-[+-])")


def mask_traceback(text: str, *, is_one: bool = False) -> str:
    """A text with tracebacks in it, as the module `traceback` makes them: each exception in them without its quotes.

    Of one that was never raised there is no more than type and text: it is known by what follows from it, or where the whole text `is_one`.
    """
    known = is_one or _HEADING in text
    return "\n".join(_without_quotes(text.split("\n"), is_one=is_one)) if known else text


def _without_quotes(lines: list[str], *, is_one: bool) -> Iterator[str]:
    """Between a heading and an exception stand the frames, indented. An exception goes on until another one is announced, or the end."""
    held: list[str] = []
    is_said, is_next = is_one, False
    for line in lines:
        is_heading, is_between = line.endswith(_HEADING), bool(_BETWEEN.match(line))
        if is_heading or is_between:
            yield from _let_go(held, is_said=is_said or is_between)
            yield line
            held, is_said, is_next = [], is_between, is_heading
            continue
        if is_next and not _MARGIN.sub("", line, count=1).startswith((" ", "\t")):
            yield from held
            held, is_said, is_next = [], True, False
        held.append(line)
    yield from _let_go(held, is_said=is_said)


def _let_go(held: list[str], *, is_said: bool) -> Iterator[str]:
    """Frames and what stands around a traceback as they are; what an exception says without its quotes."""
    if not is_said:
        yield from held
    elif held:
        kind = next((found["kind"] for line in held if (found := _KIND.match(line))), "")
        yield mask_quotes(kind, "\n".join(held))

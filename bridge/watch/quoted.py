"""What an exception of somebody else's making quotes is left out of logs and alerts: it may be what a caller said. Pure.

`ValueError: invalid literal for int() with base 10: 'Ada Example'` has no form by which masking could know a name. Our own errors never
quote what the CRM or a caller wrote, so they stay as they are, and so do those that quote the program: names of types, attributes, files.
"""

from __future__ import annotations

import re

from bridge.watch.masking import HIDDEN

_OURS = ("bridge.", "handlers.")
_OF_THE_PROGRAM = frozenset(
    {
        *("AttributeError", "NameError", "UnboundLocalError", "TypeError", "ImportError", "ModuleNotFoundError", "SyntaxError"),
        *("OSError", "FileNotFoundError", "FileExistsError", "PermissionError", "IsADirectoryError", "NotADirectoryError"),
    }
)
# Not behind a letter, or the apostrophe of "can't" would open one. One that nobody closes goes to the end.
_QUOTED = re.compile(r"""(?<!\w)(?P<open>[bru]?(?P<mark>["']))(?:\\.|(?!(?P=mark)).)*""", re.DOTALL)
# The frames, each line indented; then the exception, whose text may have any number of lines, up to the next traceback.
_RAISED = re.compile(
    r"""(?x)
    (?P<frames>Traceback\ \(most\ recent\ call\ last\):\n (?:[\ \t][^\n]*\n)*)
    (?P<kind>[A-Za-z_][\w.]*)
    (?P<text>(?: (?!\n\n(?:The\ above|During\ handling)|\nTraceback\ ). )*)
    """,
    re.DOTALL,
)


def mask_quotes(kind: str, text: str) -> str:
    """The text of an exception; `kind` is its type, with the module unless that is `builtins`."""
    if kind.startswith(_OURS) or kind in _OF_THE_PROGRAM:
        return text
    return _QUOTED.sub(rf"\g<open>{HIDDEN}", text)


def mask_traceback(text: str) -> str:
    """A text with tracebacks in it, as the module `traceback` makes them: each exception in them without its quotes. Linear."""
    return _RAISED.sub(lambda found: f"{found['frames']}{found['kind']}{mask_quotes(found['kind'], found['text'])}", text)

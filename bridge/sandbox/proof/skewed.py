"""Run a Python program with a clock that is wrong: `python -m bridge.sandbox.proof.skewed <seconds> <program> <arguments> …`.

As on a machine whose clock nobody sets: the program and what it forks see `time.time` and `datetime.now` ahead by that many seconds (or
behind, with a minus). Servers beside it, Redis among them, are right. The product itself knows nothing of this.
"""

from __future__ import annotations

import datetime as dt
import runpy
import shutil
import sys
import time
from datetime import timedelta, tzinfo
from typing import Self

_true_time = time.time
_true_time_ns = time.time_ns
_TrueDatetime = dt.datetime


def main(arguments: list[str]) -> None:
    """Become the program. Raises FileNotFoundError where there is none."""
    seconds, program = float(arguments[0]), arguments[1]
    path = shutil.which(program)
    if path is None:
        raise FileNotFoundError(program)
    skew(seconds)
    sys.argv = [path, *arguments[2:]]
    sys.path.insert(0, "")  # as `python -m` would: the program is run from the project's folder
    runpy.run_path(path, run_name="__main__")


class _AsBefore(type):
    """Times that C code makes are of the true class, and are times all the same."""

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, _TrueDatetime)


def skew(seconds: float) -> None:
    """Set this process's clock wrong, for every module that is imported from now on."""
    ahead = timedelta(seconds=seconds)

    class Skewed(_TrueDatetime, metaclass=_AsBefore):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            return super().now(tz) + ahead

        @classmethod
        def utcnow(cls) -> Self:
            return super().now(dt.UTC).replace(tzinfo=None) + ahead

    time.time = lambda: _true_time() + seconds
    time.time_ns = lambda: _true_time_ns() + int(seconds * 1e9)
    dt.datetime = Skewed  # type: ignore[misc]  # - to replace it is the purpose


if __name__ == "__main__":
    main(sys.argv[1:])

"""Run a command on a leash: `python leash.py <pid> <command> …` ends when process <pid> ends, even if that one was killed.

It is run as a file, by a bare interpreter, so it imports nothing of the project. The command takes this process over: one process, and
its pid is the one that the starter knows.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time

_PR_SET_PDEATHSIG = 1  # https://man7.org/linux/man-pages/man2/PR_SET_PDEATHSIG.2const.html; it survives the exec below
_LOOK_EVERY_S = 0.5


def main(arguments: list[str]) -> None:
    """Become the command. Ends with 1 where the starter has already gone, and with 127 where there is no such command."""
    starter, command = int(arguments[0]), arguments[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    else:
        leave_guard(starter)
    if os.getppid() != starter:  # it died before the leash was on
        sys.exit(1)
    try:
        os.execvp(command[0], command)  # noqa: S606 - our own command, and no shell is wanted between it and its signals
    except OSError as fault:
        sys.stderr.write(
            f"{command[0]} cannot be started: {fault.strerror}. Install the requirements: pip install -r requirements-demo.txt\n"
        )
        sys.exit(127)


def leave_guard(starter: int) -> None:
    """Fork a small process that sends SIGTERM to this one when `starter` has gone, for systems that do not do it by themselves."""
    guarded = os.getpid()
    if os.fork():
        return
    while _is_there(starter) and _is_there(guarded):
        time.sleep(_LOOK_EVERY_S)
    with contextlib.suppress(ProcessLookupError):
        os.kill(guarded, signal.SIGTERM)
    os._exit(0)


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


if __name__ == "__main__":
    main(sys.argv[1:])

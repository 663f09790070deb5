"""Keep a handful of processes alive: start each, start it again when it ends, stop all of them on a signal, leave none behind.

RQ's worker ends, with 0 as well as with 1, when Redis goes away at the wrong moment; whoever runs it has to start it again.
One thread and no locks: this process forks for as long as it lives.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import redis

from bridge.watch import alerts
from bridge.work.worker import describe_end

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 10.0
GOOD_LIFE_S = 60.0  # a child that lived this long is started again after the first pause
STOP_WAIT_S = 25.0  # Heroku kills everything 30 s after SIGTERM; a running job is interrupted after 18

_PR_SET_PDEATHSIG = 1  # https://man7.org/linux/man-pages/man2/PR_SET_PDEATHSIG.2const.html
_STOP = (signal.SIGTERM, signal.SIGINT)
_WATCHED = (*_STOP, signal.SIGCHLD)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Child:
    """A process to keep alive: `target` runs in it, and it ends when `target` returns or raises."""

    name: str
    target: Callable[[], None]


@dataclass(slots=True)
class _Life:
    """Where one child stands. Times are on the monotonic clock."""

    child: Child
    pid: int | None = None
    started: float = 0.0
    due: float = 0.0  # when to start it, while it has no pid
    pause: float = 0.0  # before the latest start


def supervise(children: Sequence[Child]) -> int:
    """Keep `children` alive until SIGTERM or SIGINT comes, then stop them and return 0, the exit code.

    A child that ends is started again after 0.5 s, and after twice the time whenever it ends again, up to 10 s. To stop, each gets
    one SIGTERM and 25 s to end before SIGKILL. It may get a second SIGTERM from whoever stopped this process (Heroku signals every
    process of a dyno), so it must bear two. A child also gets SIGTERM when this process dies without a word, and a worker then still
    finishes its job: SIGKILL would take the guard from a running job and leave it running.

    To be called from the main thread of a process with no other threads; it reaps every child of this process.
    """
    lives = [_Life(child) for child in children]
    with _signals() as wakeup:
        while True:
            _start_due(lives)
            if _wait(wakeup, _until_due(lives)) & set(_STOP):
                break
            _bury(lives)
        return _stop(lives, wakeup)


def pause_after(pause: float, lived: float) -> float:
    """Seconds to wait before the next start, given those before the last one and how long the child then lived."""
    if not pause or lived >= GOOD_LIFE_S:
        return FIRST_PAUSE_S
    return min(LONGEST_PAUSE_S, pause * 2)


# Starting


def _start_due(lives: Sequence[_Life]) -> None:
    for life in lives:
        if life.pid is None and life.due <= time.monotonic():
            life.pid = _fork(life.child)
            life.started = time.monotonic()
            log.info("%s started (pid %s)", life.child.name, life.pid)


def _fork(child: Child) -> int:
    """Fork with the watched signals held back: the child must not answer one through the wakeup pipe that it shares for a moment."""
    parent = os.getpid()
    signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
    try:
        pid = os.fork()
        if pid == 0:
            _live(child, parent)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _WATCHED)
    return pid


def _live(child: Child, parent: int) -> None:
    """Run in the forked process, and end it: nothing of the supervisor's stack, and none of its exit handlers, may run in here."""
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        for number in _WATCHED:
            signal.signal(number, signal.SIG_DFL)
        _end_with(parent)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _WATCHED)
        child.target()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except redis.RedisError as error:  # the next start waits for Redis
        log.warning("%s ended, since Redis went away (%s)", child.name, type(error).__name__)
    except Exception:
        log.exception("%s ended with an error", child.name)
    finally:
        alerts.flush()  # what was logged last, by RQ too, would end with this process
        logging.shutdown()
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _end_with(parent: int) -> None:
    """See to it that this process gets SIGTERM when `parent` dies. Linux does that by itself; elsewhere a thread looks each second."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it died before the call
            os._exit(1)
    else:
        threading.Thread(target=_watch_parent, args=(parent,), name="parent-watch", daemon=True).start()


def _watch_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os.kill(os.getpid(), signal.SIGTERM)


# Watching


@contextlib.contextmanager
def _signals() -> Iterator[int]:
    """Turn the watched signals into bytes on a pipe, so that none is missed between two looks; yields the end to read from."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    old_wakeup = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    old_handlers = {number: signal.signal(number, lambda *_: None) for number in _WATCHED}
    try:
        yield reader
    finally:
        signal.set_wakeup_fd(old_wakeup)
        for number, handler in old_handlers.items():
            signal.signal(number, handler)
        os.close(reader)
        os.close(writer)


def _wait(wakeup: int, timeout: float | None) -> set[int]:
    """The signals that came, after at most `timeout` seconds."""
    if not select.select([wakeup], [], [], timeout)[0]:
        return set()
    return set(os.read(wakeup, 4096))


def _until_due(lives: Sequence[_Life]) -> float | None:
    """Seconds until the next start, or None where every child runs."""
    waits = [life.due - time.monotonic() for life in lives if life.pid is None]
    return max(0.0, min(waits)) if waits else None


def _bury(lives: Sequence[_Life]) -> None:
    """Reap every process that has ended, and plan the next start of those that are ours."""
    for pid, status in _dead():
        life = next((life for life in lives if life.pid == pid), None)
        if life is None:  # the first process of a container inherits orphans
            continue
        lived = time.monotonic() - life.started
        life.pid, life.pause = None, pause_after(life.pause, lived)
        life.due = time.monotonic() + life.pause
        log.warning("%s ended after %.0f s (%s); next start in %.1f s", life.child.name, lived, describe_end(status), life.pause)


def _dead() -> Iterator[tuple[int, int]]:
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            yield pid, status


# Stopping


def _stop(lives: Sequence[_Life], wakeup: int) -> int:
    """Pass the signal on once, wait, and kill what is left."""
    _note_ends(lives)
    running = [life for life in lives if life.pid is not None]
    log.info("stopping: %s", ", ".join(life.child.name for life in running) or "nothing runs")
    _send(running, signal.SIGTERM)
    deadline = time.monotonic() + STOP_WAIT_S
    while any(life.pid for life in running) and (left := deadline - time.monotonic()) > 0:
        _wait(wakeup, left)
        _note_ends(running)
    overdue = [life for life in running if life.pid is not None]
    for life in overdue:
        log.warning("%s did not stop within %.0f s and is killed", life.child.name, STOP_WAIT_S)
    _send(overdue, signal.SIGKILL)
    for life in overdue:
        if life.pid is not None:
            os.waitpid(life.pid, 0)
    return 0


def _send(lives: Sequence[_Life], number: signal.Signals) -> None:
    for life in lives:
        if life.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(life.pid, number)


def _note_ends(lives: Sequence[_Life]) -> None:
    for pid, status in _dead():
        for life in lives:
            if life.pid == pid:
                life.pid = None
                log.info("%s stopped (%s)", life.child.name, describe_end(status))

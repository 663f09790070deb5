"""Real processes of a deployment: started on a leash, logged to files, stopped, killed and frozen together with all that they forked."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

LEASH = Path(__file__).with_name("leash.py")
_LOOK_EVERY_S = 0.02
_GONE_WITHIN_S = 5.0

# Below the ports that systems give to outgoing connections (32768 and up on Linux, 49152 on macOS): a client that keeps trying a dead
# server's port up there can be given that very port, connect to itself, and keep the server from ever starting again.
_PORTS = range(20_000, 32_000)


@dataclass(frozen=True, slots=True)
class Sighting:
    """One process as the system shows it. `born` tells it from a later one with the same pid."""

    pid: int
    parent: int
    born: str


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on. Raises OSError when there is none."""
    for port in random.SystemRandom().sample(_PORTS, 200):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return port
    raise OSError(f"No free port on 127.0.0.1 between {_PORTS.start} and {_PORTS.stop}.")


def tree(pid: int) -> list[Sighting]:
    """A living process and everything below it, parents first; empty where it has gone."""
    table = _table()
    found = [table[pid]] if pid in table else []
    for one in found:  # grows while it is walked
        found += [child for child in table.values() if child.parent == one.pid]
    return found


def alive(sightings: Iterable[Sighting]) -> list[Sighting]:
    """Those that still run."""
    table = _table()
    return [one for one in sightings if one.pid in table and table[one.pid].born == one.born]


def kill_tree(pid: int) -> None:
    """SIGKILL to a process and everything below it, as when a machine is lost; none of them runs when this returns.

    All are frozen first: a supervisor that outlives its child for a moment would start another one.
    """
    frozen: list[Sighting] = []
    while fresh := [one for one in tree(pid) if one not in frozen]:
        _send(fresh, signal.SIGSTOP)
        frozen += fresh
    _send(frozen, signal.SIGKILL)
    await_gone(frozen)


def await_gone(sightings: Iterable[Sighting], within_s: float = _GONE_WITHIN_S) -> list[Sighting]:
    """Return as soon as none of them runs, or with those that still do."""
    left, deadline = alive(sightings), time.monotonic() + within_s
    while left and time.monotonic() < deadline:
        time.sleep(_LOOK_EVERY_S)
        left = alive(left)
    return left


@dataclass
class Process:
    """One program of a deployment, which may be started again and again. What it says is appended to `log`."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    folder: Path  # where it runs
    log: Path
    _popen: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    _left: list[Sighting] = field(default_factory=list, repr=False)  # what a killed head may have left behind

    @property
    def is_running(self) -> bool:
        return self._popen is not None and self._popen.poll() is None

    @property
    def pid(self) -> int:
        """Of the program itself. Raises RuntimeError where it does not run."""
        if self._popen is None or not self.is_running:
            raise RuntimeError(f"{self.name} does not run; its log is {self.log}")
        return self._popen.pid

    def start(self) -> None:
        """Start it; to be called from a thread that lives as long as the process may, since Linux ties the leash to that thread.

        A session of its own: Ctrl-C in a terminal reaches the starter alone, which then stops everything in order.
        """
        if self.is_running:
            return
        self.log.parent.mkdir(parents=True, exist_ok=True)
        leashed = [sys.executable, "-S", str(LEASH), str(os.getpid()), *self.command]
        with self.log.open("ab") as log:
            self._popen = subprocess.Popen(  # noqa: S603 - our own commands
                leashed, cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def family(self) -> list[Sighting]:
        """It and every process below it, itself first; empty where it does not run."""
        return tree(self._popen.pid) if self._popen is not None and self.is_running else []

    def send(self, number: signal.Signals) -> None:
        """A signal to it and everything below it."""
        _send(self.family(), number)

    def ask_to_stop(self) -> None:
        """SIGTERM to the program alone, as a platform does."""
        if self._popen is not None and self.is_running:
            self._left += self.family()
            self._popen.terminate()  # which, unlike os.kill, bears that it has ended since

    def stop(self, wait_s: float) -> None:
        """Ask it to stop, wait, and kill what is left after `wait_s` seconds. Nothing of it runs afterwards."""
        self.ask_to_stop()
        if self._popen is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._popen.wait(wait_s)
        self.kill()
        self._bury()

    def kill(self, *, alone: bool = False) -> None:
        """SIGKILL to it and everything below it, which is gone then; with `alone`, to the program only: its children have to notice."""
        if self._popen is None or not self.is_running:
            return
        self._left += self.family()
        if alone:
            self._popen.kill()
        else:
            kill_tree(self._popen.pid)
        self._popen.wait()

    def _bury(self) -> None:
        """End what the program left behind: it is asked first, since it may have work to hand back."""
        left = alive(self._left)
        _send(left, signal.SIGTERM)
        _send(await_gone(left), signal.SIGKILL)
        self._left.clear()


def _send(sightings: Iterable[Sighting], number: signal.Signals) -> None:
    for one in sightings:
        with contextlib.suppress(ProcessLookupError):
            os.kill(one.pid, number)


def _table() -> dict[int, Sighting]:
    """Every process that runs; zombies do not."""
    rows = _from_proc() if Path("/proc/self/stat").exists() else _from_ps()
    return {one.pid: one for one in rows}


def _from_proc() -> list[Sighting]:
    """Fields as in https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html: the second, in brackets, may hold anything."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):  # it has ended since
                state, parent, *rest = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
                if state not in "ZX":
                    found.append(Sighting(int(folder.name), int(parent), rest[17]))
    return found


def _from_ps() -> list[Sighting]:
    shown = subprocess.run(["/bin/ps", "-A", "-o", "pid=,ppid=,stat=,lstart="], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 3) for line in shown.splitlines()]
    return [Sighting(int(pid), int(parent), born) for pid, parent, state, born in rows if not state.startswith("Z")]

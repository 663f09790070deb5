"""`bin/demo`: the whole bridge on this machine, and calls of every kind. `bin/demo --check`: the same unattended, one JSON line, 0 or 1.

It is started as `python -m bridge.commands.demo` and no command of the app: it makes the environment that the app needs.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import random
import shlex
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType

from werkzeug.security import generate_password_hash

from bridge.commands.screen import Screen
from bridge.sandbox import story
from bridge.sandbox.deployment import ROOT, Deployment
from bridge.sandbox.story import Played, Scene, Story

HOME = ROOT / "var" / "demo"
_ENDS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
HEARD_WITHIN_S = 0.5
CHECK_SEED = 1  # the same callers each time, so that a failure can be repeated

# Short pauses: who watches should not have to wait for the CRM's index, and the stand-in's does not lag.
DEMO_USER, DEMO_PASSWORD = "demo", "demo"
SETTINGS = {
    "CONSOLE_USERS": f"{DEMO_USER}:owner:{generate_password_hash(DEMO_PASSWORD)}",
    "BRIDGE_OWNER": "front desk",
    "SETTLE_SCHEDULE_S": "0.5,1,2",
    "RETRY_BASE_S": "0.5",
}


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit code: 0 where every call ended as it has to."""
    options = _parser().parse_args(arguments)
    # requests would look for a proxy, and on this machine none finds our servers.
    os.environ["NO_PROXY"] = ",".join(filter(None, [os.environ.get("NO_PROXY"), "127.0.0.1"]))
    for number in _ENDS:
        signal.signal(number, _stop_once)
    try:
        return check() if options.check else show(options.data)
    except KeyboardInterrupt:
        return 130  # a check that was broken off; the shells' number for it
    except RuntimeError as fault:  # a part did not start: the message holds the logs
        sys.stderr.write(f"{fault}\n")
        if options.check:
            _say({"ok": False, "failed": [str(fault).splitlines()[0]]})
        return 1


def check(scenes: Sequence[Scene] = story.SCENES) -> int:
    """Play the story in a temporary folder, end everything, print one JSON line. Where something is wrong, the logs' ends are on stderr."""
    begun, screen = time.monotonic(), Screen(sys.stderr)
    with tempfile.TemporaryDirectory(prefix="callbridge-") as folder:
        deployment = Deployment(Path(folder), environment=SETTINGS)
        with deployment, _hearing_signals():
            screen.started(deployment, time.monotonic() - begun)
            rng = random.Random(CHECK_SEED)  # noqa: S311 - it makes up callers, no secrets
            played, figures, failed = _play(Story(deployment, rng), scenes, screen)
            if failed:
                sys.stderr.write(deployment.tails() + "\n")
    screen.ended(figures, failed)
    seconds = round(time.monotonic() - begun, 1)
    _say({"ok": not failed, **story.as_json(figures), "scenes": len(played), "seconds": seconds, **({"failed": failed} if failed else {})})
    return 1 if failed else 0


def show(folder: Path) -> int:
    """Play the story where the data of earlier runs are, and stay up until a signal comes."""
    begun, screen = time.monotonic(), Screen(sys.stdout)
    with _alone_in(folder), contextlib.suppress(KeyboardInterrupt):
        deployment = Deployment(folder, environment=SETTINGS)
        try:
            with deployment, _hearing_signals():
                _write_environment(folder / "environment", deployment)
                screen.started(deployment, time.monotonic() - begun)
                screen.found(sum(1 for _ in deployment.bridge.calls()), deployment.ghl.counts())
                _, figures, failed = _play(Story(deployment, random.SystemRandom()), story.SCENES, screen)
                screen.ended(figures, failed)
                screen.stays(deployment, folder / "environment")
                while True:
                    signal.pause()
        finally:
            screen.stopped(folder)
    return 0


def _play(told: Story, scenes: Sequence[Scene], screen: Screen) -> tuple[list[Played], story.Figures, tuple[str, ...]]:
    played: list[Played] = []
    for number, one in enumerate(told.play(scenes), 1):
        played.append(one)
        screen.scene(number, one)
    figures = told.figures(played)
    return played, figures, story.judge(played, figures)


def _stop_once(_number: int, _frame: FrameType | None) -> None:
    """End by an exception, so that everything is stopped in order; a second signal must not break into that.

    Python drops what is raised while it runs a finalizer, and the demo would stay up for ever: so it is raised again until it is heard.
    """
    for number in _ENDS:
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, _stop_once)
    signal.setitimer(signal.ITIMER_REAL, HEARD_WITHIN_S)
    raise KeyboardInterrupt


@contextlib.contextmanager
def _hearing_signals() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        signal.setitimer(signal.ITIMER_REAL, 0)
        raise


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Keep a second demo out of the folder: two Redis servers would write the same file. Raises RuntimeError."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise RuntimeError(f"Another demo runs in {folder}. Stop it, or give this one its own folder: bin/demo --data FOLDER") from None
        yield


def _write_environment(file: Path, deployment: Deployment) -> None:
    """The settings of the running bridge for a shell, readable by their owner alone: there are secrets in them."""
    lines = [f"{name}={shlex.quote(value)}\n" for name, value in sorted(deployment.settings.items())]
    file.unlink(missing_ok=True)
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as opened:
        opened.writelines(lines)


def _say(line: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bin/demo", description="The whole bridge on this machine, and calls of every kind.")
    parser.add_argument("--check", action="store_true", help="unattended, in a temporary folder: one JSON line, exit code 0 or 1")
    parser.add_argument("--data", type=Path, default=HOME, metavar="FOLDER", help="where data and logs are kept (default: var/demo)")
    return parser


if __name__ == "__main__":
    sys.exit(main())

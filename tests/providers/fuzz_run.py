"""One run of the fuzzing program: adapters and app with the secrets of the vectors, what was found, and the report at its end."""

from __future__ import annotations

import collections
import hashlib
import logging
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from app import create_app
from bridge.providers import registry
from bridge.sandbox.redis_server import RedisServer
from tests.providers.fuzz_checks import Judge
from tests.providers.fuzz_inputs import ORDER, attempt, environment
from tests.providers.support import settings

KEPT = 3  # files for each kind of finding


class Run:
    """Ends by itself, and with it the process, `seconds` after it was made."""

    def __init__(self, findings: Path, *, seconds: float) -> None:
        self.redis = RedisServer(Path(tempfile.mkdtemp(prefix="cb"))).start()
        told = {"REDIS_URL": self.redis.url, "SPOOL_PATH": str(self.redis.folder / "spool.sqlite3")}
        strangers = registry.build(settings(**environment(strange=True)))
        self.judge = Judge(registry.build(settings(**environment())), strangers, create_app(settings(**environment() | told)))
        logging.disable()  # what an adapter raises is a finding, told below
        self.findings = findings
        self.found: collections.Counter[str] = collections.Counter()
        self.requests = 0
        self.begun = time.monotonic()
        self.until = self.begun + seconds

    def one(self, data: bytes) -> None:
        """What atheris calls. One finding does not end the run."""
        if time.monotonic() > self.until:
            self.end()
        self.requests += 1
        try:
            faults = self.judge.judge(attempt(data, time.time()))
        except Exception as error:  # noqa: BLE001 - a fault of this program shall not cost the report of a whole run
            faults = [f"this program: {type(error).__name__}: {error}"]
        for fault in faults:
            self.found[fault] += 1
            if self.found[fault] <= KEPT:
                self._keep(fault, data)

    def _keep(self, fault: str, data: bytes) -> None:
        self.findings.mkdir(parents=True, exist_ok=True)
        file = self.findings / f"{hashlib.sha256(fault.encode()).hexdigest()[:12]}-{self.found[fault]}"
        file.write_bytes(data)
        say(f"FOUND {fault}: --replay {file}")

    def end(self) -> None:
        """Tell, tidy up and leave: a fuzzer of libFuzzer's kind has no other way out."""
        spent = time.monotonic() - self.begun
        say(f"{self.requests} requests in {spent:.0f} s")
        say("; ".join(f"{what}: {times}" for what, times in sorted(self.judge.counts.items())))
        say("slowest, ms of CPU: " + "; ".join(f"{took * 1000:.1f} ({what})" for took, what in self.judge.slowest))
        say("\n".join(f"{times} times: {fault}" for fault, times in self.found.items()) or "nothing found")
        self.redis.stop()
        shutil.rmtree(self.redis.folder, ignore_errors=True)
        os._exit(1 if self.found else 0)


def replay(files: Iterable[Path]) -> int:
    """Judge files of findings once more. 1 where one of them is still a finding."""
    run = Run(Path(), seconds=0)
    try:
        faults = {file: run.judge.judge(attempt(file.read_bytes(), time.time())) for file in files}
    finally:
        run.redis.stop()
        shutil.rmtree(run.redis.folder, ignore_errors=True)
    for file, found in faults.items():
        say(f"{file}: {'; '.join(found) or 'all is well'}")
    return 1 if any(faults.values()) else 0


def seeds(folder: Path) -> None:
    """Something to begin with: each way to make a request, for each phone system."""
    for how in range(8):
        for provider in range(len(ORDER)):
            for number in range(4):
                through_app = 255 if number == 3 else 0
                decisions = bytes((how, provider, through_app)) + bytes((number + step * (7 + number)) % 256 for step in range(40))
                (folder / f"{how}-{provider}-{number}").write_bytes(decisions)


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()

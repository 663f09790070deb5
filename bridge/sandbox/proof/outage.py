"""How long after an outage of the whole bridge every call that it missed is a lead: `python -m bridge.sandbox.proof.outage`.

Webs and workers are away while calls ring; the phone system lists them, and nobody announces them a second time. Then everything starts
again, with production's own times and the CRM's own limits, and live calls go on coming in beside the backfill.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from bridge.sandbox.call_list_types import SandboxCall
from bridge.sandbox.call_lists import CallLists
from bridge.sandbox.deployment import ROOT, Deployment
from bridge.sandbox.phone import PhoneCall, TwilioPhone, new_call, send
from bridge.sandbox.proof import drill

GOAL_S = 600.0
LIVE_EVERY_S = 3.0
DIALLED = "+15550109999"
_LOOK_EVERY_S = 0.5
_PATIENCE_S = 1800.0
_TURN = "cb:backfill:turn"  # an outage of half an hour outlives it; here the outage is in the calls' times alone


@dataclass(frozen=True, slots=True)
class Outage:
    """What was measured. Times in seconds."""

    calls: int
    minutes_away: float
    all_leads_s: float | None  # from the start of the webs and workers until the last missed call was done; None: not in time
    half_leads_s: float | None
    lost: int
    duplicate_contacts: int
    duplicate_notes: int
    live_calls: int
    live_slowest_s: float  # from a live call's webhook to its lead, beside the backfill
    redis_emptied: bool

    @property
    def ok(self) -> bool:
        is_in_time = self.all_leads_s is not None and self.all_leads_s <= GOAL_S
        return is_in_time and not (self.lost or self.duplicate_contacts or self.duplicate_notes)


def run(folder: Path, calls: int, minutes: float, *, empty_redis: bool = False, seed: int = 1) -> Outage:
    """`empty_redis`: the ledger is lost as well, and comes back by `flask backfill --since`. Raises RuntimeError where a part fails."""
    rng = random.Random(seed)
    with CallLists() as lists:
        environment = {"TWILIO_ACCOUNT_SID": "AC00000000000000000000000000000001", "BACKFILL_BASE_URLS": lists.base_urls}
        with Deployment(folder, web=1, workers=2, environment=environment) as deployment:
            before = [_ring(deployment, lists, rng, number) for number in range(10)]
            deployment.await_true(lambda: _done(deployment, before) == len(before), "the calls before the outage are leads", 120)
            _stop_bridge(deployment)
            missed = _missed(rng, calls, minutes)
            lists.add("twilio", *missed)
            _prepare(deployment, empty_redis=empty_redis)
            begun = time.monotonic()
            _start_bridge(deployment)
            if empty_redis:
                _backfill(deployment, minutes)
            return _measure(deployment, lists, rng, [f"twilio-{call.id}" for call in missed], begun, minutes, empty_redis=empty_redis)


def _measure(
    deployment: Deployment, lists: CallLists, rng: random.Random, missed: Sequence[str], begun: float, minutes: float, *, empty_redis: bool
) -> Outage:
    live: dict[str, float] = {}
    live_took: dict[str, float] = {}
    half = whole = None
    next_ring = time.monotonic()
    while time.monotonic() - begun < _PATIENCE_S and (whole is None or len(live_took) < len(live)):
        now = time.monotonic()
        if whole is None and now >= next_ring:
            next_ring = now + LIVE_EVERY_S
            live[_ring(deployment, lists, rng, 1000 + len(live))] = now
        states = {call["call_key"]: call["state"] for call in deployment.bridge.calls()}
        now = time.monotonic()
        live_took |= {key: now - rang for key, rang in live.items() if key not in live_took and states.get(key) == "done"}
        done = sum(states.get(key) == "done" for key in missed)
        half = half or (now - begun if done * 2 >= len(missed) else None)
        whole = whole or (now - begun if done == len(missed) else None)
        time.sleep(_LOOK_EVERY_S)
    found = {call["call_key"] for call in deployment.bridge.calls() if call["contact_id"]}
    contacts = Counter(contact["fields"].get("phone") for contact in deployment.ghl.contacts() if contact["alive"])
    notes = Counter(_key(note["body"]) for note in deployment.ghl.notes("twilio-") if not note["deleted"])
    return Outage(
        calls=len(missed),
        minutes_away=minutes,
        all_leads_s=whole,
        half_leads_s=half,
        lost=len(set(missed) - found),
        duplicate_contacts=sum(times - 1 for times in contacts.values()),
        duplicate_notes=sum(times - 1 for times in notes.values()),
        live_calls=len(live),
        live_slowest_s=max(live_took.values(), default=0.0),
        redis_emptied=empty_redis,
    )


def _ring(deployment: Deployment, lists: CallLists, rng: random.Random, number: int) -> str:
    """A call whose webhook arrives, and that is listed as well. Returns its key."""
    line = TwilioPhone(deployment.url, deployment.settings["TWILIO_AUTH_TOKEN"], rng)
    call = new_call(rng, caller=_caller(number), dialled=DIALLED, started=time.time())
    send(line.status(call, "completed", after_s=2)).raise_for_status()
    lists.add("twilio", _listed(call))
    return f"twilio-{call.sid}"


def _missed(rng: random.Random, calls: int, minutes: float) -> list[SandboxCall]:
    """Spread over the outage up to its last second; each tenth caller rings twice."""
    now = time.time()
    started = [now - minutes * 60 * (1 - number / calls) for number in range(calls)]
    callers = [_caller(100_000 + number - (number % 10 == 9)) for number in range(calls)]
    return [_listed(new_call(rng, caller=caller, dialled=DIALLED, started=at)) for caller, at in zip(callers, started, strict=True)]


def _caller(number: int) -> str:
    return f"+1555{number:07d}"


def _listed(call: PhoneCall) -> SandboxCall:
    return SandboxCall(call.sid, call.caller, call.dialled, call.started, duration_s=2)


def _stop_bridge(deployment: Deployment) -> None:
    for name in deployment.names:
        if name.startswith(("web", "worker")):
            deployment.kill(name)


def _prepare(deployment: Deployment, *, empty_redis: bool) -> None:
    if empty_redis:
        drill.empty_redis(deployment)
    with deployment.connection() as connection:
        connection.delete(_TURN)


def _start_bridge(deployment: Deployment) -> None:
    for name in deployment.names:
        if name.startswith(("web", "worker")):
            deployment.start_part(name)
    deployment.await_ready()


def _backfill(deployment: Deployment, minutes: float) -> None:
    """As an operator starts it after the ledger was lost. Raises RuntimeError."""
    since = f"{minutes + 10:.0f}m"
    command = [sys.executable, "-m", "flask", "--app", "app", "backfill", "--since", since, "--json"]
    done = subprocess.run(command, cwd=ROOT, env=deployment.environment, capture_output=True, text=True, check=False)  # noqa: S603 - our own
    if done.returncode:
        raise RuntimeError(f"backfill ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")


def _done(deployment: Deployment, keys: Sequence[str]) -> int:
    found = [deployment.bridge.call(key) for key in keys]
    return sum(call is not None and call["state"] == "done" for call in found)


def _key(body: str) -> str:
    return next((word.strip(".,()") for word in body.split() if word.startswith("twilio-")), body)


def main(arguments: list[str] | None = None) -> int:
    """Prints what was measured as JSON; ends 0 where every call is a lead within the goal, once."""
    parser = argparse.ArgumentParser(prog="python -m bridge.sandbox.proof.outage", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=30.0, help="how long the bridge was away")
    parser.add_argument("--empty-redis", action="store_true", help="the ledger is lost as well")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="outage-") as folder:
        outage = run(Path(folder), options.calls, options.minutes, empty_redis=options.empty_redis)
    sys.stdout.write(json.dumps(asdict(outage) | {"ok": outage.ok}) + "\n")
    return 0 if outage.ok else 1


if __name__ == "__main__":
    sys.exit(main())

"""The stand-in as its own process: `python -m bridge.sandbox.ghl --port 8090`. SIGTERM and SIGINT end it in good order."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from pathlib import Path

from bridge.sandbox.ghl.standin import GhlStandIn
from bridge.sandbox.ghl.world import World


def main(arguments: list[str] | None = None) -> int:
    """Run until a signal comes. Prints one line with the URL as soon as it listens. Returns 1 with a hint where it cannot start."""
    options = _parser().parse_args(arguments)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        stand_in = GhlStandIn(port=options.port, state_file=options.state, location_id=options.location, token=options.token).start()
    except (OSError, ValueError) as fault:
        sys.stderr.write(
            f"The GoHighLevel stand-in cannot start on port {options.port}: {fault}. Try another --port, --state or --location.\n"
        )
        return 1
    sys.stdout.write(f"GoHighLevel stand-in listens on {stand_in.url} (location {options.location})\n")
    sys.stdout.flush()
    stop.wait()
    stand_in.stop()
    return 0


def _parser() -> argparse.ArgumentParser:
    world = World()
    parser = argparse.ArgumentParser(prog="python -m bridge.sandbox.ghl", description="A GoHighLevel that misbehaves on request.")
    parser.add_argument("--port", type=int, default=0, help="on 127.0.0.1; 0 takes any free one")
    parser.add_argument("--location", default=world.location_id, help="what GHL_LOCATION_ID has to say")
    parser.add_argument("--token", default=world.token, help="what GHL_TOKEN has to say")
    parser.add_argument("--state", type=Path, help="a JSON file that keeps contacts and notes across restarts")
    return parser


if __name__ == "__main__":
    sys.exit(main())

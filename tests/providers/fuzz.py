"""Fuzzing by hand: `python -m tests.providers.fuzz --minutes 15`. No test, and pytest does not collect it.

Sends whatever atheris thinks of to all adapters, and a share of it through the whole app with a Redis of its own. What has to be true of
each request stands in fuzz_checks.py. Ends 0 when nothing was found; each finding is a file, which `--replay` judges again.
atheris is on no requirements page, since nothing else needs it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

HOW_TO_INSTALL = "atheris is not installed. It is for this program alone: .venv/bin/python -m pip install atheris, then start it again.\n"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.providers.fuzz", description="Fuzz the adapters and the webhook room.")
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--seed", type=int, default=0, help="of the random generator; 0 takes another one each time")
    parser.add_argument("--findings", type=Path, default=Path("var/fuzz"), help="the folder for what is found")
    parser.add_argument("--replay", type=Path, nargs="+", metavar="FILE", help="judge findings once more, without atheris")
    options = parser.parse_args(arguments)
    if options.replay:
        from tests.providers.fuzz_run import replay

        return replay(options.replay)
    try:
        import atheris
    except ImportError:
        sys.stderr.write(HOW_TO_INSTALL)
        return 2
    # What is imported here counts as covered or not. The rooms behind the adapters are left out: their many branches would draw all
    # requests through the app, which is slower by far.
    with atheris.instrument_imports(include=["bridge.providers", "bridge.numbers", "bridge.call"]):
        from tests.providers.fuzz_run import Run, seeds
    run = Run(options.findings, seconds=options.minutes * 60)
    with tempfile.TemporaryDirectory() as corpus:
        seeds(Path(corpus))
        # No length above 8 kB: longer bodies are made by fuzz_inputs.inflated, and cost the generator nothing.
        atheris.Setup([sys.argv[0], corpus, "-max_len=8192", "-verbosity=0", f"-seed={options.seed}", "-timeout=60"], run.one)
        atheris.Fuzz()
    return 0  # not reached: the run ends itself


if __name__ == "__main__":
    sys.exit(main())

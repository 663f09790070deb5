"""The environment of this process, read once for all that start here: web, worker, commands, and gunicorn before them."""

from __future__ import annotations

import os
import sys

from bridge.console import users
from bridge.errors import WrongSettings
from bridge.providers import registry
from bridge.settings import Settings, load

# What gunicorn ends for; after any other status it would start workers for ever (gunicorn/arbiter.py, WORKER_BOOT_ERROR).
EXIT = 3


def read() -> Settings:
    """The settings. Ends the process with every fault of them on one page: of ours, of each phone system's, and of the console's users."""
    try:
        return load(os.environ, registry.SETTINGS, (registry.check, users.check))
    except WrongSettings as wrong:
        # Whoever sets the environment wants to read what is wrong with it, not where in our code that was noticed.
        sys.stderr.write(f"{wrong}\ndocs/settings.md explains each of them.\n")
        raise SystemExit(EXIT) from None

"""How requests are made up for the adapters."""

from __future__ import annotations

from hypothesis import settings

# No deadline: hypothesis takes the clock on the wall, so on a busy machine it fails a test of something else. What time a request may
# cost is a claim of its own, in CPU time (test_costs.py).
settings.register_profile("adapters", deadline=None)
settings.load_profile("adapters")

"""A GoHighLevel that misbehaves on request (docs/sandbox.md): for the demo, the tests and the proof. Never in production."""

from bridge.sandbox.ghl.faults import KINDS, Effect, Fault, Spoil, Then
from bridge.sandbox.ghl.standin import GhlStandIn
from bridge.sandbox.ghl.truth import Served, Truth
from bridge.sandbox.ghl.world import OwnCheck, TokenState, World

__all__ = ["KINDS", "Effect", "Fault", "GhlStandIn", "OwnCheck", "Served", "Spoil", "Then", "TokenState", "Truth", "World"]

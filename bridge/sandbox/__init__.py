"""A world to try the bridge in: an embedded Redis, a GoHighLevel and a phone company that misbehave on request. Never in production."""

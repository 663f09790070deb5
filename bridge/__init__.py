"""How a call becomes a lead safely. The rooms stand in the order in which a call passes them; docs/road-of-a-call.md walks it."""

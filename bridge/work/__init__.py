"""Work: how calls reach RQ, how workers run them, and how the worker processes are kept alive."""

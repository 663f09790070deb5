"""What people and programs see of the ledger, and what they may do to it."""

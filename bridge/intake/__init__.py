"""The way in: webhooks are received, kept, and brought back after an outage."""

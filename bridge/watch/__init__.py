"""What leaves the process for people to read: log lines and alerts, both masked at the one place through which they leave."""

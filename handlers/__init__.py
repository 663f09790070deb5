"""What is done for a call, in business words. How it is done safely stands in bridge/."""

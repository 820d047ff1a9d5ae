"""From messages to counts, estimates, shares and strings."""

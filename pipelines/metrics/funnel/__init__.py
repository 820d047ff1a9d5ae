"""How many users reach each of several steps: noisy counters of the furthest of each user."""

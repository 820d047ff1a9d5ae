"""How many users are active, since when, and who stays: noisy counters of a bitmap of days."""

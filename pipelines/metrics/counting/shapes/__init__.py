"""How totals travel in noisy counters, a file for each shape of them; used by noise alone."""

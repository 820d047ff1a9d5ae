"""The distribution of a column of numbers: shares of bins, its quantiles and its mean."""

LEAST_BINS, MOST_BINS = 2, 1024
MOST_COUNTED = 100_000
"""Bins over which a tree of counters stands, whose errors hardly grow with them."""

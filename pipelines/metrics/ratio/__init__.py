"""Ratios of sums, and rates: what is asked."""

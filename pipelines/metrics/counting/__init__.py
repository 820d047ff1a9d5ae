"""Counts and sums over noisy counters: how many, and how much, whoever takes part."""

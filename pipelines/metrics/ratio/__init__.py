"""The ratio of two sums."""

"""Variances and standard deviations of numbers: what is asked."""

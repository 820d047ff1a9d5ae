"""Mechanisms whose estimate is the mean of numbers in [-1, 1]."""

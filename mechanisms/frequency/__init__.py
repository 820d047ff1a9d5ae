"""Mechanisms whose estimate is the frequency of each value of a declared domain."""

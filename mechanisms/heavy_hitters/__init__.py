"""Frequent strings that nobody declared: a tree of prefixes, searched after the reports are in."""

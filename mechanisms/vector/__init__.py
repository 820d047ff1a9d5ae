"""Means of vectors, from one report a user."""

"""A static site over releases: every day side by side."""

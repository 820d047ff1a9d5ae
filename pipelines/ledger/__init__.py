"""The privacy budget spent so far, and the right to spend more of it."""

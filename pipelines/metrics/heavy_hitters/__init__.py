"""Heavy hitters: frequent strings that nobody declared."""

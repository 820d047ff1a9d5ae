"""A release as a folder: written once, read back, and believed only as far as a stranger may be."""

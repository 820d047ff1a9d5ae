"""Which mechanism, with which parameters, meets a privacy target with the least error."""

AUTO = "auto"
"""In the place of a mechanism's name: the one with the least predicted error."""

"""Metrics as steps of a Beam YAML pipeline."""

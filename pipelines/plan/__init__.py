"""The plan: what is collected, from whom, at what privacy, as one reviewed file."""

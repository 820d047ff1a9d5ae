"""Floor 1, Apache Beam: the road of one value, from telemetry rows to counts."""

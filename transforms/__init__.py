"""Floor 1, Apache Beam: the path of one value, from telemetry rows to counts."""

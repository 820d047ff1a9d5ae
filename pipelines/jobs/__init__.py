"""From a checked request to a finished Beam job, and what is said around it."""

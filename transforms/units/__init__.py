"""Which rows of a unit count, and for what: contribution bounding, and users divided."""

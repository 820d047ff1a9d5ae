"""Models and how they are fitted, so that the fit protects those whose rows it saw."""

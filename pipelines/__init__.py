"""Floor 2, the jobs people run: options in, a release out."""

"""One file a paper: its systems, its settings, its figures."""

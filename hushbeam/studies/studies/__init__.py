"""One file a study: its options, its systems, its grid, its measures and its figures."""

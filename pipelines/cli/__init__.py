"""The `hushbeam` command: which commands there are, and how each ends."""

"""One metric from the command line: its options as flags, and what is shown at the end."""

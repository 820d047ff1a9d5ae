"""Files of reports: written, read, opened, and counted once."""

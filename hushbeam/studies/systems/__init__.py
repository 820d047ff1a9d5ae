"""Which systems are compared: from names on the command line to the lines of a figure."""

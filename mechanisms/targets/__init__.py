"""What is wanted of a mechanism, and by which rules one meets it."""

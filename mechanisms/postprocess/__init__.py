"""What may be done to an estimate without touching the data again."""

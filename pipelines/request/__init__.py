"""From the words of a request to validated options, and back to people and programs."""

"""What a release says, and withholds, where nearly nothing of a column can be used."""

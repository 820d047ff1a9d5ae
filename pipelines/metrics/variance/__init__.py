"""The variance of a column of numbers, or of each group of rows."""

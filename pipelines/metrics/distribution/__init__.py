"""The distribution of a column of numbers: shares, quantiles, mean."""

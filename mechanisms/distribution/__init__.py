"""The distribution of a column of numbers: shares of bins, its quantiles and its mean."""

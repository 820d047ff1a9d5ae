"""The distribution of a column of numbers: shares of bins, its quantiles and its mean."""

LEAST_BINS, MOST_BINS = 2, 1024

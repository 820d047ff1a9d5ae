"""One randomised report of each unit: a file for what units report, and how it is decoded."""

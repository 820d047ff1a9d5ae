"""The kinds of metrics: one folder each, and what they share."""

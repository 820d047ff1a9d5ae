"""The histogram: how often each value of a declared domain occurs."""

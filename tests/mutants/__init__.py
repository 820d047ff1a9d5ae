"""Planted bugs, each in a copy of the tree, and the tests that ought to know them."""

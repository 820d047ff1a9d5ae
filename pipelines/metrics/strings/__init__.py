"""Strings that nobody declared: the frequent ones, by what searches for them."""

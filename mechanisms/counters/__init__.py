"""Noisy counters: users raise a few by one, among dummies that the shuffler draws."""

"""Alarms: lasting shifts of what was published, window by window, at no further price."""

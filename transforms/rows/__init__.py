"""Rows of a log, in windows of their time, to cells and messages: all that a client does."""

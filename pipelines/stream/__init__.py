"""Streams: files that land, windows that close, one release a window."""

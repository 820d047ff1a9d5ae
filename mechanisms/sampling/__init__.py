"""Exact samplers: laws that are drawn as they are stated, from integers alone."""

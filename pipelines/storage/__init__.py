"""Paths, secrets, small files and objects in buckets, written whole or not at all."""

"""Finite fields and the geometry over them, of which hashes and projective spaces are made."""

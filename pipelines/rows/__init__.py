"""Rows of somebody's Beam pipeline to figures in it, with one price and noise drawn once."""

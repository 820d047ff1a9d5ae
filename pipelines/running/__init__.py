"""Totals that grow window by window, at one price for a horizon declared beforehand."""

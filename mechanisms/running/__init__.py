"""Totals that grow day by day, at one price for a horizon declared beforehand."""

"""Studies: systems and mechanisms side by side, where the truth is known."""

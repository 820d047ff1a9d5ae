"""`experiment`: the effect of a treatment on several outcomes."""

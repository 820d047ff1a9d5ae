"""SQL over a log: a query compiled to statistics of a plan, never executed by another engine."""

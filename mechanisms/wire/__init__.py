"""How reports travel: what a record holds, its bytes, the plan it belongs to, and its seal."""

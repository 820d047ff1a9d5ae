"""Questions of one log, until its budget is gone."""

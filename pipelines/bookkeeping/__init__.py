"""`hushbeam ledger`: what an operator begins, checks, settles, archives and adopts."""

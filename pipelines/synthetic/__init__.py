"""`hushbeam synthetic`: rows of made people, from the tables of a release and from nothing else."""

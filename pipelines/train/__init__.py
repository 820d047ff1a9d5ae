"""`hushbeam train`: a model fitted to rows that nobody sees."""

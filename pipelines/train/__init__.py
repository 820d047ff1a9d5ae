"""`hushbeam train`: a model fitted to rows, published with its guarantee."""

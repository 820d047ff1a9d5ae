"""`hushbeam cross-tab`: tables of one and of two columns that agree."""

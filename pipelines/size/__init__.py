"""`hushbeam size`: mechanisms compared for a privacy target, before data is touched."""

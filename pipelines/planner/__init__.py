"""`hushbeam plan`: mechanisms compared for a privacy target, before data is touched."""

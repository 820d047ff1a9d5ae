"""`hushbeam vector-mean`: the average row of a log whose rows hold many numbers and categories."""

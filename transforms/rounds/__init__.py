"""Several rounds of reports in one pipeline, each after what the last one told."""

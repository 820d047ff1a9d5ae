"""What a job reads, looked at before it runs: files, columns, numbers, categories."""

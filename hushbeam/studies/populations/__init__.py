"""What systems are compared on: made populations, and the columns of Parquet files."""

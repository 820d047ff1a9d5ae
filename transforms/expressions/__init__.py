"""A small language over the columns of a row: parsed, checked, and computed by Arrow."""

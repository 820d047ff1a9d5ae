"""Files of rows in any format, as Arrow tables of the columns that are asked for."""

"""The numbers of a Parquet column, and how many rows hold each."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mechanisms.channel import Counts, Floats
from pipelines.errors import RequestError


def distinct(path: str, column: str) -> tuple[Floats, Counts]:
    """Each finite number of a column once, ascending, and how many rows hold it.

    Args:
        path: of the file.
        column: of integers, floats or decimals; nulls, NaN and infinities are left out.

    Returns:
        ((values,) float64, (values,) int64), at least one.

    Raises:
        RequestError: there is no such file or column, or it holds no number.
    """
    try:
        with pq.ParquetFile(path) as file:
            _require_numeric(path, column, file.schema_arrow)
            pieces = [_finite(batch.column(0)) for batch in file.iter_batches(columns=[column])]
    except FileNotFoundError:
        raise RequestError(f"--data: there is no file {path}") from None
    except (pa.ArrowException, OSError):
        raise RequestError(
            f"--data: {path} is not a readable Parquet file (cut off, or another format)"
        ) from None
    values, counts = np.unique(np.concatenate([np.empty(0), *pieces]), return_counts=True)
    if not values.size:
        raise RequestError(f"--data: column {column!r} of {path} holds no number")
    return values, counts.astype(np.int64)


def _require_numeric(path: str, column: str, schema: pa.Schema) -> None:
    """Refuse a column that is not there, or holds no numbers."""
    if schema.get_field_index(column) < 0:  # none, or more than one
        known = ", ".join(schema.names)
        raise RequestError(f"--data: {path} has no one column {column!r}; it has: {known}")
    kind = schema.field(column).type
    fits = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    if not any(each(kind) for each in fits):
        raise RequestError(
            f"--data: {column!r} holds {kind}; integers, floats or decimals have a mean"
        )


def _finite(values: pa.Array) -> Floats:
    """The numbers of a batch; nulls, NaN and infinities are left out."""
    numbers = pc.cast(values.drop_null(), pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return np.asarray(numbers[np.isfinite(numbers)])

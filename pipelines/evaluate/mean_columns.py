"""The numbers of a Parquet column, and how many rows hold each."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mechanisms.channel import Counts, Floats
from pipelines.errors import RequestError
from pipelines.evaluate.sources import is_number, kind_of, parquet


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
    with parquet(path) as file:
        kind = kind_of(path, column, file.schema_arrow)
        if not is_number(kind):
            raise RequestError(
                f"--data: {column!r} holds {kind}; integers, floats or decimals have a mean"
            )
        pieces = [_finite(batch.column(0)) for batch in file.iter_batches(columns=[column])]
    values, counts = np.unique(np.concatenate([np.empty(0), *pieces]), return_counts=True)
    if not values.size:
        raise RequestError(f"--data: column {column!r} of {path} holds no number")
    return values, counts.astype(np.int64)


def _finite(values: pa.Array) -> Floats:
    """The numbers of a batch; nulls, NaN and infinities are left out."""
    numbers = pc.cast(values.drop_null(), pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return np.asarray(numbers[np.isfinite(numbers)])

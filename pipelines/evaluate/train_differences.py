"""By how much systems' errors differ from the default's: on the same folds, with common chance."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mechanisms.channel import Floats
from pipelines.evaluate.train_figures import FOLDS
from pipelines.evaluate.train_systems import DEFAULT

SCHEMA = pa.schema(
    [
        ("data", pa.string()),
        ("n", pa.int64()),
        ("epsilon", pa.float64()),
        ("system", pa.string()),
        ("private", pa.bool_()),
        ("runs", pa.int64()),  # folds of all repetitions
        ("test_mse", pa.float64()),  # the mean over runs
        ("test_mse_error", pa.float64()),  # its standard error
        ("difference", pa.float64()),  # the mean of what it exceeds the default's by
        ("difference_error", pa.float64()),  # its standard error
    ]
)

_Key = tuple[str, int, float, str]


def differences(path: str) -> pa.Table:
    """A row for each setting.

    Runs of one cross-validation share most of their training rows, so that standard errors of the
    mean over folds are somewhat too small; noise, which dominates, is drawn anew for each.

    Args:
        path: of results.parquet.
    """
    errors: dict[_Key, list[Floats]] = {}
    private: dict[str, bool] = {}
    for row in sorted(pq.read_table(path).to_pylist(), key=lambda row: row["repetition"]):
        key = (row["data"], row["n"], row["epsilon"], row["system"])
        errors.setdefault(key, []).append(np.array([row[fold] for fold in FOLDS]))
        private[row["system"]] = row["private"]
    rows = []
    for (data, n, epsilon, system), found in errors.items():
        each = np.concatenate(found)
        apart = each - np.concatenate(errors[data, n, epsilon, DEFAULT])
        rows.append(
            {
                "data": data, "n": n, "epsilon": epsilon, "system": system,
                "private": private[system], "runs": each.size,
                "test_mse": float(each.mean()), "test_mse_error": _error(each),
                "difference": float(apart.mean()), "difference_error": _error(apart),
            }
        )  # fmt: skip
    return pa.Table.from_pylist(rows, SCHEMA)


def told(found: pa.Table) -> Iterator[str]:
    """A line for each private system that did better than the default somewhere, or one for all."""
    rows = [row for row in found.to_pylist() if row["private"] and row["system"] != DEFAULT]
    better = [row for row in rows if row["difference"] < 0]
    yield (
        f"the default has the least mean error in {len(rows) - len(better)} of {len(rows)} "
        "comparisons with private systems on the same folds"
    )
    for row in better:
        yield (
            f"{row['system']} on {row['data']} (n = {row['n']:,}) at epsilon {row['epsilon']:g}: "
            f"{-row['difference']:.2g} +- {row['difference_error']:.1g} better"
        )


def _error(values: Floats) -> float:
    """The standard error of a mean."""
    return float(np.std(values, ddof=1)) / math.sqrt(values.size)

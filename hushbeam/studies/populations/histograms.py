"""Histograms: made ones, and the histogram of a Parquet column."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy import special

from hushbeam.studies.populations.population import HistogramPopulation
from hushbeam.studies.populations.sources import (
    file_and_column,
    made,
    once,
    read_columns,
    require_size,
    stem,
)
from mechanisms.channel import Counts, Floats
from mechanisms.planner.histograms import zipf
from pipelines.errors import RequestError

_FORMS = "FILE.parquet:COLUMN, normal:N,D or zipf:N,D,S, with whole N and D"
_FAMILIES = {"normal": (2,), "zipf": (2, 3)}
_WIDTH = 4.0  # standard deviations on either side of the mean that the bins of `normal` span
_EXPONENT = 1.2  # of `zipf`, where none is named
_MOST_USERS, _MOST_VALUES = 10**9, 1 << 24
_CATEGORIES = (
    pa.types.is_integer,
    pa.types.is_boolean,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_date,
)


def read_histograms(texts: Sequence[str]) -> tuple[HistogramPopulation, ...]:
    """Every data set that is named, once; see `read_histogram`."""
    return once(texts, lambda text: [read_histogram(text)])


def read_histogram(text: str) -> HistogramPopulation:
    """One data set.

    Args:
        text: `normal:N,D`: N values of a normal law in D equal bins, which span four standard
            deviations on either side of the mean; `zipf:N,D,S`: N values, the k-th most frequent
            one in proportion to 1/k^S (S = 1.2 unless named); or `FILE.parquet:COLUMN`: each row
            is a user, each distinct value that occurs is a value of the domain. Made histograms
            hold the expected counts, rounded so that they add up to N.

    Raises:
        RequestError: it has none of these forms, or cannot be read.

    >>> read_histogram("zipf:100,4,1").histogram.tolist()
    [48, 24, 16, 12]
    """
    law = made(text, _FAMILIES, 2, _FORMS)
    if law is None:
        path, column = file_and_column(text, _FORMS)
        # Nothing else of the file is kept, and no value of it is shown.
        counts = value_counts(path, column)["count"].to_numpy().astype(np.int64)
        _require_countable(text, int(counts.sum()), counts.size)
        return HistogramPopulation(f"{stem(path)}:{column}", counts)
    family, (n, d, *more) = law
    _require_countable(text, n, d)
    name = f"{family}:{n:.0f},{d:.0f}"
    if family == "normal":
        return HistogramPopulation(name, apportioned(_normal(int(d)), int(n)))
    exponent = more[0] if more else _EXPONENT
    if not 0 <= exponent <= 10:
        raise RequestError(f"--data: the exponent of {text} must lie between 0 and 10")
    shares = zipf(int(d), exponent)
    return HistogramPopulation(f"{name},{exponent:g}", apportioned(shares, int(n)))


def apportioned(shares: Floats, n: int) -> Counts:
    """Whole numbers nearest to shares of n that add up to n, by the largest remainders.

    Args:
        shares: (d,) nonnegative, adding up to 1.
        n: the sum.

    Returns:
        (d,) int64. Ties go to the value that comes first.

    >>> apportioned(np.array([0.5, 0.3, 0.2]), 7).tolist()
    [4, 2, 1]
    """
    quotas = np.asarray(shares) * n
    counts = np.floor(quotas).astype(np.int64)
    order = np.argsort(counts - quotas, kind="stable")
    counts[order[: n - int(counts.sum())]] += 1
    return counts


def value_counts(path: str, column: str) -> pa.Table:
    """How often each value of a Parquet column occurs, nulls left out.

    Args:
        path: of the file.
        column: of integers, text, booleans or dates.

    Returns:
        Columns `value`, ascending, and `count`; at least one row.

    Raises:
        RequestError: there is no such file or column, it has no value, or its type no histogram.
    """
    values = read_columns(path, [column]).column(0)
    kind = values.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
        values = values.cast(kind)
    if not any(fits(kind) for fits in _CATEGORIES):
        raise RequestError(f"--data: {column!r} holds {kind}; integers, text or dates are counted")
    counted = pc.value_counts(values.drop_null())
    if not len(counted):
        raise RequestError(f"--data: column {column!r} of {path} has no rows")
    columns = {"value": counted.field("values"), "count": counted.field("counts")}
    return pa.table(columns).sort_by("value")


def _normal(d: int) -> Floats:
    """The shares of the bins of a normal law, cut where they end."""
    shares = np.diff(special.ndtr(np.linspace(-_WIDTH, _WIDTH, d + 1)))
    return np.asarray(shares / shares.sum())


def _require_countable(text: str, n: float, d: float) -> None:
    require_size(text, n, 2, _MOST_USERS, "users")
    require_size(text, d, 2, _MOST_VALUES, "values")

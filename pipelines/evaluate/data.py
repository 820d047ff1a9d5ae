"""What systems are compared on: made histograms, and the histogram of a Parquet column."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy import special

from mechanisms.channel import Counts, Floats
from mechanisms.frequency.predictions import zipf
from pipelines.errors import RequestError
from pipelines.evaluate.sources import kind_of, numbers, once, parquet

_MADE = re.compile(r"(normal|zipf):(.*)")
_WIDTH = 4.0  # standard deviations on either side of the mean that the bins of `normal` span
_EXPONENT = 1.2  # of `zipf`, where none is named
_MOST_USERS, _MOST_VALUES = 10**9, 1 << 24
_FORMS = "FILE.parquet:COLUMN, normal:N,D or zipf:N,D,S"


@dataclass(frozen=True)
class Data:
    """A population: how many users hold each value.

    Attributes:
        name: as figures and tables say it; a file's folder is no part of it.
        histogram: (d,) integers.
    """

    name: str
    histogram: Counts

    @property
    def n(self) -> int:
        """How many users."""
        return int(self.histogram.sum())

    @property
    def d(self) -> int:
        """How many values."""
        return int(self.histogram.size)

    @property
    def title(self) -> str:
        """The data set as panels and tables say it."""
        return f"{self.name} (n = {self.n:,}, d = {self.d:,})"

    @property
    def digest(self) -> str:
        """A fingerprint of the counts."""
        return hashlib.sha256(self.histogram.astype("<i8").tobytes()).hexdigest()


def read_all(texts: Sequence[str]) -> tuple[Data, ...]:
    """Every data set that was asked for, once.

    Raises:
        RequestError: one of them cannot be read, or two have one name.
    """
    return once(texts, lambda text: [read(text)])


def read(text: str) -> Data:
    """One data set.

    Args:
        text: `normal:N,D`: N values of a normal law in D equal bins, which span four standard
            deviations on either side of the mean; `zipf:N,D,S`: N values, the k-th most frequent
            one in proportion to 1/k^S (S = 1.2 unless named); or `FILE.parquet:COLUMN`: each row
            is a user, each distinct value that occurs is a value of the domain. Made histograms
            hold the expected counts, rounded so that they add up to N.

    Raises:
        RequestError: it has none of these forms, or cannot be read.

    >>> read("zipf:100,4,1").histogram.tolist()
    [48, 24, 16, 12]
    """
    made = _MADE.fullmatch(text)
    if made is None:
        return _of_column(text)
    family, given = made[1], _numbers(text, made[2])
    if len(given) not in ((2,) if family == "normal" else (2, 3)):
        raise RequestError(f"--data: {text} is not of the form {_FORMS}")
    n, d = int(given[0]), int(given[1])
    _require_size(text, n, d)
    if family == "normal":
        return Data(f"normal:{n},{d}", apportioned(_normal(d), n))
    exponent = given[2] if len(given) == 3 else _EXPONENT
    if not 0 <= exponent <= 10:
        raise RequestError(f"--data: the exponent of {text} must lie between 0 and 10")
    return Data(f"zipf:{n},{d},{exponent:g}", apportioned(zipf(d, exponent), n))


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


def _normal(d: int) -> Floats:
    """The shares of the bins of a normal law, cut where they end."""
    shares = np.diff(special.ndtr(np.linspace(-_WIDTH, _WIDTH, d + 1)))
    return np.asarray(shares / shares.sum())


def _numbers(text: str, given: str) -> list[float]:
    """N, D and perhaps S."""
    found = numbers(given)
    if not (len(found) >= 2 and all(number.is_integer() for number in found[:2])):
        raise RequestError(f"--data: {text} is not of the form {_FORMS}, with whole N and D")
    return found


def _require_size(text: str, n: int, d: int) -> None:
    """Refuse populations that are none, and those that no simulation would finish."""
    if not 2 <= n <= _MOST_USERS:
        raise RequestError(f"--data: {text} has {n:,} users; 2 to {_MOST_USERS:,} can be simulated")
    if not 2 <= d <= _MOST_VALUES:
        raise RequestError(f"--data: {text} has {d:,} values; 2 to {_MOST_VALUES:,} can be counted")


def _of_column(text: str) -> Data:
    """The histogram of a column: nothing else of the file is kept, and no value of it is shown."""
    path, column = file_and_column(text)
    counts = value_counts(path, column)["count"].to_numpy()
    _require_size(text, int(counts.sum()), counts.size)
    return Data(column_name(path, column), counts.astype(np.int64))


def file_and_column(text: str) -> tuple[str, str]:
    """The two parts of FILE.parquet:COLUMN.

    Raises:
        RequestError: there are no two.
    """
    path, _, column = text.rpartition(":")
    if not (path and column):
        raise RequestError(f"--data: {text} is not of the form {_FORMS}")
    return path, column


def column_name(path: str, column: str) -> str:
    """What the data of a column are called; the folder, which may tell who keeps them, is not."""
    return f"{os.path.basename(path).removesuffix('.parquet')}:{column}"


def value_counts(path: str, column: str) -> pa.Table:
    """How often each value of a Parquet column occurs, nulls left out.

    Args:
        path: of the file.
        column: of integers, text, booleans or dates.

    Returns:
        Columns `value`, ascending, and `count`.

    Raises:
        RequestError: there is no such file or column, or its type has no histogram.
    """
    with parquet(path) as file:
        _require_countable(column, kind_of(path, column, file.schema_arrow))
        pieces = [_counted(batch.column(0)) for batch in file.iter_batches(columns=[column])]
    if not pieces:
        raise RequestError(f"--data: {path} has no rows")
    together = pa.concat_tables(pieces).group_by("value").aggregate([("count", "sum")])
    named = together.select(["value", "count_sum"]).rename_columns(["value", "count"])
    return named.sort_by("value")


def _require_countable(column: str, kind: pa.DataType) -> None:
    """Refuse a column whose values are no categories."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if not any(
        fits(kind)
        for fits in (
            pa.types.is_integer,
            pa.types.is_boolean,
            pa.types.is_string,
            pa.types.is_large_string,
            pa.types.is_date,
        )
    ):
        raise RequestError(f"--data: {column!r} holds {kind}; integers, text or dates are counted")


def _counted(values: pa.Array) -> pa.Table:
    """The distinct values of one batch, and how often each occurs."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    found = pc.value_counts(values.drop_null())
    return pa.table({"value": found.field("values"), "count": found.field("counts")})

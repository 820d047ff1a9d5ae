"""What a release of an average row holds: its table and statement, in the units of the bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mechanisms.postprocess.shrinkage import Shrunk, to_mean, to_prior
from mechanisms.vector.limits import RowEstimate, estimate_row
from mechanisms.vector.mixed_limits import Shares, estimate_mixed
from mechanisms.vector.mixed_rows import MixedRows
from transforms.collect_counts import Counted
from transforms.encoders.attributes import categorical, numeric

if TYPE_CHECKING:
    from pipelines.metrics.vector_mean.metric import AverageRow

TABLE, FREQUENCIES = "vector-mean.parquet", "frequencies.parquet"

_COVERS = (
    "Standard errors and intervals cover the randomisation of the reports, rounding included. They "
    "belong to the unbiased estimates and hold for the mean of the rows that were reported, "
    "clipped to the bounds"
)
_SAMPLE = (
    " Each user reports some of the attributes only: that those who report one are a sample of all "
    "is in its errors."
)
_SHRUNK = {
    "zero": "the middle of the bounds",
    "grand-mean": "the mean of all coordinates, each on the scale of its bounds",
    "prior": "the row that was given",
}


class Estimated(NamedTuple):
    """A row on the scale of [-1, 1], before and after it was moved.

    Attributes:
        row: the unbiased estimate with its errors; of no number that nobody reported.
        shrunk: the same, moved towards a target; None if that was not asked for.
        shares: of each category.
        invalid: how many messages no client could have sent.
    """

    row: RowEstimate
    shrunk: Shrunk | None
    shares: list[Shares]
    invalid: int

    @property
    def n(self) -> int:
        """How many users reported."""
        return self.row.n


def tables(metric: AverageRow, found: Estimated) -> dict[str, pa.Table]:
    """The published tables by file name: of the numbers, and of the categories if there are any."""
    table = vector_table(metric, found)
    if not found.shares:
        return {TABLE: table}
    return {TABLE: table, FREQUENCIES: frequency_table(metric, found)}


def vector_table(metric: AverageRow, found: Estimated) -> pa.Table:
    """The table of the numbers, a row for each coordinate.

    Columns: coordinate, estimate (the unbiased one, moved inside the bounds), standard_error, lower
    and upper of its interval, lower_of_all and upper_of_all of intervals that cover all coordinates
    at once, unbiased, shrunk (by James and Stein, then moved inside the bounds; if asked for), and
    n, how many reports speak for it.
    """
    row, low, high = found.row, metric.low, metric.low + 2 * metric.half
    middle = np.clip(row.unbiased, -1, 1)

    def scaled(values: NDArray[np.float64]) -> NDArray[np.float64]:
        """On the scale of [-1, 1] to the units of the bounds, inside them."""
        return np.clip(low + (np.clip(values, -1, 1) + 1) * metric.half, low, high)

    columns: dict[str, Any] = {
        "estimate": scaled(row.unbiased),
        "standard_error": row.standard_error * metric.half,
        "lower": scaled(np.fmin(row.unbiased - row.alone, middle)),
        "upper": scaled(np.fmax(row.unbiased + row.alone, middle)),
        "lower_of_all": scaled(np.fmin(row.unbiased - row.together, middle)),
        "upper_of_all": scaled(np.fmax(row.unbiased + row.together, middle)),
        "unbiased": low + (row.unbiased + 1) * metric.half,
    }
    if found.shrunk is not None:
        columns["shrunk"] = scaled(found.shrunk.estimate)
    labels = [label for each in numeric(metric.attributes) for label in each.labels()]
    return pa.table({"coordinate": labels} | _nullable(columns) | {"n": row.reports})


def frequency_table(metric: AverageRow, found: Estimated) -> pa.Table:
    """The table of the categories, a row for each value of each of them.

    Columns: attribute, value, estimate (shares of at least 0 that add up to 1), standard_error,
    lower and upper of its interval, lower_of_all and upper_of_all, unbiased, and n, how many users
    reported the attribute.
    """
    parts = []
    for attribute, shares in zip(categorical(metric.attributes), found.shares, strict=True):
        columns = {
            "estimate": shares.estimate,
            "standard_error": shares.standard_error,
            "lower": shares.alone[0],
            "upper": shares.alone[1],
            "lower_of_all": shares.together[0],
            "upper_of_all": shares.together[1],
            "unbiased": shares.unbiased,
        }
        values = attribute.domain.labels().cast(pa.string())
        head = {"attribute": [attribute.column] * len(values), "value": values}
        reports = np.full(len(values), shares.reports)
        parts.append(pa.table(head | _nullable(columns) | {"n": reports}))
    return pa.concat_tables(parts)


def _nullable(columns: Mapping[str, NDArray[np.float64]]) -> dict[str, pa.Array]:
    """Columns; where there is no number, there is a null."""
    return {
        name: pa.array(np.where(np.isfinite(column), column, np.nan), from_pandas=True)
        for name, column in columns.items()
    }


def estimated(metric: AverageRow, counted: Counted) -> Estimated:
    """What a batch of messages says, on the scale of [-1, 1]."""
    if counted.counts is None:
        raise ValueError("there are no reports")
    n, confidence = counted.messages // int(metric.messages), metric.options.confidence
    shares: list[Shares] = []
    if isinstance(metric.rows, MixedRows):
        row, shares = estimate_mixed(metric.rows, counted.counts, n, confidence)
    else:
        row = estimate_row(metric.rows, counted.counts, n, confidence)
    return Estimated(row, _shrunk(metric, row), shares, counted.invalid)


def _shrunk(metric: AverageRow, row: RowEstimate) -> Shrunk | None:
    """The unbiased estimate, moved as was asked for; what nobody reported stays unknown."""
    known = np.isfinite(row.unbiased)
    # Not the squares of the standard errors, which are those of the worst case where reports are
    # few: whoever takes off more noise than there is errs by more than the unbiased estimate.
    unbiased, variance = row.unbiased[known], row.judged[known]
    if metric.options.shrink == "none" or not unbiased.size:
        return None
    if metric.options.shrink == "grand-mean":
        moved = to_mean(unbiased, variance)
    else:
        prior = np.zeros(known.size)
        if metric.prior is not None:
            prior = np.clip((metric.prior - metric.low) / metric.half - 1, -1, 1)
        moved = to_prior(unbiased, variance, prior[known])
    whole = np.full(known.size, np.nan)
    whole[known] = moved.estimate
    return moved._replace(estimate=whole)


def bounds_statement(metric: AverageRow) -> list[dict[str, Any]]:
    """What numbers were clipped to, for each column, neighbours with the same bounds together."""
    described: list[dict[str, Any]] = []
    for number in numeric(metric.attributes):
        low, high = number.bounds
        if described and (described[-1]["low"], described[-1]["high"]) == (low, high):
            described[-1]["to"] = number.column
            described[-1]["coordinates"] += number.width
        else:
            described.append(
                {
                    "from": number.column, "to": number.column, "coordinates": number.width,
                    "low": low, "high": high, "how": "declared",
                }
            )  # fmt: skip
    return described


def error_statement(metric: AverageRow, found: Estimated) -> dict[str, Any]:
    """How far off the estimates may be, and what that covers."""
    unit = metric.options.unit
    covers = _COVERS + ("." if unit == "row" else f", one drawn for each {unit}.")
    described: dict[str, Any] = {
        "covers": covers,
        "root_mean_square_of_standard_errors": _root_mean_square(found.row.standard_error),
        "scale": "standard errors are given here on the scale on which bounds are -1 and 1",
    }
    if found.shares:
        described["covers"] += _SAMPLE
    if metric.radius is not None:
        described["covers"] += (
            f" Rows longer than {metric.radius:g} on the scale of [-1, 1] were shortened to it; "
            "how many is not published."
        )
    if found.shrunk is not None:
        described["shrunk"] = {
            "towards": _SHRUNK[metric.options.shrink],
            "factor": found.shrunk.factor,
            "source": "James, Stein 1961; Efron, Morris 1973",
            "means": "The shrunk row is nearer to the true one in squared error, on average over "
            "all coordinates together, and biased in each; it has no intervals.",
        }
    return described


def _root_mean_square(values: NDArray[np.float64]) -> float | None:
    found = float(np.sqrt(np.mean(values**2)))
    return found if found < np.inf else None

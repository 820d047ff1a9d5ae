"""What a release of an average row holds: its table and statement, in the units of the bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mechanisms.catalog import registrations
from mechanisms.postprocess.shrinkage import Shrunk, to_mean, to_prior
from mechanisms.vector.limits import RowEstimate, estimate_row
from mechanisms.vector.mixed_limits import Shares, estimate_mixed
from mechanisms.vector.mixed_rows import MixedRows
from pipelines.numbers import counted as counted_exactly
from pipelines.numbers import statement_head, versions
from transforms.attributes import categorical, numeric
from transforms.collect_vector import CountedRows

if TYPE_CHECKING:
    from pipelines.metrics.vector_mean.job import VectorMeanJob

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
    """

    row: RowEstimate
    shrunk: Shrunk | None
    shares: list[Shares]


def tables(job: VectorMeanJob, found: Estimated) -> dict[str, pa.Table]:
    """The published tables by file name: of the numbers, and of the categories if there are any."""
    table = vector_table(job, found)
    if not found.shares:
        return {TABLE: table}
    return {TABLE: table, FREQUENCIES: frequency_table(job, found)}


def vector_table(job: VectorMeanJob, found: Estimated) -> pa.Table:
    """The table of the numbers, a row for each coordinate.

    Columns: coordinate, estimate (the unbiased one, moved inside the bounds), standard_error, lower
    and upper of its interval, lower_of_all and upper_of_all of intervals that cover all coordinates
    at once, unbiased, shrunk (by James and Stein, then moved inside the bounds; if asked for), and
    n, how many reports speak for it.
    """
    row, low, high = found.row, job.low, job.low + 2 * job.half
    middle = np.clip(row.unbiased, -1, 1)

    def scaled(values: NDArray[np.float64]) -> NDArray[np.float64]:
        """On the scale of [-1, 1] to the units of the bounds, inside them."""
        return np.clip(low + (np.clip(values, -1, 1) + 1) * job.half, low, high)

    columns: dict[str, Any] = {
        "estimate": scaled(row.unbiased),
        "standard_error": row.standard_error * job.half,
        "lower": scaled(np.fmin(row.unbiased - row.alone, middle)),
        "upper": scaled(np.fmax(row.unbiased + row.alone, middle)),
        "lower_of_all": scaled(np.fmin(row.unbiased - row.together, middle)),
        "upper_of_all": scaled(np.fmax(row.unbiased + row.together, middle)),
        "unbiased": low + (row.unbiased + 1) * job.half,
    }
    if found.shrunk is not None:
        columns["shrunk"] = scaled(found.shrunk.estimate)
    labels = [label for each in numeric(job.attributes) for label in each.labels()]
    return pa.table({"coordinate": labels} | _nullable(columns) | {"n": row.reports})


def frequency_table(job: VectorMeanJob, found: Estimated) -> pa.Table:
    """The table of the categories, a row for each value of each of them.

    Columns: attribute, value, estimate (shares of at least 0 that add up to 1), standard_error,
    lower and upper of its interval, lower_of_all and upper_of_all, unbiased, and n, how many users
    reported the attribute.
    """
    parts = []
    for attribute, shares in zip(categorical(job.attributes), found.shares, strict=True):
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


def estimated(job: VectorMeanJob, counted: CountedRows) -> Estimated:
    """What a batch of messages says, on the scale of [-1, 1]."""
    if counted.counts is None:
        raise ValueError("there are no reports")
    n, confidence = counted.messages // job.messages, job.options.confidence
    shares: list[Shares] = []
    if isinstance(job.mechanism, MixedRows):
        row, shares = estimate_mixed(job.mechanism, counted.counts, n, confidence)
    else:
        row = estimate_row(job.mechanism, counted.counts, n, confidence)
    return Estimated(row, _shrunk(job, row), shares)


def _shrunk(job: VectorMeanJob, row: RowEstimate) -> Shrunk | None:
    """The unbiased estimate, moved as was asked for; what nobody reported stays unknown."""
    known = np.isfinite(row.unbiased)
    # Not the squares of the standard errors, which are those of the worst case where reports are
    # few: whoever takes off more noise than there is errs by more than the unbiased estimate.
    unbiased, variance = row.unbiased[known], row.judged[known]
    if job.options.shrink == "none" or not unbiased.size:
        return None
    if job.options.shrink == "grand-mean":
        moved = to_mean(unbiased, variance)
    else:
        prior = np.zeros(known.size)
        if job.prior is not None:
            prior = np.clip((job.prior - job.low) / job.half - 1, -1, 1)
        moved = to_prior(unbiased, variance, prior[known])
    whole = np.full(known.size, np.nan)
    whole[known] = moved.estimate
    return moved._replace(estimate=whole)


def vector_statement(
    job: VectorMeanJob,
    counted: CountedRows,
    found: Estimated,
    tallies: Mapping[str, int],
) -> dict[str, Any]:
    """What was asked, what was done, and what it guarantees."""
    options, design = job.options, job.design
    head = statement_head("vector-mean", job.guarantees, job.cautions, job.min_reports)
    return head | {
        "neighbours": f"one {options.unit}'s row is replaced by any other row that can be used",
        **counted_exactly(found.row.n, counted.invalid, tallies),
        "asked": {
            "number": list(options.number),
            "vector": list(options.vector),
            "category": [
                f"{each.column}: {each.size:,} declared values"
                for each in categorical(job.attributes)
            ],
            "dimension": job.coordinates,
            "user_column": options.user_column,
            "unit": options.unit,
            "model": options.model,
            "epsilon": options.epsilon,
            "delta": design.target.delta,
            "epsilon_local": options.epsilon_local,
            "min_reports": job.min_reports,
            "mechanism": options.mechanism,
            "radius": options.radius,
            "shrink": options.shrink,
            "confidence": options.confidence,
        },
        "bounds": _bounds(job),
        "mechanism": {
            "name": design.name,
            "source": registrations()[design.name].source,
            "constants": dict(job.mechanism.constants()),
            "messages_per_user": float(job.messages),
            "bits_per_message": design.bits,
        },
        "error": _error(job, found),
        "versions": versions(),
    }


def _bounds(job: VectorMeanJob) -> list[dict[str, Any]]:
    """What numbers were clipped to, for each column, neighbours with the same bounds together."""
    told: list[dict[str, Any]] = []
    for each in numeric(job.attributes):
        low, high = each.bounds
        if told and (told[-1]["low"], told[-1]["high"]) == (low, high):
            told[-1]["to"] = each.column
            told[-1]["coordinates"] += each.width
        else:
            told.append(
                {"from": each.column, "to": each.column, "coordinates": each.width, "low": low,
                 "high": high, "how": "declared"}
            )  # fmt: skip
    return told


def _error(job: VectorMeanJob, found: Estimated) -> dict[str, Any]:
    """How far off the estimates may be, and what that covers."""
    unit = job.options.unit
    covers = _COVERS + ("." if unit == "row" else f", one drawn for each {unit}.")
    told: dict[str, Any] = {
        "covers": covers,
        "root_mean_square_of_standard_errors": _root_mean_square(found.row.standard_error),
        "scale": "standard errors are given here on the scale on which bounds are -1 and 1",
    }
    if found.shares:
        told["covers"] += _SAMPLE
    if job.radius is not None:
        told["covers"] += (
            f" Rows longer than {job.radius:g} on the scale of [-1, 1] were shortened to it; how "
            "many is not published."
        )
    if found.shrunk is not None:
        told["shrunk"] = {
            "towards": _SHRUNK[job.options.shrink],
            "factor": found.shrunk.factor,
            "source": "James, Stein 1961; Efron, Morris 1973",
            "means": "The shrunk row is nearer to the true one in squared error, on average over "
            "all coordinates together, and biased in each; it has no intervals.",
        }
    return told


def _root_mean_square(values: NDArray[np.float64]) -> float | None:
    found = float(np.sqrt(np.mean(values**2)))
    return found if found < np.inf else None

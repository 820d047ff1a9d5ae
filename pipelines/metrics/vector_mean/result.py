"""What a release of an average row holds: its table and statement, in the units of the bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mechanisms.postprocess.intervals import normal_quantile
from mechanisms.postprocess.shrinkage import Shrunk, to_mean, to_prior
from mechanisms.vector.base import VectorMean
from mechanisms.vector.limits import RowEstimate, Shares, estimate_mixed, estimate_row
from mechanisms.vector.mixed_rows import MixedRows
from pipelines.metrics.poisoning import LIARS, Poisoning
from pipelines.metrics.unusable.share import Share
from pipelines.wording import upward
from transforms.encoders.attributes import Attribute, categorical, numeric

if TYPE_CHECKING:
    from transforms.collector.collect_counts import Counted

TABLE, FREQUENCIES = "vector-mean.parquet", "frequencies.parquet"
REPORTS = "reports.parquet"
MOST_NUMBERS = 50_000_000  # of perturbed rows, which one worker decodes
MOST_CODES = 1 << 34  # of all their reports, where each is looked at by itself: about a minute

PERTURBED = (
    f"{REPORTS} holds what each {{unit}} sent, as a row. It was randomised before anybody saw it, "
    "so it tells no more than is promised of a single report, and whatever is made of it costs "
    "nothing more. No row of it is one of the log: each number is right on average and as far off "
    "as one report is, may lie beyond its bounds, and is the middle of them where the {unit} was "
    "not asked. Rows are in the order of their numbers."
)

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


class Received(NamedTuple):
    """All messages of a batch, counted, and the rows that they say.

    Attributes:
        counts: as `messages` and `invalid`, of `Counted`.
        rows: (n, dimension) on the scale of [-1, 1]: of each user's report what it alone estimates.
            Their average is the estimate.
    """

    counts: Any
    messages: int
    invalid: int
    rows: NDArray[np.float64]

    @classmethod
    def of(cls, blocks: Sequence[NDArray[Any]], mechanism: VectorMean) -> Received:
        """Of blocks in which messages of a user follow one another."""
        words = np.concatenate([np.empty(0, np.uint64), *blocks])
        messages = words.reshape(-1, int(mechanism.messages))
        rows = np.empty((len(messages), mechanism.dimension))
        for place, report in enumerate(messages):
            rows[place] = mechanism.estimate(mechanism.count(report), 1)
        # In the log's order they would say whose each is.
        rows = rows[np.lexsort(rows.T[::-1])]
        return cls(mechanism.count(words), words.size, 0, rows)


class VectorEstimate(NamedTuple):
    """A row on the scale of [-1, 1], before and after it was moved.

    Attributes:
        row: the unbiased estimate with its errors; of no number that nobody reported.
        shrunk: the same, moved towards a target; None if that was not asked for.
        shares: of each category.
        invalid: how many messages no client could have sent.
        perturbed: the rows of `Received`, if they were asked for.
    """

    row: RowEstimate
    shrunk: Shrunk | None
    shares: list[Shares]
    invalid: int
    perturbed: NDArray[np.float64] | None = None

    @property
    def n(self) -> int:
        """How many users reported."""
        return self.row.n


class CoordinateScale(NamedTuple):
    """What takes coordinates from [-1, 1] to the units of their bounds.

    Attributes:
        low: (dimension,) the lower bounds.
        half: (dimension,) half the distance between the bounds.
    """

    low: NDArray[np.float64]
    half: NDArray[np.float64]

    @classmethod
    def of(cls, attributes: Sequence[Attribute]) -> CoordinateScale:
        """That of all coordinates of a row, in their order."""
        numbers = numeric(attributes)
        ends = np.array([number.bounds for number in numbers], np.float64)
        bounds = np.repeat(ends, [number.width for number in numbers], axis=0)
        return cls(bounds[:, 0], bounds[:, 1] / 2 - bounds[:, 0] / 2)

    def inside(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """In the units of the bounds, and within them."""
        high = self.low + 2 * self.half
        return np.clip(self.low + (np.clip(values, -1, 1) + 1) * self.half, self.low, high)


def tables(attributes: Sequence[Attribute], estimate: VectorEstimate) -> dict[str, pa.Table]:
    """The published tables by file name: of numbers, and of categories and reports if any are."""
    tables = {TABLE: vector_table(attributes, estimate)}
    if estimate.shares:
        tables[FREQUENCIES] = frequency_table(attributes, estimate)
    if estimate.perturbed is not None:
        scale = CoordinateScale.of(attributes)
        rows = scale.low + (estimate.perturbed + 1) * scale.half
        labels = [label for number in numeric(attributes) for label in number.labels()]
        tables[REPORTS] = pa.table([*rows.T], labels)
    return tables


def vector_table(attributes: Sequence[Attribute], estimate: VectorEstimate) -> pa.Table:
    """The table of the numbers, a row for each coordinate.

    Columns: coordinate, estimate (the unbiased one, moved inside the bounds), standard_error, lower
    and upper of its interval, lower_of_all and upper_of_all of intervals that cover all coordinates
    at once, unbiased, shrunk (by James and Stein, then moved inside the bounds; if asked for), the
    share of users without that number with its error and interval (unusable,
    unusable_standard_error, unusable_lower, unusable_upper; where absence is hidden), and n, how
    many reports speak for it.
    """
    row, scale = estimate.row, CoordinateScale.of(attributes)
    middle, scaled = np.clip(row.unbiased, -1, 1), scale.inside
    columns: dict[str, Any] = {
        "estimate": scaled(row.unbiased),
        "standard_error": row.standard_error * scale.half,
        "lower": scaled(np.fmin(row.unbiased - row.alone, middle)),
        "upper": scaled(np.fmax(row.unbiased + row.alone, middle)),
        "lower_of_all": scaled(np.fmin(row.unbiased - row.together, middle)),
        "upper_of_all": scaled(np.fmax(row.unbiased + row.together, middle)),
        "unbiased": scale.low + (row.unbiased + 1) * scale.half,
    }
    if estimate.shrunk is not None:
        columns["shrunk"] = scaled(estimate.shrunk.estimate)
    if row.unusable is not None:
        share, _, error, lower, upper = row.unusable
        columns |= {
            "unusable": share, "unusable_standard_error": error, "unusable_lower": lower,
            "unusable_upper": upper,
        }  # fmt: skip
    labels = [label for number in numeric(attributes) for label in number.labels()]
    return pa.table({"coordinate": labels} | _nullable(columns) | {"n": row.reports})


def frequency_table(attributes: Sequence[Attribute], estimate: VectorEstimate) -> pa.Table:
    """The table of the categories, a row for each value of each of them.

    Columns: attribute, value, estimate (shares of at least 0 that add up to 1), standard_error,
    lower and upper of its interval, lower_of_all and upper_of_all, unbiased, and n, how many users
    reported the attribute.
    """
    parts = []
    for attribute, shares in zip(categorical(attributes), estimate.shares, strict=True):
        columns = {
            name: column[: attribute.size]  # behind them, the share of those who have none
            for name, column in _columns(shares).items()
        }
        values = attribute.domain.labels().cast(pa.string())
        head = {"attribute": [attribute.column] * len(values), "value": values}
        reports = np.full(len(values), shares.reports)
        parts.append(pa.table(head | _nullable(columns) | {"n": reports}))
    return pa.concat_tables(parts)


def _columns(shares: Shares) -> dict[str, NDArray[np.float64]]:
    """What is published of the shares of one category."""
    return {
        "estimate": shares.estimate,
        "standard_error": shares.standard_error,
        "lower": shares.alone[0],
        "upper": shares.alone[1],
        "lower_of_all": shares.together[0],
        "upper_of_all": shares.together[1],
        "unbiased": shares.unbiased,
    }


def unusable_shares(attributes: Sequence[Attribute], estimate: VectorEstimate) -> dict[str, Any]:
    """Where the shares of users without a number are, and those without a category."""
    described: dict[str, Any] = {"numbers": f"in the columns `unusable` of {TABLE}"}
    for attribute, shares in zip(categorical(attributes), estimate.shares, strict=True):
        last = {name: float(column[-1]) for name, column in _columns(shares).items()}
        described.setdefault("categories", {})[attribute.column] = {
            "share": last["estimate"],
            **{
                name: last[name] if np.isfinite(last[name]) else None
                for name in ("unbiased", "standard_error", "lower", "upper")
            },
        }
    return described


def unusable_parts(
    attributes: Sequence[Attribute], estimate: VectorEstimate, confidence: float
) -> dict[str, Share]:
    """Coordinate or category -> the share of users without it, of those that somebody reported.

    Args:
        attributes: of a row.
        estimate: of a batch.
        confidence: with which all intervals hold together.
    """
    labels = [label for number in numeric(attributes) for label in number.labels()]
    rest = categorical(attributes)
    confidence_of_part = 1 - (1 - confidence) / (len(labels) + len(rest))
    parts: dict[str, Share] = {}
    if estimate.row.quotients is not None:
        shares = estimate.row.quotients.unusable(confidence_of_part)
        ends = zip(
            *(x.tolist() for x in (shares.unbiased, shares.lower, shares.upper)), strict=True
        )
        parts |= {name: Share.of(*end) for name, end in zip(labels, ends, strict=True)}
    reach = normal_quantile(confidence_of_part)
    for category, share in zip(rest, estimate.shares, strict=True):
        middle, far = float(share.unbiased[-1]), reach * float(share.standard_error[-1])
        parts[category.column] = Share.of(middle, middle - far, middle + far)
    return {name: share for name, share in parts.items() if math.isfinite(share.lower)}


def _nullable(columns: Mapping[str, NDArray[np.float64]]) -> dict[str, pa.Array]:
    """Columns; where there is no number, there is a null."""
    return {
        name: pa.array(np.where(np.isfinite(column), column, np.nan), from_pandas=True)
        for name, column in columns.items()
    }


def estimated(
    rows: VectorMean | MixedRows, counted: Counted, n: int, confidence: float
) -> tuple[RowEstimate, list[Shares]]:
    """What a batch of n users' messages says, on the scale of [-1, 1]."""
    if counted.counts is None:
        raise ValueError("there are no reports")
    if isinstance(rows, MixedRows):
        return estimate_mixed(rows, counted.counts, n, confidence)
    return estimate_row(rows, counted.counts, n, confidence), []


def shrunk(row: RowEstimate, towards: str, prior: NDArray[np.float64] | None) -> Shrunk | None:
    """The unbiased estimate, moved as was asked for; of what too few reported there is none.

    Args:
        row: the estimate.
        towards: what `--shrink` says.
        prior: (dimension,) on the scale of [-1, 1]; the middle of the bounds where it is None.
    """
    # Of one whom nobody else is beside, nobody knows by how much it errs.
    known = np.isfinite(row.unbiased) & np.isfinite(row.judged)
    # Not the squares of the standard errors, which are those of the worst case where reports are
    # few: whoever takes off more noise than there is errs by more than the unbiased estimate.
    unbiased, variance = row.unbiased[known], row.judged[known]
    if towards == "none" or not unbiased.size:
        return None
    if towards == "grand-mean":
        moved = to_mean(unbiased, variance)
    else:
        moved = to_prior(unbiased, variance, 0.0 if prior is None else prior[known])
    whole = np.full(known.size, np.nan)
    whole[known] = moved.estimate
    return moved._replace(estimate=whole)


def bounds_statement(attributes: Sequence[Attribute]) -> list[dict[str, Any]]:
    """What numbers were clipped to, for each column, neighbours with the same bounds together."""
    described: list[dict[str, Any]] = []
    for number in numeric(attributes):
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


_NAMED = 3  # columns that a title names


def titled(attributes: tuple[Attribute, ...]) -> str:
    """What rows are of, and what is said of it."""
    numbers = [attribute for attribute in attributes if attribute not in categorical(attributes)]
    columns = dict.fromkeys(attribute.column for attribute in numbers)
    names = ", ".join(columns) if len(columns) <= _NAMED else f"{len(columns):,} columns"
    return f"{names}: mean of each"


def poisoning(
    rows: VectorMean | MixedRows, estimate: VectorEstimate, forgeable: bool, towards: str
) -> Poisoning:
    """How far liars can move a coordinate, in parts of the distance of its bounds.

    Args:
        rows: what users run.
        estimate: what is published.
        forgeable: whether others than the job make reports.
        towards: what `--shrink` says.
    """
    number, category = rows.forged_reach(LIARS)
    lies = LIARS
    if (quotients := estimate.row.quotients) is not None:
        lies, number = quotients.lies_reach(LIARS) / 2, quotients.forged_reach(LIARS)
    moved = "; shrunk coordinates follow all of them, without a bound of their own"
    more, also = (
        f"; an unbiased share of a category by {upward(share, 3):g}" * bool(estimate.shares)
        + moved * (towards != "none")
        for share in (LIARS, category)
    )
    beside = {"share_of_a_category": category if forgeable else LIARS} if estimate.shares else {}
    forged = number / 2 if forgeable else None
    figure, unit = "any unbiased coordinate", " % of the distance of its bounds"
    return Poisoning(figure, lies, forged, 100, unit, more, also, beside=beside)


def error_statement(
    estimate: VectorEstimate, unit: str, radius: float | None, towards: str
) -> dict[str, Any]:
    """How far off the estimates may be, and what that covers."""
    covers = _COVERS + ("." if unit == "row" else f", one drawn for each {unit}.")
    described: dict[str, Any] = {
        "covers": covers,
        "root_mean_square_of_standard_errors": _root_mean_square(estimate.row.standard_error),
        "scale": "standard errors are given here on the scale on which bounds are -1 and 1",
    }
    if few := int(np.count_nonzero(~np.isfinite(estimate.row.judged))):
        described["too_few"] = {
            "coordinates": few,
            "means": "So few reported them that nobody knows how far off they are: what is unknown "
            "is null, and no shrunk row has them.",
        }
    if estimate.shares:
        described["covers"] += _SAMPLE
    if radius is not None:
        described["covers"] += (
            f" Rows longer than {radius:g} on the scale of [-1, 1] were shortened to it; "
            "how many is not published."
        )
    if estimate.shrunk is not None:
        described["shrunk"] = {
            "towards": _SHRUNK[towards],
            "factor": estimate.shrunk.factor,
            "source": "James, Stein 1961; Efron, Morris 1973",
            "means": "The shrunk row is nearer to the true one in squared error, on average over "
            "all coordinates together, and biased in each; it has no intervals.",
        }
    return described


def _root_mean_square(values: NDArray[np.float64]) -> float | None:
    known = values[np.isfinite(values)]
    return float(np.sqrt(np.mean(known**2))) if known.size else None

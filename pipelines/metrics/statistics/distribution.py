"""`distribution`: the histogram and the quantiles of a column of numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mechanisms.channel import Floats
from mechanisms.distribution.quantiles import USUAL
from pipelines.errors import RequestError
from pipelines.logs import inputs
from pipelines.logs.numbers import are_whole, open_numbers, read_bounds
from pipelines.metrics.distribution.options import DistributionOptions
from pipelines.metrics.heading import Heading
from pipelines.metrics.statistics.evidence import Accuracy, PrefixEvidence
from pipelines.metrics.statistics.statistic import Statistic, Workload
from pipelines.metrics.statistics.wording import ErrorTerms, Forecast, Wording
from pipelines.metrics.unusable.share import Share
from pipelines.views.headline import LINE, MIDDLE, QUANTILE
from transforms.encoders.bounds import Bounds
from transforms.encoders.prefixes import BinEncoder
from transforms.encoders.reports import UNUSABLE

BINS, QUANTILES = "distribution.parquet", "quantiles.parquet"

_OF = " of how many numbers are below a point"
_READING = (
    "Counts of all levels of the tree are brought to agree by weighted least squares; the shares "
    "below are the rising curve nearest to what comes out. Limits of shares and of quantiles are "
    "of the numbers as they were, clipped."
)
_BINS = 1024  # of counters, where nobody says
_MOST_QUANTILES = 1000


@dataclass(frozen=True, kw_only=True)
class Distribution(Statistic):
    """Shares and quantiles of a column of numbers, of the units that have one.

    `distribution.parquet` has the bins in rising order: low and high; estimate, the shares of
    numbers in them, and unbiased, the same before post-processing; cumulative, the share of numbers
    below `high`, with limits. `quantiles.parquet` has p, estimate, lower and upper. Beyond these
    each noise publishes what it knows: one report the standard error and limits of each share, and
    limits of cumulative shares that are sure; counters the number of units in each bin with its
    error, and limits of all cumulative shares together.

    Attributes:
        bounds: what numbers are clipped to.
        probabilities: of the quantiles that are published.
        whole: whether all numbers are whole, as far as the files' columns say so.
    """

    kind = "distribution"

    options: DistributionOptions
    bounds: Bounds
    probabilities: tuple[float, ...]
    whole: bool

    @classmethod
    def read(
        cls, options: DistributionOptions, source: inputs.Source
    ) -> tuple[Distribution, inputs.Telemetry]:
        bounds, probabilities = read_bounds(options.bounds), read_quantiles(options.quantiles)
        telemetry = open_numbers(options, source, empty=options.hides_presence)
        whole = are_whole(telemetry, options.column, bounds)
        statistic = cls(options=options, bounds=bounds, probabilities=probabilities, whole=whole)
        return statistic, telemetry

    @property
    def workload(self) -> Workload:
        return Workload(self.encoder.bins, people="all", shape="prefixes")

    @property
    def encoder(self) -> BinEncoder:  # type: ignore[override]
        return BinEncoder(self.options.column, self.bounds, self.options.bins or _BINS)

    @property
    def heading(self) -> Heading:
        figures = {BINS: "share", QUANTILES: QUANTILE}
        headline = {"table": QUANTILES, "rows": MIDDLE, "picture": LINE}
        return Heading(f"{self.options.column}: distribution", figures, headline=headline)

    @property
    def wording(self) -> Wording:
        users, shared = self.options.unit == "user", self.options.shared
        users &= not shared
        drawn = "; of each user one number, drawn uniformly among its rows" * users
        key = "standard_error_of_a_count_up_to_the_middle"
        errors = ErrorTerms(_READING, f"the noise of the dummies{drawn}", key, _OF)
        what = "One number of each user, drawn uniformly among its rows," * users
        if shared:
            what = "Each number of a user, all of which share its one alike,"
        whole = " All are whole, as are ends of bins and quantiles." * self.whole
        sentence = f"{what or 'The number of a row'} was told by its bin of {self.encoder.bins:,}."
        of = "A share below is of the numbers less than the `high` of a bin."
        besides = (
            " Errors and limits are of the noise alone: another draw among a user's rows moves a "
            "share below by a standard error of up to 0.5 / sqrt(users) besides."
        ) * users
        return Wording(errors, [f"{sentence}{whole} {of}{besides}"])

    def columns(  # type: ignore[override]
        self, evidence: PrefixEvidence, confidence: float
    ) -> dict[str, Any]:
        shares, cumulative = evidence.moved, evidence.cumulative
        if shares is None:
            shares = np.diff(cumulative, prepend=0.0)
        columns = {"estimate": shares, **evidence.bins, "cumulative": cumulative}
        for suffix, ends in evidence.limits.items():
            for side, limits in zip(("lower", "upper"), ends, strict=True):
                columns[f"cumulative_{side}{suffix}"] = limits
        return columns

    def tables(self, evidence: PrefixEvidence) -> dict[str, pa.Table]:  # type: ignore[override]
        edges = evidence.edges
        bins = {"low": edges[:-1], "high": edges[1:]}
        bins |= self.columns(evidence, self.options.confidence)
        # Where there is no number, there is a null.
        shares = {name: pa.array(column, from_pandas=True) for name, column in bins.items()}
        numbers: NDArray[Any] = evidence.quantiles
        if self.whole:
            numbers = whole_quantiles(numbers, self.bounds)
        named = dict(zip(("estimate", "lower", "upper"), numbers.T, strict=True))
        quantiles = pa.table({"p": [*self.probabilities], **named})
        return {BINS: pa.table(shares), QUANTILES: quantiles}

    def unusable(  # type: ignore[override]
        self, evidence: PrefixEvidence, confidence: float
    ) -> Mapping[str, Share]:
        half, usable = (1 + confidence) / 2, evidence.usable
        none = evidence.beside(UNUSABLE, half)
        if none is None or usable is None:
            return {}
        return {"": Share.of_counts(none, usable(half))}

    def forecast(self, accuracy: Accuracy, people: int) -> Forecast:
        """Of the number of units up to the middle, if as many lie above it."""
        error = accuracy.total.standard_error
        words = f"share below ± {100 * error / people:.2g} % of {people:,}"
        return Forecast(people, error, error, words)


def whole_quantiles(numbers: Floats, bounds: Bounds) -> NDArray[np.int64]:
    """(k, 3) the whole numbers nearest to quantiles, and those within their limits.

    A whole number that lies between two limits lies between the whole numbers within them.

    Args:
        numbers: (k, 3) the estimate and the limits of each.
        bounds: what numbers were clipped to.
    """
    middle, low, high = np.rint(numbers[:, 0]), np.ceil(numbers[:, 1]), np.floor(numbers[:, 2])
    middle = np.clip(middle, *bounds)
    ends = middle, np.minimum(low, middle), np.maximum(high, middle)
    return np.stack(ends, axis=1).astype(np.int64)


def read_quantiles(text: str | None) -> tuple[float, ...]:
    """The probabilities in "P,P,...", rising and each once; the usual ones if nobody asks.

    Raises:
        RequestError: they are not numbers between 0 and 1, or too many.

    >>> read_quantiles("0.9,0.5")
    (0.5, 0.9)
    """
    if text is None:
        return USUAL
    try:
        probabilities = sorted({float(part) for part in text.split(",")})
    except ValueError:
        probabilities = []
    if not (probabilities and all(0 < p < 1 for p in probabilities)):
        raise RequestError(
            "--quantiles must be probabilities above 0 and below 1 with commas, as in "
            f"0.5,0.9,0.99, not {text!r}"
        )
    if not len(probabilities) <= _MOST_QUANTILES:
        raise RequestError(f"--quantiles: {len(probabilities):,} are more than {_MOST_QUANTILES:,}")
    return tuple(probabilities)

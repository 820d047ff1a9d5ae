"""`distribution`: the histogram and the quantiles of a column of numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mechanisms.channel import Floats
from mechanisms.distribution.quantiles import USUAL
from pipelines.errors import RequestError
from pipelines.logs import inputs
from pipelines.logs.numbers import are_whole, open_numbers, read_bounds
from pipelines.metrics.counting.design import divided
from pipelines.metrics.counting.options import require_bounded
from pipelines.metrics.distribution.options import DistributionOptions
from pipelines.metrics.heading import Heading
from pipelines.metrics.options import DEVICES, JOB, SHUFFLER
from pipelines.metrics.statistics.evidence import Accuracy, PrefixEvidence
from pipelines.metrics.statistics.labels import label_columns, value_group, with_labels
from pipelines.metrics.statistics.statistic import Statistic, Workload
from pipelines.metrics.statistics.wording import ErrorTerms, Forecast, Wording
from pipelines.metrics.unusable.share import Share
from pipelines.views.headline import BARS, LINE, MIDDLE, QUANTILE
from pipelines.wording import moment_of, of_moments
from transforms.encoders.bins import BinEncoder, GroupedBinEncoder, edges_of
from transforms.encoders.bounds import Bounds
from transforms.encoders.groups import GroupEncoder
from transforms.encoders.reports import UNUSABLE

BINS, QUANTILES = "distribution.parquet", "quantiles.parquet"

_LIMITS = ("estimate", "lower", "upper", "lower_simultaneous", "upper_simultaneous")
_OF = " of how many numbers are below a point"
_READING = (
    "Counts of all levels of the tree are brought to agree by weighted least squares; the shares "
    "below are the rising curve nearest to what comes out. Limits of shares and of quantiles are "
    "of the numbers as they were, clipped."
)
_OF_RANK = (
    "The error is of its rank: how many numbers lie between it and the quantile. Limits are of the "
    "numbers as they were, clipped."
)
_BINS = 1024  # of counters, where nobody says
_CELLS = 1 << 16  # the same of one quantile, whose error no further cell adds to
_FEWEST_BINS, _USUAL_CELLS = 64, 1 << 20  # the same of many groups
_MOST_CELLS = 1 << 23  # of all groups
_MOST_QUANTILES = 1000
_SCALE = 20  # whole numbers between bounds that people know to be the ends: stars, marks


@dataclass(frozen=True, kw_only=True)
class Distribution(Statistic):
    """Shares and quantiles of a column of numbers, of the units that have one.

    Where there are groups, each has its own bins and quantiles, behind the label of the group.

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
        pair = ("--group-by", options.group_by, "--groups", options.groups)
        if options.undeclared_columns and options.quantile is not None:
            raise RequestError("--quantile: groups that nobody declared have --quantiles alone")
        if options.group_by and not options.hides_presence:
            raise RequestError(
                f"--group-by: one randomised report tells too little of groups: say --drawn-by "
                f"{JOB}, {SHUFFLER} or {DEVICES}, or ask one group by --where"
            )
        bounds, text = read_bounds(options.bounds), options.quantiles
        if options.quantile is not None:
            if text is not None:
                raise RequestError("--quantile, --quantiles: say one of them")
            if options.bins is not None:
                raise RequestError("--bins: --quantile chooses its cells; say --quantiles instead")
            text = repr(options.quantile)
        probabilities = read_quantiles(text)
        telemetry = open_numbers(options, source, empty=options.hides_presence)
        statistic = cls(
            options=options, domains=divided(telemetry, options, pair), bounds=bounds,
            probabilities=probabilities, whole=are_whole(telemetry, options.column, bounds),
        )  # fmt: skip
        if options.hides_presence:
            statistic.require_few()
        return statistic, telemetry

    def require_few(self) -> None:
        """Refuse more contributions than a unit can have, and more counters than there may be.

        Raises:
            RequestError: with what to do.
        """
        if self.options.rows_per_user > 1 and not (self.domains or self.options.by_row):
            raise RequestError(
                "--rows-per-user: a user counts once here, whatever its rows are; leave it out, or "
                f"say --by-row, with --drawn-by {JOB}, for so many rows of each"
            )
        require_bounded(self.options, self.groups)
        declared = not self.options.undeclared_columns
        if declared and self.groups * self.bins > _MOST_CELLS:
            raise RequestError(
                f"--bins: {self.groups:,} groups of {self.bins:,} bins are more than "
                f"{_MOST_CELLS:,}: name fewer of either"
            )

    @property
    def groups(self) -> int:
        """How many groups there are; 1 where nothing is grouped by."""
        return self._grouping.size

    @property
    def bins(self) -> int:
        """How many bins a group has."""
        usual = _BINS if self.options.quantile is None else _CELLS
        few = max(_FEWEST_BINS, min(usual, _USUAL_CELLS // self.groups))
        return int(self.options.bins or few)

    @property
    def edges(self) -> Floats:
        """(bins + 1,) where bins begin and end."""
        return edges_of(self.bounds, self.bins)

    @property
    def _grouping(self) -> GroupEncoder:
        return GroupEncoder(self.domains, drops=self.options.undeclared == "drop")

    @property
    def workload(self) -> Workload:
        rows, k = self.options.rows, self.options.rows_per_user
        users = self.options.unit == "user"
        return Workload(
            self.groups * self.bins, k if rows is None else 1, people="all",
            shape="prefixes" if self.options.quantile is None else "quantile", rows=rows,
            limited=users and (rows is not None or self.groups > k),
        )  # fmt: skip

    @property
    def encoder(self) -> BinEncoder | GroupedBinEncoder:  # type: ignore[override]
        if not self.domains:
            return BinEncoder(self.options.column, self.bounds, self.bins)
        return GroupedBinEncoder(
            self.domains, self.options.column, drops=self._grouping.drops, bounds=self.bounds,
            bins=self.bins,
        )  # fmt: skip

    @property
    def heading(self) -> Heading:
        figures = {BINS: "share", QUANTILES: QUANTILE}
        headline = {"table": QUANTILES, "rows": MIDDLE, "picture": BARS if self.domains else LINE}
        by = f" by {self.options.group_by}" * bool(self.options.group_by)
        title = f"{self.options.column}: distribution{by}"
        if self.options.quantile is not None:
            figures, title = {QUANTILES: QUANTILE}, f"{self.options.column}: quantile{by}"
            headline["picture"] = BARS
        return Heading(title, figures, value_group(self.domains), headline)

    @property
    def wording(self) -> Wording:
        shared = self.options.shared and not self.options.by_row
        users = self.options.unit == "user" and not shared and not self.options.by_row
        where = ", in each of its groups" * bool(self.domains)
        drawn = "; of each user one number, drawn uniformly among its rows" * users
        key = "standard_error_of_a_count_up_to_the_middle"
        errors = ErrorTerms(_READING, f"the noise of the dummies{drawn}", key, _OF)
        what = f"One number of each user{where}, drawn uniformly among its rows," * users
        if shared:
            what = f"Each number of a user, all of which share its one alike{where},"
        whole = " All are whole, as are ends of bins and quantiles." * self.whole
        if self.options.quantile is not None:
            errors = ErrorTerms(_OF_RANK, "the noise", "standard_error_of_its_rank", " of its rank")
            what = what or "The number of a row"
            return Wording(errors, [f"{what} was told by its bin of {self.bins:,}."])
        sentence = f"{what or 'The number of a row'} was told by its bin of {self.bins:,}."
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
            shares = np.diff(cumulative.reshape(self.groups, -1), prepend=0.0).ravel()
        columns = {"estimate": shares, **evidence.bins, "cumulative": cumulative}
        for suffix, ends in evidence.limits.items():
            for side, limits in zip(("lower", "upper"), ends, strict=True):
                columns[f"cumulative_{side}{suffix}"] = limits
        return columns

    def tables(self, evidence: PrefixEvidence) -> dict[str, pa.Table]:  # type: ignore[override]
        if self.options.quantile is not None:
            return {QUANTILES: self._quantiles(evidence)}
        edges = evidence.edges
        ends = {
            name: np.tile(end, self.groups)
            for name, end in (("low", edges[:-1]), ("high", edges[1:]))
        }
        shares = ends | self.columns(evidence, self.options.confidence)
        return {
            BINS: with_labels(self._labels(edges.size - 1), shares),
            QUANTILES: self._quantiles(evidence),
        }

    def _quantiles(self, evidence: PrefixEvidence) -> pa.Table:
        """What is published of quantiles."""
        # Of one distribution the band says what holds together.
        numbers, near = self._numbers(evidence)
        numbers = numbers[:, : 5 if self.domains else 3]
        named = dict(zip(_LIMITS, map(pa.array, numbers.T), strict=False))
        # Numbers beyond a bound may be the quantile, so no limit there is sure of anything.
        for name, column in named.items():
            bound = self._ends.get(name.partition("_")[0])
            if bound is not None:
                away = np.abs(column.to_numpy() - bound)
                inside = (away < (1 - 1e-6) * near) | (away == 0)
                named[name] = pc.if_else(inside, None, column)
        levels = {"p": np.tile(self.probabilities, self.groups)}
        return with_labels(self._labels(len(self.probabilities)), levels | named)

    def _labels(self, times: int) -> dict[str, pa.Array]:
        """Column -> the group of each row, of so many rows a group."""
        whose = pa.array(np.repeat(np.arange(self.groups), times))
        labels = label_columns(value_group(self.domains), self.domains)
        return {name: column.take(whose) for name, column in labels.items()}

    def cautions(self, evidence: PrefixEvidence) -> list[str]:  # type: ignore[override]
        """That quantiles lie where numbers were clipped to, as far as limits are sure of it."""
        places = [
            self._at_bound(side, bound, there)
            for side, (bound, there) in self._clipped(evidence).items()
            if there.any()
        ]
        if not places:
            return []
        what = " and ".join(places)
        return [
            f"{what}, to which numbers beyond are clipped; intervals are open there, and wider "
            "bounds close them"
        ]

    @property
    def _ends(self) -> dict[str, float]:
        """Side -> the bound beyond which there may be numbers.

        Of a short scale and of what is never negative people know the ends.
        """
        low, high = self.bounds
        if self.whole and high - low <= _SCALE:
            return {}
        return {"upper": high} | ({"lower": low} if low else {})

    def _numbers(self, evidence: PrefixEvidence) -> tuple[NDArray[Any], float]:
        """Quantiles with their limits, and how far an outermost bin reaches inside of its bound."""
        low, high = self.bounds
        widest = self._widest(evidence)
        near = max(widest, (high - low) / _BINS)
        if not self.whole:
            return evidence.quantiles, near
        # Where a bin is one number it tells it from its neighbour.
        return whole_quantiles(evidence.quantiles, self.bounds), near if widest >= 2 else 0.0

    def _clipped(self, evidence: PrefixEvidence) -> dict[str, tuple[float, NDArray[np.bool_]]]:
        """Side -> (its bound, which quantiles lie there for sure)."""
        numbers, near = self._numbers(evidence)
        low, high = self.bounds
        if near and _FEWEST_BINS * self._widest(evidence) > 1.01 * (high - low):
            return {}  # many may lie inside of an outermost bin that is wide
        _, lower, upper, *_ = numbers.T
        inner = {"upper": lower, "lower": upper}
        return {
            side: (bound, np.abs(inner[side] - bound) <= near) for side, bound in self._ends.items()
        }

    @staticmethod
    def _widest(evidence: PrefixEvidence) -> float:
        return (1 + 1e-9) * float(np.diff(evidence.edges).max())

    def _at_bound(self, side: str, bound: float, there: NDArray[np.bool_]) -> str:
        inside = there.reshape(-1, len(self.probabilities))
        levels = [f"{p:g}" for p in np.array(self.probabilities)[inside.any(axis=0)]]
        many = int(inside.any(axis=1).sum())
        of = f" of {many:,} group{'s' * (many > 1)}" * bool(self.domains)
        what = f"quantiles {', '.join(levels)}{of} lie"
        if len(levels) == 1:
            what = f"quantile {levels[0]}{of} lies"
        place = moment_of(bound) if of_moments(self.options.bounds) else f"{bound:g}"
        return f"{what} at the {side} bound {place}"

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
        error, of = accuracy.total.standard_error, people // self.groups
        words = f"share below ± {100 * error / max(of, 1):.2g} %"
        if self.options.quantile is not None:
            words = f"rank ± {error:.2g}"
        group = " of a group" * bool(self.domains)
        return Forecast(max(of, 1), error, error, words, of=f"{of:,}{group}")


def whole_quantiles(numbers: Floats, bounds: Bounds) -> NDArray[np.int64]:
    """The whole numbers nearest to quantiles, and those within their limits.

    A whole number that lies between two limits lies between the whole numbers within them.

    Args:
        numbers: as of `PrefixEvidence`.
        bounds: what numbers were clipped to.

    Returns:
        Of the same shape.
    """
    middle, *ends = numbers.T
    middle = np.clip(np.rint(middle), *bounds)
    low = (np.minimum(np.ceil(end), middle) for end in ends[::2])
    high = (np.maximum(np.floor(end), middle) for end in ends[1::2])
    sides = (side for pair in zip(low, high, strict=True) for side in pair)
    return np.stack([middle, *sides], axis=1).astype(np.int64)


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

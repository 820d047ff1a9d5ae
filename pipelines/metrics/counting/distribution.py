"""`hushbeam distribution --dummies shuffler`: shares and quantiles from a tree of counters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from rich.console import Console

from mechanisms.channel import Floats
from mechanisms.counters.choose import NoisyCounters
from mechanisms.counters.tree import Tree
from mechanisms.distribution.quantiles import quantile_limits, quantiles
from mechanisms.postprocess.simplex import rising
from mechanisms.randomness import SecureRandom
from pipelines.errors import RequestError
from pipelines.logs import inputs
from pipelines.logs.numbers import are_whole, open_numbers, read_bounds
from pipelines.metrics.counting import result, view
from pipelines.metrics.counting.design import MOST_SEALED, meeting
from pipelines.metrics.counting.drowned import Typical
from pipelines.metrics.counting.metric import Counting
from pipelines.metrics.counting.options import require_counted
from pipelines.metrics.distribution.metric import read_quantiles
from pipelines.metrics.distribution.options import DistributionOptions
from pipelines.metrics.distribution.result import QUANTILES, TABLE
from pipelines.metrics.unusable.share import Share
from pipelines.releases.schema import read_own
from pipelines.views.headline import MIDDLE, QUANTILE
from transforms.encoders.prefixes import BinEncoder
from transforms.encoders.reports import UNUSABLE, PathReporting

if TYPE_CHECKING:
    from typing_extensions import Self

    from transforms.collector.collect_counts import Counted
    from transforms.elements.blocks import Generator

Ends = tuple[Floats, Floats]

_BINS = 1024
# (children of a node, growth of a level's weight from one level to the next one down)
_SHAPES = ((2, 1.15), (3, 1.15), (4, 1.3), (8, 1.5), (16, 2.0))


@dataclass(frozen=True, kw_only=True)
class CountedDistribution(Counting):
    """Shares and quantiles of a column of numbers.

    Attributes:
        bins: what numbers are told by.
        probabilities: of the quantiles that are published.
    """

    kind = "distribution"
    Options = DistributionOptions
    unstated = DistributionOptions.of_reports | {"quantiles"}

    reporting: PathReporting  # type: ignore[assignment]
    bins: BinEncoder
    probabilities: tuple[float, ...]

    @classmethod
    def resolve(
        cls,
        options: DistributionOptions,
        source: inputs.Source = inputs.ALONE,
        open_rng: Generator = SecureRandom,
    ) -> Self:
        require_counted(options)
        bounds, probabilities = read_bounds(options.bounds), read_quantiles(options.quantiles)
        telemetry = open_numbers(options, source, empty=True)
        bins = BinEncoder(options.column, bounds, options.bins or _BINS)
        if not (np.diff(bins.edges) > 0).all():
            raise RequestError("--bins: the bounds are too close for so many bins")
        design, reporting = _least(options, bins.bins)
        return cls(
            options=options, telemetry=telemetry, open_rng=open_rng, design=design,
            reporting=reporting, bins=bins, probabilities=probabilities,
        )  # fmt: skip

    def redesigned(self) -> Self:
        design, reporting = _least(self.options, self.bins.bins, self.sealed)
        return replace(self, design=design, reporting=reporting)

    @property
    def line_types(self) -> dict[str, pa.DataType]:
        return {self.options.column: pa.float64()}

    def encoder(self, coins: Any = None) -> BinEncoder:  # type: ignore[override]
        return self.bins

    @property
    def error(self) -> float:
        """Of the number of units up to the middle, if as many lie above it."""
        return math.sqrt(_of_half(self.reporting.tree, self.design))

    @property
    def _typical(self) -> Typical:
        return Typical(self.expected, self.error)

    @property
    def expected_error(self) -> str:
        return f"share below ± {100 * self.error / self.expected:.2g} % of {self.expected:,}"

    def totals(self, counts: Any) -> Floats:
        raise TypeError("a distribution is no total")

    def errors(self) -> result.FigureError:
        """Of a count up to the middle: for the page."""
        return result.FigureError(None, self.error)

    @property
    def influence(self) -> float:
        """Of a count up to any point: slots are one a level, and agree where levels do."""
        if self.by_devices:
            return float(sum(self.design.lifts[: len(self.reporting.tree.levels)]))
        return float(len(self.reporting.tree.levels)) if self.collects else 1.0

    def unusable_parts(self, estimate: Counted, confidence: float) -> Mapping[str, Share]:
        half, variances = (1 + confidence) / 2, self.design.variances[:-1]
        none = self.beside(UNUSABLE, estimate, half)
        if none is None:
            return {}
        tree = self.reporting.tree
        leaves = tree.estimate(self.design.centred(estimate.counts)[:-1], variances)
        every = math.sqrt(tree.variance(np.ones(tree.cells), variances))
        # As far as the heaviest of the noises that all bins add up from.
        far = every * max(
            result.FigureError.of_level(self.design, place, 1).far(half)
            for place in range(len(tree.levels))
        )
        return {"": Share.of_counts(none, (float(leaves.sum()), far))}

    @property
    def figures(self) -> dict[str, str]:
        return {TABLE: "share", QUANTILES: QUANTILE}

    @property
    def title(self) -> str:
        return f"{self.options.column}: distribution"

    @property
    def headline(self) -> dict[str, str]:
        return {"table": QUANTILES, "rows": MIDDLE}

    @property
    def whole_numbers(self) -> bool:
        """Whether all numbers are whole, as far as the files' columns say so."""
        return are_whole(self.telemetry, self.options.column, self.bins.bounds)

    def _edges(self) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """(rows + 1,) each: where the table's rows begin and end, and how many bins lie below."""
        edges = self.bins.edges
        if not self.whole_numbers:
            return edges, np.arange(edges.size)
        # Of whole numbers as many lie below 4.88 as below 5, and none between two edges of one
        # rounding; behind the last number, which the last bin holds, is the next one.
        ends = np.append(np.ceil(edges[:-1]), edges[-1] + 1).astype(np.int64)
        return np.unique(ends, return_index=True)

    def tables(self, estimate: Counted) -> dict[str, pa.Table]:
        tree, variances = self.reporting.tree, self.design.variances[:-1]
        leaves = tree.estimate(self.design.centred(estimate.counts)[:-1], variances)
        edges, places = self._edges()
        below = np.append(0.0, np.cumsum(leaves))[places]
        cumulative, one, all_ = self._shares_below(below, places)
        errors = np.sqrt(tree.range_variances(places[:-1], places[1:], variances))
        columns = {
            "low": edges[:-1], "high": edges[1:], "estimate": np.diff(cumulative),
            f"{self.unit}s": np.diff(below), f"{self.unit}s_standard_error": errors,
            "cumulative": cumulative[1:], "cumulative_lower": one[0][1:],
            "cumulative_upper": one[1][1:], "cumulative_lower_simultaneous": all_[0][1:],
            "cumulative_upper_simultaneous": all_[1][1:],
        }  # fmt: skip
        estimates = quantiles(self.probabilities, columns["estimate"], edges, self.whole_numbers)
        lower, upper = quantile_limits(self.probabilities, *one, edges)
        # Of whole numbers a bin ends with its last one, and not with the first of the next.
        ends = {"estimate": estimates, "lower": lower, "upper": upper - self.whole_numbers}
        numbers = {name: column.astype(edges.dtype) for name, column in ends.items()}
        rows = {"p": list(self.probabilities), **numbers}
        return {TABLE: pa.table(columns), QUANTILES: pa.table(rows)}

    def _shares_below(self, below: Floats, places: NDArray[np.int64]) -> tuple[Floats, Ends, Ends]:
        """Of the shares below some edges (estimates, limits of each, limits of all together).

        Args:
            below: (k,) the estimated counts below them; of the first 0, of the last all.
            places: (k,) how many bins lie below them.
        """
        tree, variances = self.reporting.tree, self.design.variances[:-1]
        total, known = float(below[-1]), np.linspace(0.0, 1.0, below.size)
        if total > 0:
            known[1:-1] = below[1:-1] / total
        cumulative = _fitted(known)
        spread = math.sqrt(tree.variance(np.ones(tree.cells), variances))
        shares = np.zeros(tree.cells + 1)
        shares[places] = np.clip(known, 0, 1)
        errors = np.sqrt(tree.below_variances(shares, variances)[places])
        ends = []
        for comparisons in (1, below.size - 1):
            far = self.far(comparisons)
            fewest = total - far * spread
            # A share m is refuted where the count below less m times all is far from 0: divided by
            # the fewest that there may be. Counts are whole, so noise of a few units goes in steps.
            half = (far * errors + 0.5) / fewest if fewest > 0 else np.full(below.size, np.inf)
            half[0] = half[-1] = 0.0
            ends.append((known - half, known + half))
        # The fit keeps order, so limits hold its estimate. Of 100 releases of six data sets single
        # ones held in 97.3 to 99.4 % after it, and in 97.3 to 98.1 % before: a flat stretch has one
        # limit, and not hundreds of which some miss. It must come before they are cut to 0 .. 1:
        # those that are held in 64 % of a stretch where nothing is.
        one = _around(cumulative, *(_fitted(end) for end in ends[0]))
        # Limits that hold together hold for all further shares, too, which are no smaller.
        low, high = (np.clip(end, 0, 1) for end in ends[1])
        low, high = np.maximum.accumulate(low), np.minimum.accumulate(high[::-1])[::-1]
        return cumulative, one, (np.minimum(low, one[0]), np.maximum(high, one[1]))

    @property
    def error_statement(self) -> dict[str, Any]:
        return {
            "standard_error_of_a_count_up_to_the_middle": self.error,
            "covers": "the noise of the dummies; of each user one number, drawn uniformly among "
            "its rows" if self.unit == "user" else "the noise of the dummies",
            "reading": "Counts of all levels of the tree are brought to agree by weighted least "
            "squares; the shares below are the rising curve nearest to what comes out. Limits of "
            "shares and of quantiles are of the numbers as they were, clipped.",
        }  # fmt: skip

    @property
    def words(self) -> list[str]:
        what = "One number of each user, drawn uniformly among its rows," * (self.unit == "user")
        whole = " All are whole, as are ends of bins and quantiles." * self.whole_numbers
        sentence = f"{what or 'The number of a row'} was told by its bin of {self.bins.bins:,}."
        return [f"{sentence}{whole} A share below is of the numbers less than the `high` of a bin."]

    def page(self, tables: Mapping[str, pa.Table], statement: Mapping[str, Any]) -> bytes:
        figure = view.cumulative(tables[TABLE], self.options.confidence)
        return view.page(tables[QUANTILES], statement, figure=figure)

    def show(self, screen: Console) -> None:
        table = read_own(self.options.output, QUANTILES)
        view.show_quantiles(screen, table, self.options.confidence)


def _fitted(shares: Floats) -> Floats:
    """The rising shares that are nearest to some, of which the first is 0 and the last is 1."""
    if not np.isfinite(shares).all():  # nobody may have a number
        return np.append(0.0, np.where(shares[1:] > 0, 1.0, 0.0))
    return np.concatenate([[0.0], rising(shares[1:-1]), [1.0]])


def _around(estimate: Floats, low: Floats, high: Floats) -> Ends:
    """Limits that hold the estimate to the last bit."""
    return np.minimum(low, estimate), np.maximum(high, estimate)


def _of_half(tree: Tree, design: NoisyCounters) -> float:
    """The variance of how many lie below the middle, less half of all."""
    index = np.arange(tree.cells)
    return tree.variance((index < tree.cells // 2) - 0.5, design.variances[:-1])


def _least(
    options: DistributionOptions, bins: int, sealed: bool = False
) -> tuple[NoisyCounters, PathReporting]:
    """The tree with the least error of a share below.

    Args:
        options: of the request.
        bins: how many leaves it has at the least.
        sealed: as in `designed`; the shuffler's dummies are few then, if some tree has few.

    Raises:
        RequestError: the target is out of reach.
    """
    candidates, why = [], RequestError("")
    most = MOST_SEALED if sealed and options.dummies == "shuffler" else math.inf
    for fanout, growth in _SHAPES:
        reporting = PathReporting(Tree.uniform(bins, fanout, growth))
        try:
            design = meeting(options, reporting.tree.levels, reporting.sides, sealed)
        except RequestError as refused:
            why = refused
            continue
        excess = max(design.number - most, 0)
        candidates.append((excess, _of_half(reporting.tree, design), design, reporting))
    if not candidates:
        raise why
    *_, design, reporting = min(candidates, key=lambda candidate: candidate[:2])
    return design, reporting

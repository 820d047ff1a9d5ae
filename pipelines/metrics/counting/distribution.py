"""`hushbeam distribution --dummies shuffler`: shares and quantiles from a tree of counters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from rich.console import Console

from mechanisms.channel import Floats
from mechanisms.counters.choose import NoisyCounters
from mechanisms.counters.tree import Tree
from mechanisms.distribution.quantiles import quantile_limits, quantiles
from mechanisms.postprocess.simplex import project
from mechanisms.randomness import SecureRandom
from pipelines import inputs
from pipelines.errors import RequestError
from pipelines.metrics.counting import result, view
from pipelines.metrics.counting.design import MOST_SEALED, meeting
from pipelines.metrics.counting.drowned import Typical
from pipelines.metrics.counting.metric import Counting
from pipelines.metrics.counting.options import require_counted
from pipelines.metrics.distribution.metric import read_quantiles
from pipelines.metrics.distribution.options import DistributionOptions
from pipelines.metrics.distribution.result import QUANTILES, TABLE
from pipelines.metrics.schema import read_own
from pipelines.numbers import open_numbers, read_bounds
from pipelines.views.headline import MIDDLE, QUANTILE
from transforms.encoders.bins import BinEncoder
from transforms.encoders.reports import PathReporting

if TYPE_CHECKING:
    from typing_extensions import Self

    from transforms.blocks import Generator
    from transforms.collect_counts import Counted

_OTHERS = frozenset({"mechanism", "smooth", "rows_per_user"})
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
    unstated = _OTHERS | {"quantiles"}

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
        require_counted(options, _OTHERS)
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

    def errors(self) -> result.Errors:
        """Of a count up to the middle: for the page."""
        return result.Errors(None, self.error)

    @property
    def influence(self) -> float:
        """Of a count up to any point: slots are one a level, and agree where levels do."""
        if self.by_devices:
            return float(sum(self.design.lifts[: len(self.reporting.tree.levels)]))
        return float(len(self.reporting.tree.levels)) if self.collects else 1.0

    @property
    def figures(self) -> dict[str, str]:
        return {TABLE: "share", QUANTILES: QUANTILE}

    @property
    def title(self) -> str:
        return f"{self.options.column}: distribution"

    @property
    def headline(self) -> dict[str, str]:
        return {"table": QUANTILES, "rows": MIDDLE}

    def tables(self, estimate: Counted) -> dict[str, pa.Table]:
        tree, variances = self.reporting.tree, self.design.variances[:-1]
        leaves = tree.estimate(self.design.centred(estimate.counts)[:-1], variances)
        total, edges = float(leaves.sum()), self.bins.edges
        shares = project(leaves / total) if total > 0 else np.full(leaves.size, 1 / leaves.size)
        spread = np.sqrt([tree.range_variance(i, i, variances) for i in (0, leaves.size - 1)]).max()
        below = np.append(0.0, np.cumsum(leaves))
        one, all_ = (self._limits(below, total, k) for k in (1, leaves.size))
        columns = {
            "low": edges[:-1], "high": edges[1:], "estimate": shares,
            f"{self.unit}s": leaves, f"{self.unit}s_standard_error": np.full(leaves.size, spread),
            "cumulative": np.cumsum(shares), "cumulative_lower": one[0][1:],
            "cumulative_upper": one[1][1:], "cumulative_lower_simultaneous": all_[0][1:],
            "cumulative_upper_simultaneous": all_[1][1:],
        }  # fmt: skip
        asked = quantiles(self.probabilities, shares, edges)
        low, high = quantile_limits(self.probabilities, *one, edges)
        asked = np.clip(asked, low, high)  # shares were moved to be nonnegative
        rows = {"p": list(self.probabilities), "estimate": asked, "lower": low, "upper": high}
        return {TABLE: pa.table(columns), QUANTILES: pa.table(rows)}

    def _limits(self, below: Floats, total: float, comparisons: int) -> tuple[Floats, Floats]:
        """(bins + 1,) limits of the shares below the edges, with the stated confidence."""
        tree, variances = self.reporting.tree, self.design.variances[:-1]
        far = self.far(comparisons)
        sure = total - far * math.sqrt(tree.variance(np.ones(tree.cells), variances))
        if not sure > 0:  # nobody may have a number
            return np.append(np.zeros(below.size - 1), 1.0), np.append(0.0, np.ones(below.size - 1))
        middle = np.clip(below / total, 0, 1)
        errors = np.sqrt(tree.below_variances(middle, variances))
        # A share m is refuted where the count below less m times all is far from 0: divided by the
        # fewest that there may be. Counts are whole, so noise of a few units goes in steps.
        half = (far * errors + 0.5) / sure
        half[0] = half[-1] = 0.0
        middle[0], middle[-1] = 0.0, 1.0
        low, high = np.clip(middle - half, 0, 1), np.clip(middle + half, 0, 1)
        if comparisons == 1:
            return low, high
        # Shares below rise, so limits that hold together hold for all further ones, too.
        return np.maximum.accumulate(low), np.minimum.accumulate(high[::-1])[::-1]

    @property
    def error_statement(self) -> dict[str, Any]:
        return {
            "standard_error_of_a_count_up_to_the_middle": self.error,
            "covers": "the noise of the dummies; of each user one number, drawn uniformly among "
            "its rows" if self.unit == "user" else "the noise of the dummies",
            "reading": "Counts of all levels of the tree are brought to agree by weighted least "
            "squares. Limits of shares and of quantiles are of the numbers as they were, clipped.",
        }  # fmt: skip

    @property
    def words(self) -> list[str]:
        what = "One number of each user, drawn uniformly among its rows," * (self.unit == "user")
        return [f"{what or 'The number of a row'} was told by its bin of {self.bins.bins:,}."]

    def page(self, tables: Mapping[str, pa.Table], statement: Mapping[str, Any]) -> bytes:
        figure = view.cumulative(tables[TABLE], self.options.confidence)
        return view.page(tables[QUANTILES], statement, figure=figure)

    def show(self, screen: Console) -> None:
        table = read_own(self.options.output, QUANTILES)
        view.show_quantiles(screen, table, self.options.confidence)


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
    found, why = [], RequestError("")
    most = MOST_SEALED if sealed and options.dummies == "shuffler" else math.inf
    for fanout, growth in _SHAPES:
        reporting = PathReporting(Tree.uniform(bins, fanout, growth))
        try:
            design = meeting(options, reporting.tree.levels, reporting.sides, sealed)
        except RequestError as refused:
            why = refused
            continue
        excess = max(design.number - most, 0)
        found.append((excess, _of_half(reporting.tree, design), design, reporting))
    if not found:
        raise why
    *_, design, reporting = min(found, key=lambda each: each[:2])
    return design, reporting

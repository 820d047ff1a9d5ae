"""How totals of one shape travel in noisy counters, and what is known of them on arrival."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from mechanisms.channel import Messages
from mechanisms.counters.levels import Layout, Portion
from mechanisms.postprocess.intervals import normal_quantile
from mechanisms.randomness import RandomSource
from pipelines.metrics.counting.result import FigureError, Noisy
from pipelines.metrics.statistics.evidence import Accuracy, Evidence
from pipelines.wording import ONE_ROW
from transforms.encoders.reports import reports_of
from transforms.encoders.users import UserDigest, fresh_digest

if TYPE_CHECKING:
    import apache_beam as beam

    from mechanisms.counters.choose import NoisyCounters
    from pipelines.metrics.counting.by_counters import ByCounters
    from transforms.collector.collect_counts import Counted
    from transforms.elements.chains import Chain
    from transforms.units.contributions import EncodedContributions
    from transforms.units.units import ReportUnits


PARTS = 1 << 24
"""Into how many what a user raises is divided, where its rows share it: roundings of 10^8 users
have a standard error of 1.2."""


def parts_of(options: Any) -> int:
    """The same for a request: 1 where one row is drawn."""
    return PARTS if getattr(options, "shared", False) else 1


def portions(parts: int, levels: int) -> dict[str, Any]:
    """What `meeting` is told of levels that a user raises once in so many parts."""
    return {"parts": (Portion(1, 0, parts),) * levels} if parts > 1 else {}


def rounding_of(release: ByCounters) -> float:
    """The standard deviation of what rounding adds to a count, at the most; 0 where rows share
    nothing.
    """
    return math.sqrt(release.expected / release.parts) / 2 if release.parts > 1 else 0.0


class ReportShape:
    """What is the same of reports to counters, whatever is made of them.

    Attributes:
        rows_of_a_user: which of them count, in words.
        shared: the same where they share what one raises.
    """

    rows_of_a_user: ClassVar[str] = ONE_ROW
    shared: ClassVar[str] = "all, which share one alike"

    def totals(self, release: ByCounters, counts: Sequence[np.ndarray]) -> np.ndarray:
        """(groups,) totals of the statistic's levels, less their expected dummies.

        Raises:
            TypeError: what is made of these counters is more than totals.
        """
        raise TypeError(f"{release.kind} is no total")

    def worth(self, release: ByCounters) -> float:
        """What one more of a counter of weight 1 adds to a figure's total."""
        return 1.0

    def unit_error(self, release: ByCounters) -> float:
        """The mean squared error that is predicted, times the number of units."""
        return release.design.column_variance / release.parts**2

    def influence(self, release: ByCounters) -> float:
        """How far one liar moves a figure that counters of weight 1 make, at the most.

        Args:
            release: whose figure.
        """
        amounts = release.reporting.amounts
        if release.collects and not release.by_devices:
            return float(amounts.poisoning)
        rows = zip(amounts.levels, release.design.lifts, strict=False)
        lies = np.array([level.weight * lift for level, lift in rows])
        return float(max(lies[lies > 0].sum(), -lies[lies < 0].sum()))

    def nothing(self, release: ByCounters) -> np.ndarray:
        """The collector's state before anything has come."""
        return release.mechanism.count(np.empty(0, np.uint64))

    def settled(self, release: ByCounters) -> dict[str, Any]:
        """What was settled of the request where it does not say."""
        return {}

    # The clients.

    def contributions(
        self,
        release: ByCounters,
        tables: beam.PCollection,
        named: UserDigest | None,
        together: Layout | None = None,
    ) -> EncodedContributions:
        """As of `Metric.contributions`; `together` as of `ReportUnits`."""
        return tables | "Contributions" >> self._reports(release, named, together)

    def chains(self, release: ByCounters, last: Chain) -> tuple[Chain, ...]:
        """The same of messages that are added up, each up to a group, and `last` behind them."""
        return self._reports(release, None, release.design.layout).chains(last)

    def _reports(
        self, release: ByCounters, named: UserDigest | None, together: Layout | None
    ) -> ReportUnits:
        from pipelines.metrics.metric import viewed
        from transforms.elements.blocks import bucket_count
        from transforms.units.units import ReportUnits

        users, keep = named or fresh_digest(release.options.user_column), named is not None
        buckets, encoder = bucket_count(release.telemetry.about), viewed(release)
        own = release.reporting, users, buckets, release.open_rng, keep, together
        return ReportUnits(encoder, *own)

    def own_reports(
        self, release: ByCounters, blocks: Sequence[Any], one: bool, rng: RandomSource
    ) -> Iterator[Messages]:
        """What a device sends.

        Args:
            release: whose figures.
            blocks: of the device's rows.
            one: whether all of them are one unit's.
            rng: the generator of the device.

        Yields:
            (units, F) words.
        """
        cells = np.concatenate([np.empty(0, np.int64), *(block.cells for block in blocks)])
        numbers = [block.amounts for block in blocks if hasattr(block, "amounts")]
        holds = [block.applies for block in blocks if block.applies is not None]
        n = min(1, cells.size) if one else cells.size
        users = np.zeros(cells.size, np.int64) if one else np.arange(n)
        amounts = np.concatenate(numbers) if numbers else None
        applies, groups = np.concatenate(holds) if holds else None, cells.astype(np.int64)
        yield from reports_of(release.reporting, users, groups, amounts, n, applies, rng)


class Shape(ReportShape, ABC):
    """Counters for a workload of one shape."""

    @abstractmethod
    def least(self, statistic: Any, sealed: bool) -> tuple[NoisyCounters, Any]:
        """What users send, and what hides it, with the least error; as of `ByCounters.least`."""

    @abstractmethod
    def accuracy(self, release: ByCounters) -> Accuracy:
        """What is known of the noise, whatever the data are."""

    @abstractmethod
    def evidence(self, release: ByCounters, estimate: Counted) -> Evidence:
        """What is known of a batch."""


def beside(release: ByCounters, estimate: Counted, name: str, confidence: float) -> Noisy | None:
    """How many units lost something, and how far off that may be; None if nobody counts it.

    Args:
        release: whose counters.
        estimate: of the collector.
        name: of what stands beside the statistic.
        confidence: of what is said.
    """
    names = release.reporting.beside
    if name not in names:
        return None
    count = release.design.centred(estimate.counts)[-1][names.index(name)]
    place = len(release.reporting.levels) - 1
    return float(count), FigureError.of_level(release.design, place, 1).half(confidence)


def far(release: ByCounters, comparisons: int) -> float:
    """How many standard errors an interval reaches, where so many are to hold together.

    It is of any sum of counters, of whatever levels of the statistic.
    """
    confidence = release.options.confidence
    tail = (1 - confidence) / comparisons / 2
    levels = len(release.reporting.levels) - len(release.reporting.sides)
    laws = [release.design.level_law(i) for i in range(levels)]
    # Tails of Laplace noise are heavier than normal ones; those of sums lie between.
    # At a great epsilon a variance is rounded to 0: such noise is 0 but for less than any tail.
    spreads = [(law, math.sqrt(law.var())) for law in laws]
    heavy = max((law.isf(tail) / spread for law, spread in spreads if spread > 0), default=0.0)
    return max(normal_quantile(confidence, comparisons), heavy)

"""How totals of one shape travel in noisy counters, and what is known of them on arrival."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mechanisms.channel import Messages
from mechanisms.randomness import RandomSource
from pipelines.metrics.counting.metric import Counting
from pipelines.metrics.statistics.evidence import Accuracy, Evidence
from transforms.encoders.users import UserDigest

if TYPE_CHECKING:
    import apache_beam as beam

    from mechanisms.counters.choose import NoisyCounters
    from pipelines.metrics.counting.by_counters import ByCounters
    from transforms.collector.collect_counts import Counted
    from transforms.units.contributions import EncodedContributions


class Shape(ABC):
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
        return release.design.column_variance

    def influence(self, release: ByCounters) -> float:
        """How far one liar moves a figure, at the most.

        Args:
            release: whose figure.
        """
        return release.counter_influence

    def settled(self, release: ByCounters) -> dict[str, Any]:
        """What was settled of the request where it does not say."""
        return {}

    # The clients.

    def contributions(
        self, release: ByCounters, tables: beam.PCollection, named: UserDigest | None
    ) -> EncodedContributions:
        """As of `Metric.contributions`."""
        return Counting.contributions(release, tables, named)

    def own_reports(
        self, release: ByCounters, blocks: Sequence[Any], one: bool, rng: RandomSource
    ) -> Iterator[Messages]:
        """As of `Counting.own_reports`."""
        return Counting.own_reports(release, blocks, one, rng)

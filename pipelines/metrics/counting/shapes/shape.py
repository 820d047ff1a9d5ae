"""How totals of one shape travel in noisy counters, and what is known of them on arrival."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from pipelines.metrics.statistics.evidence import Accuracy, Evidence

if TYPE_CHECKING:
    from mechanisms.counters.choose import NoisyCounters
    from pipelines.metrics.counting.by_counters import ByCounters
    from transforms.collector.collect_counts import Counted


class Shape(ABC):
    """Counters for a workload of one shape."""

    of_rows: ClassVar[bool] = False  # whether one row of each unit counts, with all that is in it

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
        """How far one liar moves a figure, at the most."""
        return release.counted_influence

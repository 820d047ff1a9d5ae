"""The collector of a distribution: messages -> counts -> shares, quantiles, mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import apache_beam as beam
import numpy as np
from apache_beam import typehints

from mechanisms.distribution.estimator import DistributionEstimator, Summary
from transforms.collect_counts import Counted, CountMessages


class Distribution(NamedTuple):
    """What a batch of reports says about a column of numbers.

    Attributes:
        n: how many valid reports were counted.
        invalid: how many were dropped because no client could have sent them.
        summary: everything else, on the scale of [-1, 1]; None if n is 0.
    """

    n: int
    invalid: int
    summary: Summary | None

    @property
    def known(self) -> Summary:
        """The summary, where there are reports.

        Raises:
            ValueError: there are none.
        """
        if self.summary is None:
            raise ValueError("there is no distribution of no reports")
        return self.summary


@typehints.with_input_types(np.ndarray)
@typehints.with_output_types(Distribution)
class DistributionCombineFn(CountMessages):
    """Counts messages; expectation maximisation and limits come once, at the end."""

    def __init__(
        self,
        estimator: DistributionEstimator,
        confidence: float,
        probabilities: tuple[float, ...],
    ) -> None:
        super().__init__(estimator.mechanism)
        self._estimator = estimator
        self._confidence, self._probabilities = confidence, probabilities

    def extract_output(self, state: Counted) -> Distribution:  # type: ignore[override]
        n = int(state.counts.sum())
        if not n:
            return Distribution(0, state.invalid, None)
        summary = self._estimator.summarise(state.counts, self._confidence, self._probabilities)
        return Distribution(n, state.invalid, summary)


@dataclass
class CollectDistribution(beam.PTransform):
    """Blocks of shuffled messages in, one `Distribution` out: also of an empty batch.

    Attributes:
        estimator: what the counts go through.
        confidence: of each interval.
        probabilities: of the quantiles that are wanted.
    """

    estimator: DistributionEstimator
    confidence: float
    probabilities: tuple[float, ...]

    def expand(self, messages: beam.PCollection) -> beam.PCollection:
        combine = DistributionCombineFn(self.estimator, self.confidence, self.probabilities)
        return messages | "Count and estimate" >> beam.CombineGlobally(combine)

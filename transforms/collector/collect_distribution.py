"""The collector of a distribution: messages -> counts -> shares, quantiles, mean."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import apache_beam as beam

from mechanisms.distribution.estimator import DistributionEstimator, NumberSummary
from transforms.collector.collect import Collect
from transforms.collector.collect_counts import Counted


class CollectedNumbers(NamedTuple):
    """What a batch of reports says about a column of numbers.

    Attributes:
        n: how many valid reports were counted.
        invalid: how many were dropped because no client could have sent them.
        summary: everything else, on the scale of [-1, 1]; None if n is 0.
    """

    n: int
    invalid: int
    summary: NumberSummary | None

    @property
    def known(self) -> NumberSummary:
        """The summary, where there are reports.

        Raises:
            ValueError: there are none.
        """
        if self.summary is None:
            raise ValueError("there is no distribution of no reports")
        return self.summary


@dataclass
class CollectDistribution(beam.PTransform):
    """Blocks of shuffled messages in, one `CollectedNumbers` out: also of an empty batch.

    Attributes:
        estimator: what the counts go through: expectation maximisation, and limits.
        confidence: of each interval.
        probabilities: of the quantiles that are wanted.
    """

    estimator: DistributionEstimator
    confidence: float
    probabilities: tuple[float, ...]

    def expand(self, messages: beam.PCollection) -> beam.PCollection:
        estimate = partial(distribution, self.estimator, self.confidence, self.probabilities)
        collect = Collect(self.estimator.mechanism, estimate)
        return messages | "Collect" >> collect.with_output_types(CollectedNumbers)


def distribution(
    estimator: DistributionEstimator,
    confidence: float,
    probabilities: tuple[float, ...],
    counted: Counted,
    users: int,
) -> CollectedNumbers:
    """The estimate of a batch: see `CollectDistribution`; everybody sends one message."""
    if not counted.messages:
        return CollectedNumbers(0, counted.invalid, None)
    summary = estimator.summarise(counted.counts, confidence, probabilities)
    return CollectedNumbers(counted.messages, counted.invalid, summary)

"""The collector: messages -> counts -> estimates, as one CombineFn.

The collector of a distribution: messages -> counts -> shares, quantiles, mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
from apache_beam import typehints
from apache_beam.pvalue import AsSingleton
from numpy.typing import NDArray

from mechanisms.distribution.estimator import DistributionEstimator, NumberSummary
from mechanisms.frequency.choice import AUTO, publish, require_known
from mechanisms.frequency.oracle import FrequencyOracle
from transforms.collector.collect_counts import Collector, CollectorState, Counted, CountMessages
from transforms.elements.combine_all import CombineAll

# (what a batch comes to, how many users sent it if that was counted apart, else 0) -> an estimate
Estimate = Callable[[Counted, int], Any]


@typehints.with_input_types(np.ndarray)
@typehints.with_output_types(Any)
class EstimateFn(CountMessages):
    """Counts messages; what is made of the counts, POP and EM and all, comes once, at the end."""

    def __init__(self, mechanism: Collector, estimate: Estimate) -> None:
        super().__init__(mechanism)
        self._estimate = estimate

    def extract_output(self, state: CollectorState) -> Any:
        return self._estimate(self.counted(state), 0)


@typehints.with_input_types(Counted)
@typehints.with_output_types(Any)
class EstimateCountsFn(beam.CombineFn):
    """The same from counts, with the number of users as a side input.

    Beam gives side inputs to all of a CombineFn. Were this the one that counts, every message
    would have to wait, written down and read again, until all users are counted.
    """

    def __init__(self, estimate: Estimate) -> None:
        self._estimate = estimate

    def create_accumulator(self, users: int) -> list[Counted]:
        return []

    def add_input(self, parts: list[Counted], counted: Counted, users: int) -> list[Counted]:
        return [*parts, counted]

    def merge_accumulators(self, states: Iterable[list[Counted]], users: int) -> list[Counted]:
        return [counted for parts in states for counted in parts]

    def extract_output(self, parts: list[Counted], users: int) -> Any:
        counts, messages, invalid = zip(*parts, strict=True)
        return self._estimate(Counted(sum(counts), sum(messages), sum(invalid)), users)


@dataclass
class Collect(beam.PTransform):
    """Blocks of messages in, one estimate out: also of an empty batch, but not of an empty window.

    Attributes:
        mechanism: what the clients ran.
        estimate: from the counts.
        users: numbers that add up to how many users reported; needed only if messages do not tell.
    """

    mechanism: Collector
    estimate: Estimate
    users: beam.PCollection | None = None

    def expand(self, messages: beam.PCollection) -> beam.PCollection:
        if self.users is None or not self.mechanism.several:
            return messages | "Count" >> CombineAll(EstimateFn(self.mechanism, self.estimate))
        total = self.users | "Add up users" >> beam.CombineGlobally(sum).without_defaults()
        estimate = beam.CombineGlobally(
            EstimateCountsFn(self.estimate), AsSingleton(total, default_value=0)
        )
        counted = messages | "Count" >> CombineAll(CountMessages(self.mechanism))
        return counted | "Estimate" >> estimate.without_defaults()


class Frequencies(NamedTuple):
    """What a batch of reports says about the population.

    Attributes:
        n: how many users' valid reports were counted.
        invalid: how many were dropped because no client could have sent them.
        unbiased: (d,) estimates straight from the counts; empty if n is 0.
        estimate: (d,) the same after post-processing.
        messages: how many valid messages these users sent.
        postprocess: what was done, by its name: for "auto", what was chosen.
        risks: of each way that was compared, the estimated mean squared error of a share; None if
            nothing was.
    """

    n: int
    invalid: int
    unbiased: NDArray[np.float64]
    estimate: NDArray[np.float64]
    messages: int
    postprocess: str = "none"
    risks: Mapping[str, float] | None = None


@dataclass
class CollectFrequencies(beam.PTransform):
    """Blocks of shuffled messages in, one `Frequencies` out.

    Attributes:
        mechanism: what perturbed the messages.
        postprocess: one of `mechanisms.frequency.choice.POSTPROCESSING`.
        users: numbers that add up to how many users reported; needed where a user sends several
            messages, for their number does not tell.
        apart: whether the last value stands for none.
    """

    mechanism: FrequencyOracle
    postprocess: str = AUTO
    users: beam.PCollection | None = None
    apart: bool = False

    def __post_init__(self) -> None:
        require_known(self.postprocess)

    def expand(self, messages: beam.PCollection) -> beam.PCollection:
        estimate = partial(frequencies, self.mechanism, self.postprocess, apart=self.apart)
        collect = Collect(self.mechanism, estimate, self.users)
        return messages | "Collect" >> collect.with_output_types(Frequencies)


def frequencies(
    mechanism: FrequencyOracle,
    postprocess: str,
    counted: Counted,
    users: int,
    apart: bool = False,
) -> Frequencies:
    """The estimate of a batch, and what is made of it: see `CollectFrequencies`.

    Args:
        mechanism: what perturbed the messages.
        postprocess: see there.
        counted: the batch.
        users: how many users reported, as far as somebody counted them.
        apart: see there.
    """
    n = mechanism.users(counted.counts, users)
    if not n:
        return Frequencies(0, counted.invalid, np.empty(0), np.empty(0), counted.messages)
    unbiased = mechanism.estimate(counted.counts, n)
    shares, name, risks = publish(postprocess, mechanism, unbiased, n, apart=apart)
    return Frequencies(n, counted.invalid, unbiased, shares, counted.messages, name, risks)


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
        collect = Collect(self.estimator.mechanism, self.summarised)
        return messages | "Collect" >> collect.with_output_types(CollectedNumbers)

    def summarised(self, counted: Counted, users: int) -> CollectedNumbers:
        """The estimate of a batch; everybody sends one message."""
        if not counted.messages:
            return CollectedNumbers(0, counted.invalid, None)
        summary = self.estimator.summarise(counted.counts, self.confidence, self.probabilities)
        return CollectedNumbers(counted.messages, counted.invalid, summary)

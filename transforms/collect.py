"""The collector: messages -> counts -> estimates."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import apache_beam as beam
import numpy as np
from apache_beam import typehints
from numpy.typing import NDArray

from mechanisms.frequency.oracle import FrequencyOracle
from mechanisms.postprocess.simplex import project

POSTPROCESSING: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    "pop": project,
    "none": np.copy,
}


class Frequencies(NamedTuple):
    """What a batch of reports says about the population.

    Attributes:
        n: how many valid reports were counted.
        invalid: how many were dropped because no client could have sent them.
        unbiased: (d,) estimates straight from the counts; empty if n is 0.
        estimate: (d,) the same after post-processing.
    """

    n: int
    invalid: int
    unbiased: NDArray[np.float64]
    estimate: NDArray[np.float64]


class State(NamedTuple):
    """A collector's state: it merges by addition, so any bundling gives the same result."""

    counts: NDArray[np.int64]
    invalid: int


@typehints.with_input_types(np.ndarray)
@typehints.with_output_types(Frequencies)
class FrequencyCombineFn(beam.CombineFn):
    """Counts messages; decodes and post-processes once, at the end."""

    def __init__(self, mechanism: FrequencyOracle, postprocess: str) -> None:
        if postprocess not in POSTPROCESSING:
            raise ValueError(f"postprocess must be one of {', '.join(POSTPROCESSING)}")
        self._mechanism, self._postprocess = mechanism, postprocess

    def create_accumulator(self) -> State:
        return State(np.zeros(self._mechanism.codes, np.int64), 0)

    def add_input(self, state: State, messages: NDArray[np.uint64]) -> State:
        valid = self._mechanism.valid(messages)
        invalid = int(messages.size - np.count_nonzero(valid))
        counts = self._mechanism.count(messages[valid] if invalid else messages)
        return State(np.add(state.counts, counts, out=state.counts), state.invalid + invalid)

    def merge_accumulators(self, states: Iterable[State]) -> State:
        merged = self.create_accumulator()
        for counts, invalid in states:
            merged = State(
                np.add(merged.counts, counts, out=merged.counts), merged.invalid + invalid
            )
        return merged

    def extract_output(self, state: State) -> Frequencies:
        n = int(state.counts.sum())
        if not n:
            return Frequencies(0, state.invalid, np.empty(0), np.empty(0))
        unbiased = self._mechanism.estimate(state.counts)
        return Frequencies(n, state.invalid, unbiased, POSTPROCESSING[self._postprocess](unbiased))


@dataclass
class CollectFrequencies(beam.PTransform):
    """Blocks of shuffled messages in, one `Frequencies` out.

    Attributes:
        mechanism: what perturbed the messages.
        postprocess: "pop" (projection on the simplex) or "none".
    """

    mechanism: FrequencyOracle
    postprocess: str = "pop"

    def expand(self, messages: beam.PCollection) -> beam.PCollection:
        combine = FrequencyCombineFn(self.mechanism, self.postprocess)
        return messages | "Count and decode" >> beam.CombineGlobally(combine)

"""The collector: messages -> counts -> estimates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import apache_beam as beam
import numpy as np
from apache_beam import typehints
from numpy.typing import NDArray

from mechanisms.central.histogram import CentralHistogram
from mechanisms.frequency.oracle import FrequencyOracle
from mechanisms.postprocess.simplex import POSTPROCESSING
from mechanisms.randomness import SecureRandom
from transforms.blocks import Generator
from transforms.encode import CellBlock
from transforms.progress import REPORTS, tally


class Frequencies(NamedTuple):
    """What a batch of reports says about the population.

    Attributes:
        n: how many users' valid reports were counted.
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
    users: int = 0


class Users(NamedTuple):
    """How many users stand behind some of the messages: travels beside them to the collector."""

    users: int


@typehints.with_input_types(np.ndarray | Users)
@typehints.with_output_types(Frequencies)
class FrequencyCombineFn(beam.CombineFn):
    """Counts messages; decodes and post-processes once, at the end."""

    def __init__(self, mechanism: FrequencyOracle, postprocess: str) -> None:
        if postprocess not in POSTPROCESSING:
            raise ValueError(f"postprocess must be one of {', '.join(POSTPROCESSING)}")
        self._mechanism, self._postprocess = mechanism, postprocess

    def create_accumulator(self) -> State:
        return State(np.zeros(self._mechanism.codes, np.int64), 0)

    def add_input(self, state: State, block: NDArray[np.uint64] | Users) -> State:
        if isinstance(block, Users):
            return state._replace(users=state.users + block.users)
        valid = self._mechanism.valid(block)
        invalid = int(block.size - np.count_nonzero(valid))
        counts = self._mechanism.count(block[valid] if invalid else block)
        np.add(state.counts, counts, out=state.counts)
        return state._replace(invalid=state.invalid + invalid)

    def merge_accumulators(self, states: Iterable[State]) -> State:
        merged = self.create_accumulator()
        for counts, invalid, users in states:
            np.add(merged.counts, counts, out=merged.counts)
            merged = State(merged.counts, merged.invalid + invalid, merged.users + users)
        return merged

    def extract_output(self, state: State) -> Frequencies:
        n = self._mechanism.users(state.counts, state.users)
        if not n:
            return Frequencies(0, state.invalid, np.empty(0), np.empty(0))
        unbiased = self._mechanism.estimate(state.counts, n)
        return Frequencies(n, state.invalid, unbiased, POSTPROCESSING[self._postprocess](unbiased))


@dataclass
class CollectFrequencies(beam.PTransform):
    """Blocks of shuffled messages in, one `Frequencies` out.

    Attributes:
        mechanism: what perturbed the messages.
        postprocess: "pop" (projection on the simplex) or "none".
        users: numbers that add up to how many users reported; needed where a user sends several
            messages, for their number does not tell.
    """

    mechanism: FrequencyOracle
    postprocess: str = "pop"
    users: beam.PCollection | None = None

    def expand(self, messages: beam.PCollection) -> beam.PCollection:
        combine = FrequencyCombineFn(self.mechanism, self.postprocess)
        if self.users is not None:
            counted = self.users | "Users" >> beam.Map(Users).with_output_types(Users)
            messages = (messages, counted) | "Beside the messages" >> beam.Flatten()
        return messages | "Count and decode" >> beam.CombineGlobally(combine)


@dataclass
class CollectExactly(beam.PTransform):
    """Blocks of raw cells in, one `Frequencies` with the release's own noise out.

    The central model: whoever runs this step sees the exact counts.

    Attributes:
        mechanism: what makes the counts private.
        postprocess: "pop" (projection on the simplex) or "none".
        open_rng: opens the generator on the worker that draws the noise.
    """

    mechanism: CentralHistogram
    postprocess: str = "none"
    open_rng: Generator = field(default=SecureRandom)

    def expand(self, blocks: beam.PCollection) -> beam.PCollection:
        noisy = AddNoiseDoFn(self.mechanism, self.postprocess, self.open_rng)
        return (
            blocks
            | "Count cells" >> beam.CombineGlobally(CountCellsFn(self.mechanism.domain_size))
            | "Add noise" >> beam.ParDo(noisy)
        )


@typehints.with_input_types(CellBlock)
@typehints.with_output_types(np.ndarray)
class CountCellsFn(beam.CombineFn):
    """Counts cells."""

    def __init__(self, domain_size: int) -> None:
        self._domain_size = domain_size

    def create_accumulator(self) -> NDArray[np.int64]:
        return np.zeros(self._domain_size, np.int64)

    def add_input(self, counts: NDArray[np.int64], block: CellBlock) -> NDArray[np.int64]:
        tally(REPORTS, block.cells.size)
        return counts + np.bincount(block.cells, minlength=self._domain_size)

    def merge_accumulators(self, states: Iterable[NDArray[np.int64]]) -> NDArray[np.int64]:
        return np.sum([self.create_accumulator(), *states], axis=0)

    def extract_output(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        return counts


@typehints.with_input_types(np.ndarray)
@typehints.with_output_types(Frequencies)
class AddNoiseDoFn(beam.DoFn):
    """Draws the noise of a central release."""

    def __init__(self, mechanism: CentralHistogram, postprocess: str, open_rng: Generator) -> None:
        self._mechanism, self._open_rng = mechanism, open_rng
        self._postprocess = postprocess

    def setup(self) -> None:
        self._rng = self._open_rng()

    def process(self, counts: NDArray[np.int64]) -> Iterator[Frequencies]:
        n = int(counts.sum())
        if not n:
            yield Frequencies(0, 0, np.empty(0), np.empty(0))
            return
        unbiased, estimate = self._mechanism.release(counts, self._rng)
        yield Frequencies(n, 0, unbiased, POSTPROCESSING[self._postprocess](estimate))

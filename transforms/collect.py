"""The collector: messages -> counts -> estimates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import apache_beam as beam
import numpy as np
from apache_beam import typehints
from apache_beam.pvalue import AsSingleton
from numpy.typing import NDArray

from mechanisms.frequency.oracle import FrequencyOracle
from mechanisms.postprocess.simplex import POSTPROCESSING
from mechanisms.randomness import SecureRandom
from transforms.blocks import Generator
from transforms.collect_counts import Counted, CountMessages
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
        counted = messages | "Count" >> beam.CombineGlobally(CountMessages(self.mechanism))
        decode = DecodeDoFn(self.mechanism, self.postprocess)
        return counted | "Decode" >> beam.ParDo(decode, self._reported())

    def _reported(self) -> int | AsSingleton:
        """How many users there are, added up beside the messages if the mechanism would ask.

        As a side input: put among the messages, they would part the counting from the shuffle, and
        every message would be copied from the one to the other.
        """
        if self.users is None or type(self.mechanism).users is FrequencyOracle.users:
            return 0
        total = self.users | "Add up users" >> beam.CombineGlobally(sum).without_defaults()
        return AsSingleton(total, default_value=0)


@typehints.with_input_types(Counted, int)
@typehints.with_output_types(Frequencies)
class DecodeDoFn(beam.DoFn):
    """Estimates from counts, and what is made of them."""

    def __init__(self, mechanism: FrequencyOracle, postprocess: str) -> None:
        if postprocess not in POSTPROCESSING:
            raise ValueError(f"postprocess must be one of {', '.join(POSTPROCESSING)}")
        self._mechanism, self._postprocess = mechanism, postprocess

    def process(self, counted: Counted, reported: int) -> Iterator[Frequencies]:
        n = self._mechanism.users(counted.counts, reported)
        if not n:
            yield Frequencies(0, counted.invalid, np.empty(0), np.empty(0))
            return
        unbiased = self._mechanism.estimate(counted.counts, n)
        estimate = POSTPROCESSING[self._postprocess](unbiased)
        yield Frequencies(n, counted.invalid, unbiased, estimate)


@dataclass
class CollectExactly(beam.PTransform):
    """Blocks of raw cells in, one `Frequencies` with the release's own noise out.

    The central model: whoever runs this step sees the exact counts.

    Attributes:
        mechanism: what makes the counts private.
        postprocess: "pop" (projection on the simplex) or "none".
        open_rng: opens the generator on the worker that draws the noise.
    """

    mechanism: FrequencyOracle
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

    def __init__(self, mechanism: FrequencyOracle, postprocess: str, open_rng: Generator) -> None:
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

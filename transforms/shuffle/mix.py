"""Split and mix where one job is the shuffler: shares of all who are enrolled, and of the noise."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import apache_beam as beam
import numpy as np
from apache_beam import typehints
from apache_beam.pvalue import AsDict, AsSingleton

from mechanisms.counters.split_mix import SplitMix
from mechanisms.randomness import SecureRandom
from transforms.elements.blocks import DrawingDoFn, Generator, GroupOnce
from transforms.elements.conservation import DRAWN
from transforms.elements.pieces import Piece
from transforms.shuffle.dummies import WithDummies

_REPORTS = 1 << 16  # of a block
RANGES = 1  # the noise is one draw


@dataclass
class AddShares(beam.PTransform):
    """Blocks of units' numbers in; `WithDummies`, words of all who are enrolled and the noise, out.

    Every enrolled device sends a report in every window, of zero if it has no rows. Where more have
    rows than are enrolled, as many are drawn uniformly: the number of words tells nobody's
    presence, and no total wraps around. The noise is drawn by one element and goes straight into a
    group, as dummies do; so do the numbers of those that are drawn.

    Attributes:
        design: of the sum; as many devices are enrolled as report at the most.
        open_rng: opens generators on workers; a seeded one is for tests.
    """

    design: SplitMix
    open_rng: Generator = field(default=SecureRandom)

    def expand(self, numbers: beam.PCollection) -> WithDummies:
        begin, most = numbers.pipeline, self.design.most
        named = numbers | "Name blocks" >> beam.ParDo(NameBlockDoFn(self.design, self.open_rng))
        sizes = named | "Units of blocks" >> beam.Map(_size).with_output_types(tuple[int, int])
        taken = (
            sizes
            | "All sizes" >> beam.combiners.ToList()
            | "Draw enrolled" >> beam.ParDo(DrawEnrolledDoFn(self.design, self.open_rng))
            | "Drawn once" >> GroupOnce()
            | "Of a block" >> beam.Map(_one).with_output_types(tuple[int, int])
        )
        words = named | "Shares of units" >> beam.ParDo(
            SplitUnitsDoFn(self.design, self.open_rng), AsDict(taken)
        )
        present = sizes | beam.Values() | "Units with rows" >> beam.CombineGlobally(sum)
        starts = begin | "Devices" >> beam.Create(range(0, most, _REPORTS))
        absent = starts | "Absent devices" >> beam.ParDo(
            SplitAbsentDoFn(self.design, self.open_rng), AsSingleton(present)
        )
        drawn = (
            begin
            | "One noise" >> beam.Create([0])
            | "Draw noise" >> beam.ParDo(DrawNoiseDoFn(self.design, self.open_rng))
            | "Once drawn" >> GroupOnce()
        )
        noise = drawn | "Split noise" >> beam.ParDo(SplitNoiseDoFn(self.design, self.open_rng))
        flow = drawn | "Noise drawn" >> beam.Map(lambda _: (DRAWN, RANGES))
        return WithDummies((words, absent, noise) | "With noise" >> beam.Flatten(), flow)


class _SplitDoFn(DrawingDoFn):
    def __init__(self, design: SplitMix, open_rng: Generator) -> None:
        self._design, self._open_rng = design, open_rng


@typehints.with_output_types(tuple[int, np.ndarray])
class NameBlockDoFn(_SplitDoFn):
    """Blocks with random names, by which they are known further on."""

    def process(self, numbers: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        yield int(self._rng.words(1)[0] >> np.uint64(1)), numbers


@typehints.with_output_types(tuple[int, int])
class DrawEnrolledDoFn(_SplitDoFn):
    """How many units of each block report, if there are more than are enrolled; else nothing."""

    def process(self, sizes: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        counts, most = np.array([size for _, size in sizes], np.int64), self._design.most
        beyond = int(counts.sum()) - most
        if beyond <= 0:
            return
        places = self._rng.choice(most + beyond, min(beyond, most))
        blocks = np.searchsorted(np.cumsum(counts), places.view(np.int64), side="right")
        drawn = np.bincount(blocks, minlength=counts.size)
        for (name, _), taken in zip(sizes, counts - drawn if beyond < most else drawn, strict=True):
            yield name, int(taken)


@typehints.with_output_types(np.ndarray)
class SplitUnitsDoFn(_SplitDoFn):
    """The words of those units of a block that report: all of them, or as many as were drawn."""

    def process(
        self, block: tuple[int, np.ndarray], taken: Mapping[int, int]
    ) -> Iterator[np.ndarray]:
        name, numbers = block
        if taken:
            numbers = numbers[self._rng.choice(numbers.size, taken[name])]
        yield self._design.reports(numbers, self._rng).ravel()


@typehints.with_output_types(np.ndarray)
class SplitAbsentDoFn(_SplitDoFn):
    """The words of those of some devices that have no rows, which send zero."""

    def process(self, start: int, present: int) -> Iterator[np.ndarray]:
        stop = min(start + _REPORTS, self._design.most)
        absent = max(0, stop - max(start, present))
        yield self._design.reports(np.zeros(absent, np.int64), self._rng).ravel()


@typehints.with_output_types(tuple[int, Piece])
class DrawNoiseDoFn(_SplitDoFn):
    """The noise of the sum."""

    def process(self, number: int) -> Iterator[tuple[int, bytes]]:
        yield number, self._design.draw(self._rng).tobytes()


@typehints.with_output_types(np.ndarray)
class SplitNoiseDoFn(_SplitDoFn):
    """Its words: a single one would stand out."""

    def process(self, drawn: tuple[int, Iterable[bytes]]) -> Iterator[np.ndarray]:
        [noise] = drawn[1]
        yield self._design.split(np.frombuffer(noise, np.int64), self._rng).ravel()


def _size(block: tuple[int, np.ndarray]) -> tuple[int, int]:
    return block[0], block[1].size


def _one(drawn: tuple[int, Iterable[int]]) -> tuple[int, int]:
    [taken] = drawn[1]
    return drawn[0], taken

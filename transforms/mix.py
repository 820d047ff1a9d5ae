"""Split and mix where one job is the shuffler: shares of who has no rows, and of the noise."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import apache_beam as beam
import numpy as np
from apache_beam import typehints
from apache_beam.pvalue import AsSingleton

from mechanisms.counters.split_mix import SplitMix
from mechanisms.randomness import SecureRandom
from transforms.blocks import Generator, GroupOnce
from transforms.conservation import DRAWN
from transforms.dummies import WithDummies

_REPORTS = 1 << 16  # of a block
RANGES = 1  # the noise is one draw


@dataclass
class AddShares(beam.PTransform):
    """Blocks of words in; `WithDummies`, the same and words of absent devices and the noise, out.

    Every enrolled device sends a report in every window, of zero if it has no rows. The noise is
    drawn by one element and goes straight into a group, as dummies do.

    Attributes:
        design: of the sum; as many devices are enrolled as report at the most.
        reports: a collection of numbers that add up to how many units have rows.
        open_rng: opens generators on workers; a seeded one is for tests.
    """

    design: SplitMix
    reports: beam.PCollection
    open_rng: Generator = field(default=SecureRandom)

    def expand(self, words: beam.PCollection) -> WithDummies:
        begin, most = words.pipeline, self.design.most
        present = self.reports | "Units with rows" >> beam.CombineGlobally(sum)
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


class _SplitDoFn(beam.DoFn):
    def __init__(self, design: SplitMix, open_rng: Generator) -> None:
        self._design, self._open_rng = design, open_rng

    def setup(self) -> None:
        self._rng = self._open_rng()


@typehints.with_output_types(np.ndarray)
class SplitAbsentDoFn(_SplitDoFn):
    """The words of those of some devices that have no rows, which send zero."""

    def process(self, start: int, present: int) -> Iterator[np.ndarray]:
        stop = min(start + _REPORTS, self._design.most)
        absent = max(0, stop - max(start, present))
        yield self._design.reports(np.zeros(absent, np.int64), self._rng).ravel()


@typehints.with_output_types(tuple[int, bytes])
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

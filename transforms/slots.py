"""Sealed words of noisy counters: reports taken apart, dummies among them, and what is counted.

The dummies of a range of counters are drawn in one element and put straight behind a grouping, so
that a bundle that is tried again replaces its draw: nobody behind it ever sees two.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import apache_beam as beam
import numpy as np
from apache_beam import typehints
from numpy.typing import NDArray

from mechanisms.channel import Counts
from mechanisms.counters.design import Counters, Range
from mechanisms.counters.levels import Layout
from mechanisms.randomness import SecureRandom
from mechanisms.wire.report import Form, Reports
from mechanisms.wire.sealing import public_key, seal_words
from transforms.blocks import Generator, GroupOnce
from transforms.conservation import LostError
from transforms.duplicates import Distinct, DropCopiedSeals, DropDuplicates
from transforms.unseal import cut

WORDS = Form(sealed=True, shuffled=True, slots=1)
_OPENED = Form(shuffled=True, slots=1)
_DRAWN = 1 << 16  # dummies of a range, on average, if it has several columns


@dataclass
class TakeApart(beam.PTransform):
    """Blocks of reports in; of one metric `Distinct` reports, by id, and their words, by seal, out.

    Of copied seals one word is left, whichever reports they stood in: they would multiply what
    their victim said.

    Attributes:
        fingerprint: of the plan, 16 bytes.
        place: of the metric in the plan.
        layout: of its counters.
        buckets: how many groups ids and seals are divided into.
        open_rng: opens the generator of lots on each worker.
    """

    fingerprint: bytes
    place: int
    layout: Layout
    buckets: int = 64
    open_rng: Generator = field(default=SecureRandom)

    def expand(self, reports: beam.PCollection) -> tuple[Distinct, Distinct]:
        types = self.layout.types
        form = Form(sealed=True, slots=types.size)
        step = DropDuplicates(self.fingerprint, form, self.buckets, open_rng=self.open_rng)
        mine = beam.Map(Reports.of_metric, self.place).with_output_types(Reports)
        once = reports | "Of metric" >> mine | "Once" >> step
        words = once.reports | "Apart" >> beam.Map(Reports.apart, types).with_output_types(Reports)
        return once, words | "By seal" >> DropCopiedSeals(self.fingerprint, WORDS, self.buckets)


@dataclass
class SealedDummies(beam.PTransform):
    """The shuffler's dummies of one window, nulls included, sealed as reports are: blocks of words.

    Attributes:
        fingerprint: of the plan and the window, 16 bytes.
        counters: (metrics,) all that the plan has.
        pem: the collector's public key.
        open_rng: opens the generator on each worker.
    """

    fingerprint: bytes
    counters: tuple[Counters, ...]
    pem: bytes
    open_rng: Generator = field(default=SecureRandom)

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection:
        ranges = [
            (place, number)
            for place, counters in enumerate(self.counters)
            for number in range(len(ranges_of(counters)))
        ]
        draw = DrawRangeDoFn(self.counters, self.open_rng)
        return (
            begin
            | "Ranges" >> beam.Create(ranges)
            | "Spread ranges" >> beam.Reshuffle()
            | "Draw" >> beam.ParDo(draw)
            | "Drawn once" >> GroupOnce()
            | "Words" >> beam.ParDo(DummiesDoFn(self.fingerprint, self.counters))
            # To seal a word takes a thousand times as long as to draw it.
            | "Spread words" >> beam.Reshuffle()
            | "Seal" >> beam.ParDo(SealDoFn(self.pem))
        )


def ranges_of(counters: Counters) -> list[Range]:
    """The ranges that are drawn in one go."""
    return counters.ranges(max(1, _DRAWN // max(1, sum(counters.dummies.means))))


@typehints.with_input_types(tuple[int, int])
@typehints.with_output_types(tuple[str, np.ndarray])
class DrawRangeDoFn(beam.DoFn):
    """How many dummies each code of a range gets."""

    def __init__(self, counters: tuple[Counters, ...], open_rng: Generator) -> None:
        self._counters, self._open_rng = counters, open_rng

    def setup(self) -> None:
        self._rng = self._open_rng()

    def process(self, range_: tuple[int, int]) -> Iterator[tuple[str, NDArray[np.int64]]]:
        place, number = range_
        counters = self._counters[place]
        drawn = counters.draw(ranges_of(counters)[number], self._rng)
        yield f"{place}:{number}", np.stack(drawn)


@typehints.with_input_types(tuple[str, Iterable[np.ndarray]])
@typehints.with_output_types(Reports)
class DummiesDoFn(beam.DoFn):
    """The dummies of a range as words, small blocks of them."""

    def __init__(self, fingerprint: bytes, counters: tuple[Counters, ...]) -> None:
        self._fingerprint, self._counters = fingerprint, counters

    def process(self, drawn: tuple[str, Iterable[NDArray[np.int64]]]) -> Iterator[Reports]:
        place, draws = int(drawn[0].partition(":")[0]), list(drawn[1])
        if len(draws) != 1:  # an engine that hands on a bundle and its second attempt
            raise LostError
        codes, sizes = draws[0]
        records = _OPENED.empty(int(sizes.sum()))
        records["metric"] = place
        records["message"] = np.repeat(codes, sizes)
        records["level"] = np.repeat(self._counters[place].layout.level_of(codes), sizes)
        yield from cut(Reports(self._fingerprint, _OPENED, records))


@typehints.with_input_types(Reports)
@typehints.with_output_types(Reports)
class SealDoFn(beam.DoFn):
    """Words of one metric, sealed to the collector's key."""

    def __init__(self, pem: bytes) -> None:
        self._pem = pem

    def setup(self) -> None:
        self._key = public_key(self._pem)

    def process(self, words: Reports) -> Iterator[Reports]:
        records = words.records
        metric = int(records["metric"][0])
        levels, codes = records["level"], records["message"]
        yield seal_words(words.fingerprint, metric, levels, codes, self._key)


@typehints.with_input_types(Reports)
@typehints.with_output_types(np.ndarray)
class CountWords(beam.CombineFn):
    """Blocks of opened words in, the counts of one metric's codes out.

    A code in another level's slot counts nowhere, so a liar moves a counter by its level's slots.

    Args:
        place: of the metric in the plan.
        layout: of its counters.
    """

    def __init__(self, place: int, layout: Layout) -> None:
        self._place, self._layout = place, layout

    def create_accumulator(self, *_: object, **__: object) -> Counts:
        return np.zeros(self._layout.codes, np.int64)

    def add_input(self, counts: Counts, words: Reports, *_: object, **__: object) -> Counts:
        records = words.of_metric(self._place).records
        # The level is a header's, which anybody may write; what is no level has no slots.
        records = records[records["level"] < len(self._layout.levels)]
        return counts + self._layout.count(records["message"], records["level"])

    def merge_accumulators(self, counts: Iterable[Counts], *_: object, **__: object) -> Counts:
        return sum(counts, self.create_accumulator())

    def extract_output(self, counts: Counts, *_: object, **__: object) -> Counts:
        return counts

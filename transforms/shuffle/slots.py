"""Sealed words of noisy counters: reports taken apart, dummies among them, and what is counted.

What is sealed again, by a bundle that is tried again, is the same draw: see `dummies`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam import typehints
from numpy.typing import NDArray

from mechanisms.channel import Messages
from mechanisms.counters.choose import SlottedCounters
from mechanisms.counters.levels import Layout
from mechanisms.randomness import SecureRandom
from mechanisms.wire.report import WORDS, Form, Reports
from mechanisms.wire.sealing import public_key, seal_words
from transforms.collector.collect_counts import Counted
from transforms.elements.blocks import Generator
from transforms.reports.duplicates import Distinct, DropCopiedSeals, DropDuplicates
from transforms.shuffle.dummies import DrawDummies, WithDummies

_OPENED = Form(shuffled=True, slots=1)
_BLOCK = 1 << 12  # words sealed in one piece: about a third of a second


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
        mine = beam.FlatMap(of_metric, self.place).with_output_types(Reports)
        once = reports | "Of metric" >> mine | "Once" >> step
        words = once.reports | "Apart" >> beam.Map(_apart, types).with_output_types(Reports)
        return once, words | "By seal" >> DropCopiedSeals(self.fingerprint, WORDS, self.buckets)


def _apart(reports: Reports, types: NDArray[np.unsignedinteger[Any]]) -> Reports:
    """By a name of its own: of a method Beam would take the annotations for its type hints."""
    return reports.apart(types)


def of_metric(reports: Reports, place: int) -> Iterator[Reports]:
    """A block's reports of one metric, if it has any: those of others are of other widths."""
    mine = reports.of_metric(place)
    if len(mine):
        yield mine


@dataclass
class SealedDummies(beam.PTransform):
    """Nothing in; `WithDummies`, the dummies of a metric in a window, sealed as reports are, out.

    Attributes:
        fingerprint: of the plan and the window, 16 bytes.
        place: of the metric in the plan.
        counters: whose dummies they are, nulls included; of devices there are none to be drawn.
        pem: the collector's public key.
        open_rng: opens the generator on each worker.
    """

    fingerprint: bytes
    place: int
    counters: SlottedCounters
    pem: bytes
    open_rng: Generator = field(default=SecureRandom)

    def expand(self, begin: beam.pvalue.PBegin) -> WithDummies:
        codes, drawn = begin | "Draw" >> DrawDummies(self.counters, self.open_rng)
        step = SealCodes(self.fingerprint, self.place, self.counters.layout, self.pem)
        return WithDummies(codes | step, drawn)


@dataclass
class SealCodes(beam.PTransform):
    """Blocks of codes in, sealed words out.

    Attributes:
        fingerprint, place, pem: as of `SealedDummies`.
        layout: of the counters.
    """

    fingerprint: bytes
    place: int
    layout: Layout
    pem: bytes

    def expand(self, codes: beam.PCollection) -> beam.PCollection:
        words = beam.FlatMap(_words, self.fingerprint, self.place, self.layout)
        return (
            codes
            | "Words" >> words.with_output_types(Reports)
            # To seal a word takes a thousand times as long as to draw it.
            | "Spread words" >> beam.Reshuffle()
            | "Seal" >> beam.ParDo(SealDoFn(self.pem))
        )


def _words(codes: Messages, fingerprint: bytes, place: int, layout: Layout) -> Iterator[Reports]:
    """Codes in slots of their levels, small blocks of them."""
    records = _OPENED.empty(codes.size)
    records["metric"], records["message"] = place, codes
    records["level"] = layout.level_of(codes)
    for start in range(0, codes.size, _BLOCK):
        yield Reports(fingerprint, _OPENED, records[start : start + _BLOCK])


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
@typehints.with_output_types(Counted)
class CountWords(beam.CombineFn):
    """Blocks of opened words in, the counts of one metric's codes out.

    A code in another level's slot counts nowhere, so a liar moves a counter by its level's slots.

    Args:
        place: of the metric in the plan.
        layout: of its counters.
    """

    def __init__(self, place: int, layout: Layout) -> None:
        self._place, self._layout = place, layout

    def create_accumulator(self) -> Counted:
        return Counted(np.zeros(self._layout.codes, np.int64), 0, 0)

    def add_input(self, state: Counted, words: Reports) -> Counted:
        records = words.of_metric(self._place).records
        # The level is a header's, which anybody may write; what is no level has no slots.
        typed = records[records["level"] < len(self._layout.levels)]
        counts = self._layout.count(typed["message"], typed["level"])
        kept = int(counts.sum())
        return self.merge_accumulators([state, Counted(counts, kept, records.size - kept)])

    def merge_accumulators(self, states: Iterable[Counted]) -> Counted:
        total = self.create_accumulator()
        for state in states:
            total = Counted(
                total.counts + state.counts,
                total.messages + state.messages,
                total.invalid + state.invalid,
            )
        return total

    def extract_output(self, state: Counted) -> Counted:
        return state

"""Strings that nobody on the way can read: equal seals are counted, and those that pass opened."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import apache_beam as beam
import numpy as np
from apache_beam import typehints

from mechanisms.heavy_hitters.crowds import Crowds
from mechanisms.randomness import SecureRandom
from mechanisms.wire.report import SEALED, Form, Reports
from mechanisms.wire.screening import UNOPENED
from mechanisms.wire.sealing import KeyRing
from mechanisms.wire.strings import open_strings
from transforms.blocks import Generator
from transforms.crowds import Crowded, JoinCrowds, PublishCrowds
from transforms.duplicates import Distinct, DropDuplicates
from transforms.encoders.block import CellBlock
from transforms.encoders.strings import distinct, possible
from transforms.progress import tally
from transforms.slots import of_metric

CROWDS = Form(sealed=True, shuffled=True, slots=1, crowd=True)


class SealedCrowds(NamedTuple):
    """What `CountSeals` yields.

    Attributes:
        once: `Distinct` reports, by their ids.
        seals: blocks of their sealed strings, each once a report.
        crowds: one `Crowded`, of sealed strings that pass; empty if there are none.
    """

    once: Distinct
    seals: beam.PCollection
    crowds: beam.PCollection


@dataclass
class CountSeals(beam.PTransform):
    """Blocks of reports in; of one metric `SealedCrowds` out.

    Seals of equal strings are equal, so here a seal that is there twice is no copy: of each report
    it counts once.

    Attributes:
        fingerprint: of the plan and the window, 16 bytes.
        place: of the metric in the plan.
        crowds: which strings pass, and with what number.
        slots: of a report.
        buckets: how many groups ids and strings are divided into.
        open_rng: opens generators on workers.
    """

    fingerprint: bytes
    place: int
    crowds: Crowds
    slots: int
    buckets: int = 64
    open_rng: Generator = field(default=SecureRandom)

    def expand(self, reports: beam.PCollection) -> SealedCrowds:
        form = Form(sealed=True, slots=self.slots)
        step = DropDuplicates(self.fingerprint, form, self.buckets, open_rng=self.open_rng)
        mine = beam.FlatMap(of_metric, self.place).with_output_types(Reports)
        once = reports | "Of metric" >> mine | "Once" >> step
        apart = beam.Map(seals_in, self.crowds.strings).with_output_types(CellBlock)
        seals = once.reports | "Seals" >> apart
        width = self.slots // self.crowds.strings * SEALED // 4
        publish = PublishCrowds(self.crowds, width, self.buckets, self.open_rng)
        return SealedCrowds(once, seals, seals | "Crowds" >> publish)


def seals_in(reports: Reports, strings: int) -> CellBlock:
    """The sealed strings of some reports, as rows of words, each once a report.

    Args:
        reports: n of them.
        strings: that each has room for.
    """
    packed = np.ascontiguousarray(reports.records["sealed"])
    rows = packed.reshape(len(reports) * strings, -1).view(np.uint32)
    whose = np.repeat(np.arange(len(reports), dtype=np.uint32), strings)
    first, _ = distinct(np.column_stack([whose, rows]))
    return CellBlock(rows[first], None)


def crowd_reports(crowded: Crowded, fingerprint: bytes, metric: int, key: bytes) -> Reports:
    """Sealed strings with their numbers, as the shuffler sends them on.

    Args:
        crowded: of one metric.
        fingerprint, metric: as of `CountSeals`.
        key: the id of the collector's key.
    """
    size = crowded.strings.shape[1] * 4 // SEALED
    form = Form(sealed=True, shuffled=True, slots=size, crowd=True)
    records = form.empty(len(crowded.values))
    records["metric"], records["value"] = metric, crowded.values
    records["key_id"] = int.from_bytes(key, "little")
    sealed = np.ascontiguousarray(crowded.strings).view(np.uint8)
    records["sealed"] = sealed.reshape(-1, size, SEALED)
    return Reports(fingerprint, form, records)


@dataclass
class OpenCrowds(beam.PTransform):
    """Blocks of one metric's crowds in, one `Crowded` out, of strings that can be read.

    Empty slots that noise has let pass are dropped here, and what a liar has put into a seal.

    Attributes:
        width: words of a string.
        open_ring: reads the keys on each worker; they never travel with the job.
    """

    width: int
    open_ring: Callable[[], KeyRing]

    def expand(self, crowds: beam.PCollection) -> beam.PCollection:
        opened = crowds | "Open" >> beam.ParDo(OpenCrowdsDoFn(self.width, self.open_ring))
        return opened | "All strings" >> beam.CombineGlobally(JoinCrowds(self.width))


@typehints.with_input_types(Reports)
@typehints.with_output_types(Crowded)
class OpenCrowdsDoFn(beam.DoFn):
    """Opens seals with the keys of this worker."""

    def __init__(self, width: int, open_ring: Callable[[], KeyRing]) -> None:
        self._width, self._open_ring = width, open_ring

    def setup(self) -> None:
        self._ring = self._open_ring()

    def process(self, crowds: Reports) -> Iterator[Crowded]:
        opened, words = open_strings(crowds, self._width, self._ring)
        tally(UNOPENED, int(opened.size - np.count_nonzero(opened)))
        kept = opened & possible(words)
        values = crowds.records["value"].astype(np.int64)
        yield Crowded(words[kept], values[kept], len(crowds))

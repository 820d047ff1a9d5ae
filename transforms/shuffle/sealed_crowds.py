"""Strings that nobody on the way can read: equal seals are counted, and those that pass opened."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import apache_beam as beam
import numpy as np
from apache_beam import typehints

from mechanisms.heavy_hitters.crowds import Crowds
from mechanisms.randomness import SecureRandom
from mechanisms.wire.report import SEALED, Form, Reports
from mechanisms.wire.screening import UNOPENED
from mechanisms.wire.sealing import KeyRing
from mechanisms.wire.strings import open_strings
from transforms.elements.blocks import Generator
from transforms.elements.progress import tally
from transforms.encoders.block import CellBlock
from transforms.encoders.strings import distinct, possible
from transforms.reports.duplicates import Distinct, DropDuplicates
from transforms.shuffle.crowds import Crowded, JoinCrowds, PublishCrowds
from transforms.shuffle.slots import of_metric

_KEY, _WORDS = 2, SEALED // 4  # words of a key's id, and of a seal


@dataclass
class CountSeals(beam.PTransform):
    """Blocks of reports in; of one metric `Distinct` reports, by id, and seals, by crowds, out.

    Seals of equal strings are equal, so here a seal that is there twice is no copy: of each report
    it counts once. Those whose crowd passes go on, with its noisy number; all others end here.

    Attributes:
        fingerprint, place, buckets, open_rng: as of `TakeApart`.
        crowds: which strings pass, and with what number.
        form: of the reports.
        handed: of what passes, with room for the seals of any metric.
    """

    fingerprint: bytes
    place: int
    crowds: Crowds
    form: Form
    handed: Form
    buckets: int = 64
    open_rng: Generator = field(default=SecureRandom)

    def expand(self, reports: beam.PCollection) -> tuple[Distinct, Distinct]:
        step = DropDuplicates(self.fingerprint, self.form, self.buckets, open_rng=self.open_rng)
        mine = beam.FlatMap(of_metric, self.place).with_output_types(Reports)
        once = reports | "Of metric" >> mine | "Once" >> step
        strings = self.crowds.strings
        seals = once.reports | "Seals" >> beam.Map(_seals_in, strings).with_output_types(CellBlock)
        again = (
            once.reports | "All" >> beam.Map(_all, strings),
            seals | "Each" >> beam.Map(_negative_size),
        )
        width = _KEY + self.form.slots // strings * _WORDS
        step = PublishCrowds(self.crowds, width, self.buckets, self.open_rng)
        crowds = seals | "Crowds" >> step
        passed = beam.Map(_handed_on, self.fingerprint, self.place, self.handed)
        return once, Distinct(
            crowds | "Passed" >> passed.with_output_types(Reports),
            (*again, crowds | "Below" >> beam.Map(_below)) | "Lost" >> beam.Flatten(),
        )


def _all(reports: Reports, strings: int) -> int:
    return strings * len(reports)


def _negative_size(seals: CellBlock) -> int:
    return -seals.size


def _below(crowded: Crowded) -> int:
    return crowded.messages - len(crowded.values)


def _seals_in(reports: Reports, strings: int) -> CellBlock:
    """The sealed strings of some reports behind the ids of their keys, each once a report."""
    sealed = np.ascontiguousarray(reports.records["sealed"]).view(np.uint32)
    keys = np.ascontiguousarray(reports.records["key_id"]).view(np.uint32).reshape(-1, _KEY)
    rows = sealed.reshape(len(reports) * strings, -1)
    rows = np.column_stack([np.repeat(keys, strings, axis=0), rows])
    whose = np.repeat(np.arange(len(reports), dtype=np.uint32), strings)
    first, _ = distinct(np.column_stack([whose, rows]))
    return CellBlock(rows[first], None)


def _handed_on(crowded: Crowded, fingerprint: bytes, metric: int, form: Form) -> Reports:
    """What `_seals_in` has taken apart, with noisy numbers."""
    records, rows = form.empty(len(crowded.values)), crowded.strings
    records["metric"], records["value"] = metric, crowded.values
    records["key_id"] = rows[:, :_KEY].copy().view("<u8")[:, 0]
    sealed = np.zeros((len(rows), form.slots * _WORDS), np.uint32)
    sealed[:, : rows.shape[1] - _KEY] = rows[:, _KEY:]
    records["sealed"] = sealed.view(np.uint8).reshape(-1, form.slots, SEALED)
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

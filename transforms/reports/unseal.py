"""Sealed reports: shuffled by one who cannot read them, opened by the collector."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam import typehints
from apache_beam.pvalue import AsDict
from numpy.typing import NDArray

from mechanisms.randomness import SecureRandom
from mechanisms.wire.report import Form, Records, Reports
from mechanisms.wire.screening import UNKNOWN_KEY, Expected
from mechanisms.wire.sealing import KeyRing
from transforms.elements.blocks import DrawingDoFn, Generator, GroupOnce, PartitionDoFn
from transforms.elements.pieces import Piece
from transforms.elements.progress import WITHHELD, tally
from transforms.reports.reports import kept


@dataclass
class ShuffleSealed(beam.PTransform):
    """`Shuffle` for the sealed reports of one metric: their ids are gone and their order uniform.

    The collector sees which key a report was sealed to, and so a user is hidden only among the
    reports to the same key: each key's batch has to reach `min_reports`, or it is withheld.

    Attributes:
        fingerprint: of the plan, 16 bytes.
        metric: its place in the plan; reports of other metrics are left out.
        keys: the ids of the keys that clients may use; reports to others are dropped and counted.
        min_reports: the least batch of a key that is sent on.
        buckets: how many groups; each is ordered in one worker's memory. At most 65,536.
        open_rng: opens the generator on each worker.
        twice: whether reports are sealed once more.
    """

    fingerprint: bytes
    metric: int
    keys: tuple[bytes, ...]
    min_reports: int
    buckets: int = 64
    open_rng: Generator = field(default=SecureRandom)
    twice: bool = False

    def expand(self, reports: beam.PCollection) -> beam.PCollection:
        known = reports | "Known keys" >> beam.Map(
            _to_known_keys, self.metric, self.keys
        ).with_output_types(Reports)
        sizes = (
            known
            | "Sizes of block" >> beam.FlatMap(_sizes).with_output_types(tuple[int, int])
            | "Sizes of batches" >> beam.CombinePerKey(sum)
        )
        return (
            known
            | "Draw buckets" >> beam.ParDo(DrawSealedDoFn(self.buckets, self.open_rng))
            | "Group by bucket" >> GroupOnce()
            | "Order by random keys"
            >> beam.ParDo(
                OrderSealedDoFn(self.fingerprint, self.min_reports, self.open_rng, self.twice),
                sizes=AsDict(sizes),
            )
        )


def _to_known_keys(reports: Reports, metric: int, keys: tuple[bytes, ...]) -> Reports:
    """A metric's reports that the collector should be able to open, without their ids."""
    return of_keys(reports.of_metric(metric).without_ids(), keys)


def of_keys(reports: Reports, keys: tuple[bytes, ...]) -> Reports:
    """The reports that are sealed to one of these keys."""
    # As words: a list of Python's integers would be compared as doubles, 53 bits of them.
    ids = np.array([int.from_bytes(key, "little") for key in keys], np.uint64)
    known = np.isin(reports.records["key_id"].astype(np.uint64), ids)
    if not known.all():
        tally(UNKNOWN_KEY, int(known.size - np.count_nonzero(known)))
    return reports.where(known)


def _sizes(reports: Reports) -> Iterator[tuple[int, int]]:
    """How many reports of a block were sealed to which key; keys by their int64."""
    keys, sizes = np.unique(reports.records["key_id"].astype("<i8"), return_counts=True)
    return zip(keys.tolist(), sizes.tolist(), strict=True)


@typehints.with_input_types(Reports)
@typehints.with_output_types(tuple[int, Piece])
class DrawSealedDoFn(PartitionDoFn, DrawingDoFn):
    """Sends each report to a random bucket; reports of many blocks leave together."""

    def __init__(self, buckets: int, open_rng: Generator) -> None:
        super().__init__(buckets)
        self._open_rng = open_rng

    def rows(self, block: Reports) -> Records:
        return block.records

    def assign(self, rows: NDArray[Any]) -> NDArray[np.uint64]:
        return self._rng.integers(self._buckets, rows.size)


@typehints.with_input_types(tuple[int, Iterable[bytes]], Mapping[int, int])
@typehints.with_output_types(Reports)
class OrderSealedDoFn(DrawingDoFn):
    """Puts a bucket into uniform random order, without the batches that are too small."""

    def __init__(
        self, fingerprint: bytes, min_reports: int, open_rng: Generator, twice: bool = False
    ) -> None:
        self._fingerprint, self._min_reports = fingerprint, min_reports
        self._form = Form(sealed=True, shuffled=True, twice=twice)
        self._open_rng = open_rng

    def process(
        self, bucket: tuple[int, Iterable[bytes]], sizes: Mapping[int, int]
    ) -> Iterator[Reports]:
        records = np.frombuffer(b"".join(bucket[1]), self._form.dtype)
        enough = [key for key, size in sizes.items() if size >= self._min_reports]
        large = np.isin(records["key_id"].astype("<i8"), np.array(enough, np.int64))
        if not large.all():
            tally(WITHHELD, int(large.size - np.count_nonzero(large)))
        records = records[large]
        if records.size:
            order = self._rng.permutation(records.size)
            yield Reports(self._fingerprint, self._form, records[order])


@typehints.with_input_types(Reports)
@typehints.with_output_types(Reports)
class UnsealDoFn(beam.DoFn):
    """Sealed reports in, plain ones out, by the keys of this worker; what does not open is counted.

    It stands where blocks are spread over the workers already, by files or by buckets: to open a
    report takes longer than all else that becomes of it.

    Args:
        expected: what the plan makes of the opened reports: plain, shuffled or not.
        open_ring: reads the keys on each worker; they never travel with the job.
    """

    def __init__(self, expected: Expected, open_ring: Callable[[], KeyRing]) -> None:
        self._expected, self._open_ring = expected, open_ring

    def setup(self) -> None:
        self._ring = self._open_ring()

    def process(self, block: Reports) -> Iterator[Reports]:
        opened = self._ring.open(block)
        yield from kept(opened._replace(reports=self._screened(opened.reports)))

    def _screened(self, reports: Reports) -> Reports:
        """What the plan's clients can have put under the seal; the rest is counted."""
        screened = self._expected.screen(reports)
        for reason, size in screened.dropped.items():
            tally(reason, size)
        return screened.reports

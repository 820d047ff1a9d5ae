"""What arrived twice counts once: the shuffler drops reports whose id it has seen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam import typehints
from apache_beam.transforms.window import WindowedValue
from numpy.typing import NDArray

from mechanisms.randomness import SecureRandom
from mechanisms.wire.report import Form, Records, Reports
from mechanisms.wire.screening import DUPLICATE
from transforms.blocks import GroupOnce, PartitionDoFn
from transforms.progress import tally

_COMPACT_AT = 1 << 18  # reports read between two compactions of a bucket's state


def _draw() -> tuple[int, int]:
    """A hash that nobody who chose a report id can have known."""
    first, second = (SecureRandom().words(2) | np.uint64(1)).tolist()
    return first, second


@dataclass
class DropDuplicates(beam.PTransform):
    """Blocks of submitted reports in, and out again with one report of each id in a window.

    Of two different reports with one id the lesser bytes stay, so that a retry keeps the same. A
    bucket's memory is its number of ids, however often they came.

    Attributes:
        fingerprint: of the plan, 16 bytes.
        form: of the reports; submitted, so that they have ids.
        buckets: how many groups the ids are hashed into.
        multipliers: of the hash: drawn once for the job, so that no one can aim at a bucket.
    """

    fingerprint: bytes
    form: Form
    buckets: int = 64
    multipliers: tuple[int, int] = field(default_factory=_draw)

    def __post_init__(self) -> None:
        if self.form.shuffled:
            raise ValueError("shuffled reports have no ids: drop duplicates before the shuffle")

    def expand(self, reports: beam.PCollection) -> beam.PCollection:
        return (
            reports
            | "Partition by id" >> beam.ParDo(PartitionIdsDoFn(self.buckets, self.multipliers))
            | "Group by id bucket" >> GroupOnce()
            | "One report of each id" >> beam.ParDo(OneOfEachDoFn(self.fingerprint, self.form))
        )


@typehints.with_input_types(Reports)
@typehints.with_output_types(tuple[int, bytes])
class PartitionIdsDoFn(PartitionDoFn):
    """Sends each report to its id's bucket; of a flood of one report, one copy at a time."""

    def __init__(self, buckets: int, multipliers: tuple[int, int]) -> None:
        super().__init__(buckets)
        self._multipliers = np.array(multipliers, np.uint64)

    def rows(self, block: Reports) -> Records:
        return block.records

    def assign(self, rows: Records) -> NDArray[np.uint64]:
        # Multiply-shift hashing (Dietzfelbinger et al., J. Algorithms 1997): a pair of ids meets
        # in a bucket with probability at most 2 / buckets over the draw of the multipliers.
        mixed = (rows["report_id"] * self._multipliers).sum(axis=1, dtype=np.uint64)
        return ((mixed >> np.uint64(32)) * np.uint64(self._buckets)) >> np.uint64(32)

    def finish_bundle(self) -> Iterator[WindowedValue]:
        for window, waiting in self._waiting.items():
            self._waiting[window] = [_tallied(np.concatenate(waiting))]
        yield from super().finish_bundle()


@typehints.with_input_types(tuple[int, Iterable[bytes]])
@typehints.with_output_types(Reports)
class OneOfEachDoFn(beam.DoFn):
    """One report of each id in a bucket."""

    def __init__(self, fingerprint: bytes, form: Form) -> None:
        self._fingerprint, self._form = fingerprint, form

    def process(self, bucket: tuple[int, Iterable[bytes]]) -> Iterator[Reports]:
        kept, pending = [np.empty(0, self._form.dtype)], 0
        for piece in bucket[1]:
            rows = np.frombuffer(piece, self._form.dtype)
            kept.append(rows)
            pending += rows.size
            if pending >= max(_COMPACT_AT, kept[0].size):
                kept, pending = [_tallied(np.concatenate(kept))], 0
        yield Reports(self._fingerprint, self._form, _tallied(np.concatenate(kept)))


def _tallied(records: Records) -> Records:
    """`one_of_each`, with the count of what was dropped."""
    kept = one_of_each(records)
    if kept.size < records.size:
        tally(DUPLICATE, records.size - kept.size)
    return kept


def one_of_each(records: Records) -> Records:
    """One report of each id, whatever the order of the records.

    Args:
        records: (n,) submitted ones.

    Returns:
        (ids,) in the order of the ids; of different reports with one id, the least by its bytes.
    """
    ids = records["report_id"]
    order = np.lexsort(ids.T)
    ranked = ids[order]
    first = np.ones(records.size, np.bool_)
    first[1:] = (ranked[1:] != ranked[:-1]).any(axis=1)
    if first.all():
        return records[order]
    alike = ~first
    alike[:-1] |= alike[1:]
    places = order[alike]
    order[alike] = places[np.lexsort((_ranks(records[places]), *ids[places].T))]
    return records[order[first]]


def _ranks(records: Records) -> NDArray[Any]:
    """Where each record stands among all, by its bytes."""
    packed = np.ascontiguousarray(records).view(np.dtype((np.void, records.dtype.itemsize)))
    return np.unique(packed, return_inverse=True)[1]

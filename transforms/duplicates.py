"""What arrived twice counts once: by its id, and a sealed report by its seal as well.

Anyone who carries a sealed report can put another id on it; nobody who cannot open it can make
another seal of the same message. Honest clients' seals all differ, each having a fresh key in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam import typehints
from apache_beam.transforms.window import WindowedValue
from numpy.typing import NDArray

from mechanisms.randomness import SecureRandom
from mechanisms.wire.report import SEALED, Form, Records, Reports
from mechanisms.wire.screening import DUPLICATE
from transforms.blocks import GroupOnce, PartitionDoFn, bucket_of
from transforms.progress import tally

_SEAL = np.dtype([("metric", "<u2"), ("key_id", "<u8"), ("sealed", "u1", (SEALED,))])
_COMPACT_AT = 1 << 18  # reports read between two compactions of a bucket's state


def _draw() -> tuple[int, int]:
    """A hash that nobody who chose a report id can have known."""
    first, second = (SecureRandom().words(2) | np.uint64(1)).tolist()
    return first, second


@dataclass
class DropDuplicates(beam.PTransform):
    """Blocks of submitted reports in, and out again with one report of each id in a window.

    Of sealed ones there is one of each seal besides. Of two different reports with one id the
    lesser bytes stay, so that a retry keeps the same. A bucket's memory is its number of ids,
    however often they came.

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
        once: beam.PCollection = (
            reports
            | "Partition by id" >> beam.ParDo(PartitionIdsDoFn(self.buckets, self.multipliers))
            | "Group by id bucket" >> GroupOnce()
            | "One report of each id" >> beam.ParDo(OneOfEachDoFn(self.fingerprint, self.form))
        )
        if not self.form.sealed:
            return once
        return once | "By seal" >> DropCopiedSeals(self.fingerprint, self.form, self.buckets)


@dataclass
class DropCopiedSeals(beam.PTransform):
    """Blocks of sealed reports in, submitted or shuffled, and out again with one of each seal.

    Attributes:
        fingerprint: of the plan, 16 bytes.
        form: of the reports.
        buckets: how many groups the seals are divided into.
        multipliers: as `DropDuplicates`.
    """

    fingerprint: bytes
    form: Form
    buckets: int = 64
    multipliers: tuple[int, int] = field(default_factory=_draw)

    def expand(self, reports: beam.PCollection) -> beam.PCollection:
        return (
            reports
            | "Partition by seal" >> beam.ParDo(PartitionSealsDoFn(self.buckets, self.multipliers))
            | "Group by seal bucket" >> GroupOnce()
            | "One report of each seal" >> beam.ParDo(OneSealDoFn(self.fingerprint, self.form))
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
        mixed = (self._names(rows) * self._multipliers).sum(axis=1, dtype=np.uint64)
        return bucket_of(mixed, self._buckets)

    def finish_bundle(self) -> Iterator[WindowedValue]:
        for window, waiting in self._waiting.items():
            self._waiting[window] = [self._one(np.concatenate(waiting))]
        yield from super().finish_bundle()

    def _names(self, rows: Records) -> NDArray[np.uint64]:
        """(n, 2) words by which reports are told apart."""
        return np.asarray(rows["report_id"], np.uint64)

    def _one(self, rows: Records) -> Records:
        return _tallied(rows, one_of_each)


class PartitionSealsDoFn(PartitionIdsDoFn):
    """Sends each report to its seal's bucket."""

    def _names(self, rows: Records) -> NDArray[np.uint64]:
        # The tag and what is encrypted; a copy has the same, and bad luck costs no more than time.
        return np.ascontiguousarray(rows["sealed"][:, -16:]).view("<u8").astype(np.uint64)

    def _one(self, rows: Records) -> Records:
        return _tallied(rows, one_of_each_seal)


@typehints.with_input_types(tuple[int, Iterable[bytes]])
@typehints.with_output_types(Reports)
class OneOfEachDoFn(beam.DoFn):
    """One report of each id in a bucket."""

    def __init__(self, fingerprint: bytes, form: Form, compact_at: int = _COMPACT_AT) -> None:
        self._fingerprint, self._form, self._compact_at = fingerprint, form, compact_at

    def process(self, bucket: tuple[int, Iterable[bytes]]) -> Iterator[Reports]:
        kept, pending = [np.empty(0, self._form.dtype)], 0
        for piece in bucket[1]:
            rows = np.frombuffer(piece, self._form.dtype)
            kept.append(rows)
            pending += rows.size
            # A flood of copies is put together as it comes, so that memory goes by ids and not by
            # reports.
            if pending >= max(self._compact_at, kept[0].size):
                kept, pending = [self._one(np.concatenate(kept))], 0
        records = self._one(np.concatenate(kept))
        # What has no length is no report, but the echo of one: see `repeats`.
        reports = Reports(self._fingerprint, self._form, records).where(records["length"] > 0)
        if len(reports):
            yield reports

    def _one(self, rows: Records) -> Records:
        return _tallied(rows, one_of_each)


class OneSealDoFn(OneOfEachDoFn):
    """One report of each seal in a bucket."""

    def _one(self, rows: Records) -> Records:
        return _tallied(rows, one_of_each_seal)


def _tallied(records: Records, choose: Callable[[Records], Records]) -> Records:
    """The chosen records, with the count of those that were dropped."""
    kept = choose(records)
    dropped = np.count_nonzero(records["length"]) - np.count_nonzero(kept["length"])
    if dropped:
        tally(DUPLICATE, int(dropped))
    return kept


def one_of_each(records: Records) -> Records:
    """One report of each id, whatever the order of the records.

    Args:
        records: (n,) submitted ones.

    Returns:
        (ids,) in the order of the ids; of different reports with one id, the least by its bytes,
        which is the echo of an earlier one, if there is one.
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


def one_of_each_seal(records: Records) -> Records:
    """One report of each seal, whatever the order of the records.

    Metric and key belong to the seal: under others it does not open, and a copy that is made to
    spoil must not take the place of the report that it copies.

    Args:
        records: (n,) sealed ones, submitted or shuffled.

    Returns:
        (seals,) in the order of their seals; of several reports, the one with the least bytes.
    """
    ordered = records[np.argsort(_ranks(records), kind="stable")]
    # Equal seals under other ids: who copies a report can change the id, and nothing that is
    # sealed.
    names = np.empty(ordered.size, _SEAL)
    for name in _SEAL.names or ():
        names[name] = ordered[name]
    packed = names.view(np.dtype((np.void, _SEAL.itemsize)))
    return ordered[np.unique(packed, return_index=True)[1]]


def _ranks(records: Records) -> NDArray[Any]:
    """Where each record stands among all, by its bytes."""
    packed = np.ascontiguousarray(records).view(np.dtype((np.void, records.dtype.itemsize)))
    return np.unique(packed, return_inverse=True)[1]

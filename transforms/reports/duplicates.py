"""One report of each user, window and metric counts: by its id, and a sealed one by its seal too.

Which of several reports with one id stays is drawn by lot, and not by what they say: the least of
two messages of one value says nearly twice as much of it as either.

Anyone who carries a sealed report can put another id on it; nobody who cannot open it can make
another seal of the same message. Honest clients' seals all differ, each having a fresh key in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
from apache_beam import typehints
from apache_beam.pvalue import TaggedOutput
from apache_beam.transforms.window import WindowedValue
from numpy.typing import NDArray

from mechanisms.randomness import RandomSource, SecureRandom
from mechanisms.wire.report import Form, Records, Reports
from mechanisms.wire.screening import DUPLICATE
from transforms.elements.blocks import DrawingDoFn, Generator, GroupOnce, PartitionDoFn, bucket_of
from transforms.elements.pieces import Piece
from transforms.elements.progress import tally

_SEAL = ("metric", "level", "key_id", "sealed")
_DROPPED = "dropped"
_COMPACT_AT = 1 << 18  # reports read between two compactions of a bucket's state

Rows = NDArray[np.void]
"""Of `lots`."""


def _draw() -> tuple[int, int]:
    """A hash that nobody who chose a report id can have known."""
    first, second = (SecureRandom().words(2) | np.uint64(1)).tolist()
    return first, second


class Distinct(NamedTuple):
    """What is left, and what is not.

    Attributes:
        reports: blocks.
        dropped: numbers that add up to how many reports were dropped.
    """

    reports: beam.PCollection
    dropped: beam.PCollection


@dataclass
class DropDuplicates(beam.PTransform):
    """Blocks of submitted reports in; `Distinct`, with one report of each id in a window, out.

    Of sealed ones there is one of each seal besides; but of reports with slots, whose seals are
    looked at when they are apart: what is left of a report that copies some is not lost. A bucket's
    memory is its number of ids, however often they came.

    Attributes:
        fingerprint: of the plan, 16 bytes.
        form: of the reports; submitted, so that they have ids.
        buckets: how many groups the ids are hashed into.
        multipliers: of the hash: drawn once for the job, so that no one can aim at a bucket.
        open_rng: opens the generator of lots on each worker; a seeded one is for tests.
    """

    fingerprint: bytes
    form: Form
    buckets: int = 64
    multipliers: tuple[int, int] = field(default_factory=_draw)
    open_rng: Generator = field(default=SecureRandom)

    def __post_init__(self) -> None:
        if self.form.shuffled:
            raise ValueError("shuffled reports have no ids: drop duplicates before the shuffle")

    def expand(self, reports: beam.PCollection) -> Distinct:
        partition = PartitionIdsDoFn(self.buckets, self.multipliers, self.open_rng)
        once = _distinct(reports, "id", partition, OneOfEachDoFn(self.fingerprint, self.form))
        if not self.form.sealed or self.form.slots:
            return once
        seals = DropCopiedSeals(self.fingerprint, self.form, self.buckets)
        left, dropped = once.reports | "By seal" >> seals
        return Distinct(left, (once.dropped, dropped) | "Both" >> beam.Flatten())


@dataclass
class DropCopiedSeals(beam.PTransform):
    """Blocks of sealed reports in, submitted or shuffled; `Distinct`, with one of each seal, out.

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

    def expand(self, reports: beam.PCollection) -> Distinct:
        partition = PartitionSealsDoFn(self.buckets, self.multipliers)
        return _distinct(reports, "seal", partition, OneSealDoFn(self.fingerprint, self.form))


def _distinct(
    reports: beam.PCollection, name: str, partition: beam.DoFn, choose: beam.DoFn
) -> Distinct:
    """One report of each name; what was dropped is counted before and behind the grouping."""
    parts = beam.ParDo(partition).with_outputs(_DROPPED, main="rows")
    rows = reports | f"Partition by {name}" >> parts
    choice = beam.ParDo(choose).with_outputs(_DROPPED, main="reports")
    once = rows.rows | f"Group by {name} bucket" >> GroupOnce() | f"One of each {name}" >> choice
    dropped = (rows[_DROPPED], once[_DROPPED]) | f"Dropped by {name}" >> beam.Flatten()
    return Distinct(once.reports, dropped)


def lots(form: Form) -> np.dtype[np.void]:
    """A record, and before it the lot that decides which of several stays."""
    return np.dtype([("lot", "<u8"), ("record", form.dtype)])


def drawn(reports: Reports, rng: RandomSource) -> Rows:
    """(n,) the records of some reports with their lots.

    Drawn before records are grouped: a step behind that is tried again keeps what it kept before.
    """
    rows = np.empty(len(reports), lots(reports.form))
    rows["record"], rows["lot"] = reports.records, rng.words(len(reports)) | np.uint64(1)
    # What has no length is no report, but the echo of one (see `repeats`), and wins.
    rows["lot"][reports.records["length"] == 0] = 0
    return rows


@typehints.with_input_types(Reports)
@typehints.with_output_types(tuple[int, Piece])
class PartitionIdsDoFn(PartitionDoFn, DrawingDoFn):
    """Sends each report to its id's bucket; of a flood of one report, one copy at a time."""

    def __init__(
        self, buckets: int, multipliers: tuple[int, int], open_rng: Generator = SecureRandom
    ) -> None:
        super().__init__(buckets)
        self._multipliers, self._open_rng = np.array(multipliers, np.uint64), open_rng

    def rows(self, block: Reports) -> Rows:
        return drawn(block, self._rng)

    def assign(self, rows: Rows) -> NDArray[np.uint64]:
        # Multiply-shift hashing (Dietzfelbinger et al., J. Algorithms 1997): a pair of ids meets
        # in a bucket with probability at most 2 / buckets over the draw of the multipliers.
        words = self._words(rows["record"])
        mixed = (words * self._multipliers[: words.shape[1]]).sum(axis=1, dtype=np.uint64)
        return bucket_of(mixed, self._buckets)

    def finish_bundle(self) -> Iterator[Any]:
        for window, waiting in self._waiting.items():
            rows = np.concatenate(waiting)
            self._waiting[window] = [kept := self._one(rows)]
            lost = WindowedValue(_lost(rows, kept), window.max_timestamp(), [window])
            yield TaggedOutput(_DROPPED, lost)
        yield from super().finish_bundle()

    def _words(self, records: Records) -> NDArray[np.uint64]:
        """(n, 1 or 2) words that go into the bucket's hash."""
        return np.asarray(records["report_id"][:, :1], np.uint64)

    def _one(self, rows: Rows) -> Rows:
        return distinct(rows)


class PartitionSealsDoFn(PartitionIdsDoFn):
    """Sends each report to its seal's bucket."""

    def _words(self, records: Records) -> NDArray[np.uint64]:
        # The tag and what is encrypted; a copy has the same, and bad luck costs no more than time.
        return np.ascontiguousarray(records["sealed"][:, -16:]).view("<u8").astype(np.uint64)

    def _one(self, rows: Rows) -> Rows:
        return distinct_seals(rows)


@typehints.with_input_types(tuple[int, Iterable[bytes]])
@typehints.with_output_types(Reports)
class OneOfEachDoFn(beam.DoFn):
    """One report of each id in a bucket."""

    def __init__(self, fingerprint: bytes, form: Form, compact_at: int = _COMPACT_AT) -> None:
        self._fingerprint, self._form, self._compact_at = fingerprint, form, compact_at

    def process(self, bucket: tuple[int, Iterable[bytes]]) -> Iterator[Any]:
        kept, pending, lost = [np.empty(0, lots(self._form))], 0, 0
        for piece in bucket[1]:
            rows = np.frombuffer(piece, lots(self._form))
            kept.append(rows)
            pending += rows.size
            # A flood of copies is put together as it comes, so that memory goes by ids and not by
            # reports.
            if pending >= max(self._compact_at, kept[0].size):
                rows = np.concatenate(kept)
                kept, pending = [self._one(rows)], 0
                lost += _lost(rows, kept[0])
        rows = np.concatenate(kept)
        one = self._one(rows)
        yield TaggedOutput(_DROPPED, lost + _lost(rows, one))
        records = np.ascontiguousarray(one["record"])
        reports = Reports(self._fingerprint, self._form, records).where(records["length"] > 0)
        if len(reports):
            yield reports

    def _one(self, rows: Rows) -> Rows:
        return distinct(rows)


class OneSealDoFn(OneOfEachDoFn):
    """One report of each seal in a bucket."""

    def _one(self, rows: Rows) -> Rows:
        return distinct_seals(rows)


def _lost(rows: Rows, kept: Rows) -> int:
    """How many reports were dropped; echoes are none."""
    dropped = int(np.count_nonzero(rows["lot"]) - np.count_nonzero(kept["lot"]))
    if dropped:
        tally(DUPLICATE, dropped)
    return dropped


def distinct(rows: Rows) -> Rows:
    """One report of each id, whatever the order of the rows.

    Args:
        rows: (n,) submitted reports with their lots.

    Returns:
        (ids,) in the order of the ids; of several with one id, that of the least lot. Ids are one
        if their first 8 bytes are: a Parquet file of version 3 has no others.
    """
    return _least(rows, rows["record"]["report_id"][:, 0])


def distinct_seals(rows: Rows) -> Rows:
    """One report of each seal, whatever the order of the rows.

    Metric, level and key belong to the seal: under others it does not open, and a copy that is made
    to spoil must not take the place of the report that it copies.

    Args:
        rows: (n,) sealed reports, submitted or shuffled, with their lots.

    Returns:
        (seals,) in the order of their seals; of several reports, that of the least lot.
    """
    # Equal seals under other ids: who copies a report can change the id, and nothing that is
    # sealed.
    records = rows["record"]
    kept = [name for name in _SEAL if name in (records.dtype.names or ())]
    names = np.zeros(rows.size, [(n, records.dtype[n].base, records.dtype[n].shape) for n in kept])
    for name in kept:
        names[name] = records[name]
    packed = names.view(np.dtype((np.void, names.itemsize)))
    return _least(rows, np.unique(packed, return_inverse=True)[1].ravel())


def _least(rows: Rows, *names: NDArray[Any]) -> Rows:
    """Of the rows that have the same names the one with the least lot, in the names' order."""
    order = np.lexsort((rows["lot"], *names))
    first = np.zeros(rows.size, np.bool_)
    first[:1] = True
    for name in names:
        ranked = name[order]
        first[1:] |= ranked[1:] != ranked[:-1]
    return rows[order[first]]

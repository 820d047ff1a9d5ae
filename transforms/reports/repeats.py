"""What comes again in the next window counts once, as when a client tries again across its end.

Submitted reports in the order of their ids, for no place in a file to tell whose a report is.

Rows are read in an order that means something, and users' rows are bounded in one that is the same
for all metrics and windows: by their places in a file two reports of different ids would be known
to be of one user. Ids say nothing to who lacks the secret, and so their order says nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam import typehints
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Duration
from numpy.typing import NDArray

from mechanisms.wire.report import Form, Records, Reports
from transforms.elements.blocks import GroupOnce, PartitionDoFn, bucket_of
from transforms.elements.pieces import Piece
from transforms.encoders.block import taken
from transforms.reports.duplicates import DropDuplicates


def in_order(records: Records) -> Records:
    """(n,) submitted records by metric and id."""
    return taken(records, np.lexsort((records["report_id"][:, 0], records["metric"])))


@dataclass
class ByIds(beam.PTransform):
    """Blocks of submitted reports in; out come blocks of those whose ids begin alike.

    So which reports stand together, where a file is put in order a part at a time, follows from
    their ids, too.

    Attributes:
        fingerprint: of the plan, 16 bytes.
        form: of the reports.
        buckets: how many ranges of ids there are.
    """

    fingerprint: bytes
    form: Form
    buckets: int

    def expand(self, reports: beam.PCollection) -> beam.PCollection:
        return (
            reports
            | "Partition by id" >> beam.ParDo(ByIdDoFn(self.buckets))
            | "Group" >> GroupOnce()
            | "Block" >> beam.Map(_block, self.fingerprint, self.form).with_output_types(Reports)
        )


@typehints.with_input_types(Reports)
@typehints.with_output_types(tuple[int, Piece])
class ByIdDoFn(PartitionDoFn):
    """Sends each report to the bucket of its id's range."""

    def rows(self, block: Reports) -> Records:
        return block.records

    def assign(self, rows: Records) -> NDArray[np.uint64]:
        return bucket_of(rows["report_id"][:, 0], self._buckets)


def _block(bucket: tuple[int, Iterable[bytes]], fingerprint: bytes, form: Form) -> Reports:
    return Reports(fingerprint, form, np.frombuffer(b"".join(bucket[1]), form.dtype))


@dataclass
class DropRepeats(beam.PTransform):
    """`DropDuplicates` in windows of time that tumble, of each also what came a window before.

    Every window remembers the ids of the one before it, and no more: a report that was sent again
    across a window's end counts once, and so does one that is sent again in every window. One that
    came too late for its window counts in no other.

    Attributes:
        fingerprint: of the plan, 16 bytes.
        form: of the reports; submitted, so that they have ids.
        length: of a window, in microseconds.
    """

    fingerprint: bytes
    form: Form
    length: int

    def expand(self, reports: beam.PCollection) -> beam.PCollection:
        echoes = (
            reports
            | "Ids to the next window" >> beam.ParDo(EchoDoFn(self.length))
            | "Next window" >> beam.WindowInto(reports.windowing.windowfn)
        )
        both = (reports, echoes) | "With echoes" >> beam.Flatten()
        once = both | "Once each" >> DropDuplicates(self.fingerprint, self.form)
        return once.reports


@typehints.with_input_types(Reports)
@typehints.with_output_types(Reports)
class EchoDoFn(beam.DoFn):
    """The ids of reports, a window later, in records of no length: no report is such a one."""

    def __init__(self, length: int) -> None:
        self._length = Duration(micros=length)

    def process(
        self, block: Reports, came: Any = beam.DoFn.TimestampParam
    ) -> Iterator[TimestampedValue]:
        records = np.zeros(len(block), block.form.dtype)
        records["report_id"] = block.records["report_id"]
        # Later by exactly one window's length, an echo falls into the next window and into no
        # other.
        yield TimestampedValue(replace(block, records=np.unique(records)), came + self._length)

"""Submitted reports in the order of their ids, for no place in a file to tell whose a report is.

Rows are read in an order that means something, and users' rows are bounded in one that is the same
for all metrics and windows: by their places in a file two reports of different ids would be known
to be of one user. Ids say nothing to who lacks the secret, and so their order says nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import apache_beam as beam
import numpy as np
from apache_beam import typehints
from numpy.typing import NDArray

from mechanisms.wire.report import Form, Records, Reports
from transforms.elements.blocks import GroupOnce, PartitionDoFn, bucket_of
from transforms.elements.pieces import Piece
from transforms.encoders.block import taken


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
    """The reports of a range."""
    return Reports(fingerprint, form, np.frombuffer(b"".join(bucket[1]), form.dtype))

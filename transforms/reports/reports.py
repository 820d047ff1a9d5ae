"""Files of reports in and out, on any file system Beam knows; what cannot be is counted."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import BinaryIO

import apache_beam as beam
import numpy as np
from apache_beam.io import fileio

from mechanisms.wire import binary
from mechanisms.wire import fingerprint as plans
from mechanisms.wire.report import Form, Records, Reports
from mechanisms.wire.screening import Expected, Screened
from transforms.elements.block_coders import BlockCoder, decoded, encoded, weighed
from transforms.elements.progress import tally
from transforms.reports import report_tables
from transforms.reports.repeats import in_order


class ReportsCoder(BlockCoder):
    """Blocks of reports to bytes and back: the plan, the form and its slots, and the records."""

    def encode(self, block: Reports) -> bytes:
        form = bytes([block.form.kind]) + block.form.slots.to_bytes(2, "little")
        return block.fingerprint + form + encoded(block.records)

    def decode(self, piece: bytes) -> Reports:
        plan, rest = piece[: plans.SIZE], piece[plans.SIZE :]
        kind, slots = (int.from_bytes(part, "little") for part in (rest[:1], rest[1:3]))
        return Reports(plan, replace(Form.of(kind), slots=slots), decoded(rest[3:]))

    def estimate_size(self, block: Reports) -> int:
        return block.records.nbytes


weighed(Reports, ReportsCoder)

# Bytes of records that are put in order at a time: 1.2 million plain ones. Twice as many would save
# one bit of each.
_GROUP = 1 << 25


def read(file: BinaryIO, expected: Expected) -> Iterator[Screened]:
    """Reports of a file of either kind, block by block, with what was dropped by reason.

    Args:
        file: at its first byte; can be sought.
        expected: what the reader's plan makes of them.
    """
    start = file.read(len(report_tables.MAGIC))
    file.seek(0)
    carrier = report_tables if start == report_tables.MAGIC else binary
    return carrier.read(file, expected)


def kept(screened: Screened) -> Iterator[Reports]:
    """What is left of a block, if anything; what was dropped goes to the counters."""
    for reason, size in screened.dropped.items():
        tally(reason, size)
    if len(screened.reports):
        yield screened.reports


@dataclass
class MessagesOf(beam.PTransform):
    """Blocks of plain reports in, blocks of one metric's messages out, for `Shuffle` or a count.

    Attributes:
        metric: its place in the plan.
    """

    metric: int

    def expand(self, reports: beam.PCollection) -> beam.PCollection:
        return reports | "Take messages" >> beam.Map(messages_of, self.metric).with_output_types(
            np.ndarray
        )


def messages_of(reports: Reports, metric: int) -> np.ndarray:
    """(n,) uint64 messages of one metric."""
    return np.ascontiguousarray(reports.of_metric(metric).records["message"], np.uint64)


class OrderedSink(fileio.FileSink):
    """Puts submitted reports in order, some 32 MB at a time."""

    def __init__(self, form: Form, fingerprint: bytes) -> None:
        self._form, self._fingerprint = form, fingerprint

    def open(self, fh: BinaryIO) -> None:
        self._file = fh
        self._waiting, self._size = dict[Form, list[Records]](), 0

    def write(self, record: Reports) -> None:
        if len(record):
            self._waiting.setdefault(record.form, []).append(record.records)
        self._size += record.records.nbytes
        if self._size >= _GROUP:
            self._put()

    def flush(self) -> None:
        self._put()

    def _put(self) -> None:
        # Metrics of noisy counters differ in width, and each metric's reports are of one.
        for form in sorted(self._waiting, key=lambda form: form.slots):
            records = in_order(np.concatenate(self._waiting[form]))
            self.put(Reports(self._fingerprint, form, records))
        self._waiting, self._size = {}, 0

    @abstractmethod
    def put(self, reports: Reports) -> None:
        """Write reports that are in order."""


class BinarySink(OrderedSink):
    """Puts records behind one header."""

    def open(self, fh: BinaryIO) -> None:
        super().open(fh)
        fh.write(binary.header(self._form, self._fingerprint))

    def put(self, reports: Reports) -> None:
        self._file.write(reports.records.tobytes())


class ParquetSink(OrderedSink):
    """Makes row groups of tables."""

    def open(self, fh: BinaryIO) -> None:
        super().open(fh)
        self._writer = report_tables.writer(fh, self._form)

    def flush(self) -> None:
        super().flush()
        self._writer.close()

    def put(self, reports: Reports) -> None:
        table = report_tables.to_table(reports)
        self._writer.write_table(table, row_group_size=table.num_rows)

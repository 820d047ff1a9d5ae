"""Parquet in and out, by blocks, on any file system Beam knows."""

from __future__ import annotations

from dataclasses import dataclass

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.io.parquetio import ReadAllFromParquetBatched, WriteToParquetBatched

from transforms.block_coders import TableCoder, weighed

_MESSAGES = pa.schema([("message", pa.uint64())])

weighed(pa.Table, TableCoder)


@dataclass
class ReadTelemetry(beam.PTransform):
    """The named columns of Parquet files, as Arrow tables of one row group each.

    Attributes:
        files: paths or patterns, local or gs://.
        columns: what to read; nothing else leaves the files.
    """

    files: tuple[str, ...]
    columns: tuple[str, ...]

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection:
        read = ReadAllFromParquetBatched(columns=list(self.columns))
        return (
            begin
            | "Files" >> beam.Create(self.files)
            | "Read row groups" >> read.with_output_types(pa.Table)
        )


@dataclass
class WriteMessages(beam.PTransform):
    """Blocks of messages to Parquet files with the one column `message`.

    Attributes:
        prefix: path and start of the file names.
    """

    prefix: str

    def expand(self, messages: beam.PCollection) -> beam.PCollection:
        return (
            messages
            | "To tables" >> beam.Map(_to_table).with_output_types(pa.Table)
            | "Write" >> WriteToParquetBatched(self.prefix, _MESSAGES, file_name_suffix=".parquet")
        )


@dataclass
class ReadMessages(beam.PTransform):
    """What `WriteMessages` wrote, as blocks of messages.

    Attributes:
        pattern: path or pattern.
    """

    pattern: str

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection:
        return (
            begin
            | ReadTelemetry((self.pattern,), ("message",))
            | "To messages" >> beam.Map(_to_messages).with_output_types(np.ndarray)
        )


def _to_table(messages: np.ndarray) -> pa.Table:
    """One block as a table."""
    return pa.table([messages], schema=_MESSAGES)


def _to_messages(table: pa.Table) -> np.ndarray:
    """One table as a block."""
    return table.column("message").to_numpy()

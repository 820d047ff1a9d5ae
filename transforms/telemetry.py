"""Rows in, from files of any format, and messages out to Parquet, on any file system Beam knows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.io.parquetio import ReadAllFromParquetBatched, WriteToParquetBatched

from transforms.block_coders import TableCoder, weighed
from transforms.files.partitions import parts_of
from transforms.files.reading import PLAIN, Reading
from transforms.files.source import PARQUET, UnreadableError, format_of, tables
from transforms.progress import UNREADABLE, tally

_MESSAGES = pa.schema([("message", pa.uint64())])

weighed(pa.Table, TableCoder)


@dataclass
class ReadTelemetry(beam.PTransform):
    """The named columns of files, as Arrow tables of some rows each.

    Attributes:
        files: paths or patterns, local or gs://; patterns of Parquet files alone.
        columns: what to read; nothing else leaves the files.
        reading: of text.
    """

    files: tuple[str, ...]
    columns: tuple[str, ...]
    reading: Reading = PLAIN

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection:
        read = ReadFiles(self.columns, self.reading, split=splits(self.files, self.columns))
        # Who reads them deals them out.
        files = beam.Create(self.files, reshuffle=False)
        return begin | "Files" >> files | "Read row groups" >> read


def splits(files: Iterable[str], columns: Iterable[str]) -> bool:
    """Whether files, or patterns, can be read in parts: Parquet that holds the columns itself."""
    wanted = {*columns}
    return all(format_of(file) is PARQUET and not wanted & parts_of(file).keys() for file in files)


@dataclass
class ReadFiles(beam.PTransform):
    """Paths in; tables out, or (path, table).

    Attributes:
        columns: what to read.
        reading: of text.
        named: whether each table comes with its file's name.
        split: whether several workers may share a file: Beam's own reader, which hands out a table
            for each row group. A file of any other format is read by one worker.
    """

    columns: tuple[str, ...]
    reading: Reading = PLAIN
    named: bool = False
    split: bool = True

    def expand(self, paths: beam.PCollection) -> beam.PCollection:
        if self.split:
            read = ReadAllFromParquetBatched(columns=[*self.columns], with_filename=self.named)
            return paths | (read if self.named else read.with_output_types(pa.Table))
        step = beam.ParDo(ReadFileDoFn(self.columns, self.reading, self.named))
        kind = tuple[str, pa.Table] if self.named else pa.Table
        return paths | "Deal out" >> beam.Reshuffle() | "Rows" >> step.with_output_types(kind)


class ReadFileDoFn(beam.DoFn):
    """All of a file; a counter says why one cannot be read, in words that quote nothing of it."""

    def __init__(self, columns: tuple[str, ...], reading: Reading, named: bool) -> None:
        self._columns, self._reading, self._named = columns, reading, named

    def process(self, path: str) -> Iterator[Any]:
        try:
            for table in tables(path, self._columns, self._reading):
                if table.num_rows:
                    yield (path, table) if self._named else table
        except UnreadableError as error:
            tally(f"{UNREADABLE}{error}", 1)
            raise


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

"""Rows in, from files of any format, on any file system Beam knows."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
import pyarrow as pa

from transforms.elements.block_coders import TableCoder, weighed
from transforms.elements.progress import FILES, READ, UNREADABLE, tally
from transforms.files.format import opener
from transforms.files.kinds import AS_WRITTEN, Agreed, DisagreeError
from transforms.files.parquet import RowGroups
from transforms.files.partitions import parts_of
from transforms.files.reading import PLAIN, Reading
from transforms.files.source import PARQUET, UnreadableError, format_of, tables
from transforms.files.systems import File, FileSystems

# Parts of a log, at the least, and bytes of one, at the most: so many that eight workers have alike
# much to do, and no more, for each part reads its file's footer anew.
_PARTS, _PART = 32, 1 << 26
_FEW = 256  # elements of files that are not split, and files of an element of others
_SMALL = 1 << 16  # rows up to which tables are put together, for steps take long over each
_ALL = 1 << 31  # row groups

weighed(pa.Table, TableCoder)


@dataclass
class ReadTelemetry(beam.PTransform):
    """The named columns of files, as Arrow tables of some rows each.

    Attributes:
        files: paths, local or gs://; or patterns, if their number is said, or all are Parquet.
        columns: what to read; nothing else leaves the files.
        reading: of text.
        agreed: as what columns are read that files lay out differently.
        counted: whether tables without rows say how many files had how many rows, for whoever has
            not counted them before: see `Encode`.
        matching: how many files the patterns match, which workers then look for: a graph with a
            million names is more than runners take. 0 of paths.
        split: as of `ReadFiles`; None if it follows from the names.
    """

    files: tuple[str, ...]
    columns: tuple[str, ...]
    reading: Reading = PLAIN
    agreed: Agreed = AS_WRITTEN
    counted: bool = False
    matching: int = 0
    split: bool | None = None

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection:
        split = splits(self.files, self.columns) if self.split is None else self.split
        number = self.matching or len(self.files)
        read = ReadFiles(
            self.columns, self.reading, split=split, number=number, agreed=self.agreed,
            counted=self.counted,
        )  # fmt: skip
        # Who reads them deals them out: of small ones those of an element go together, so that
        # 5,000 of 200 rows are 32 tables, and not 256, each of which took the steps a millisecond.
        size = max(1, min(number // _PARTS, _FEW) if split else number // _FEW)
        if self.matching:
            files = begin | "Patterns" >> beam.Create(self.files, reshuffle=False)
            files |= "Match" >> beam.ParDo(MatchDoFn())
            return files | "Deal out files" >> beam.Reshuffle() | "Read row groups" >> read
        some = [self.files[start : start + size] for start in range(0, number, size)]
        files = beam.Create(some, reshuffle=False)
        return begin | "Files" >> files | "Read row groups" >> read


def splits(files: Iterable[str], columns: Iterable[str]) -> bool:
    """Whether files, or patterns, can be read in parts: Parquet that holds the columns itself."""
    wanted = {*columns}
    return all(format_of(file) is PARQUET and not wanted & parts_of(file).keys() for file in files)


@dataclass
class ReadFiles(beam.PTransform):
    """Paths, or tuples of several, in; tables out, or (path, table).

    Attributes:
        columns: what to read.
        reading: of text.
        named: whether each table comes with its file's name.
        split: whether several workers may share a file: Parquet that holds the columns itself, of
            which a table is made for each row group. Any other file is read by one worker.
        number: of files, if it is known: fewer are cut to more parts each.
        agreed: as what columns are read that files lay out differently.
        counted: as of `ReadTelemetry`.
    """

    columns: tuple[str, ...]
    reading: Reading = PLAIN
    named: bool = False
    split: bool = True
    number: int = _PARTS
    agreed: Agreed = AS_WRITTEN
    counted: bool = False

    def expand(self, paths: beam.PCollection) -> beam.PCollection:
        kind = tuple[str, pa.Table] if self.named else pa.Table
        if self.split:
            paths |= "Parts" >> beam.ParDo(CutDoFn(-(-_PARTS // max(1, self.number))))
            step = beam.ParDo(ReadPartDoFn(self.columns, self.named, self.agreed, self.counted))
        else:
            do = ReadFileDoFn(self.columns, self.reading, self.named, self.agreed, self.counted)
            step = beam.ParDo(do)
        return paths | "Deal out" >> beam.Reshuffle() | "Rows" >> step.with_output_types(kind)


Part = tuple[str, int, int]  # of a file: its row groups from one on, and before another


def _files(paths: str | tuple[str, ...]) -> tuple[str, ...]:
    return (paths,) if isinstance(paths, str) else paths


def _put_together(parts: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Tables, small ones of the same columns as one."""
    kept: list[pa.Table] = []
    rows = 0
    for table in parts:
        if not table.num_columns:  # put together, Arrow would forget how many rows there were
            yield table
            continue
        if kept and (rows + table.num_rows > _SMALL or table.schema != kept[0].schema):
            yield _one(kept)
            kept, rows = [], 0
        kept.append(table)
        rows += table.num_rows
    if kept:
        yield _one(kept)


def _one(kept: list[pa.Table]) -> pa.Table:
    return kept[0] if len(kept) == 1 else pa.concat_tables(kept).combine_chunks()


@beam.typehints.with_output_types(tuple[str, ...])
class MatchDoFn(beam.DoFn):
    """Patterns to the files that they match, some at a time."""

    def process(self, pattern: str) -> Iterator[tuple[str, ...]]:
        some: list[str] = []
        size = 0
        for file in FileSystems.named(pattern):
            if some and (size + file.size_in_bytes > _PART or len(some) == _FEW):
                yield tuple(some)
                some, size = [], 0
            some.append(file.path)
            size += file.size_in_bytes
        if some:
            yield tuple(some)


@beam.typehints.with_output_types(tuple[Part, ...])
class CutDoFn(beam.DoFn):
    """Paths of Parquet files, or patterns, to parts of alike many row groups; small files together.

    A file that is gone since it was looked for is an error: nobody counts a stream's rows before.

    Beam's own reader cuts files every 64 MiB. Row groups of 128 MiB, which Spark writes, begin in
    every second part alone, and its local runner deals parts to two workers in turn.
    """

    def __init__(self, parts: int) -> None:
        self._parts = parts

    def process(self, paths: str | tuple[str, ...]) -> Iterator[tuple[Part, ...]]:
        small: list[Part] = []
        size = 0
        for path in _files(paths):
            if not (files := FileSystems.named(path)):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            for file in files:
                parts = self._parts_of(file)
                if len(parts) == 1 and size + file.size_in_bytes <= _PART:
                    small, size = [*small, *parts], size + file.size_in_bytes
                else:
                    yield from ((part,) for part in parts)
        if small:
            yield tuple(small)

    def _parts_of(self, file: File) -> list[Part]:
        parts = max(self._parts, -(-file.size_in_bytes // _PART))
        if parts == 1:
            return [(file.path, 0, _ALL)]
        with opener(file.path, None)() as stream:
            groups = RowGroups(stream).number
        # Alike large, and so rather more of them: were every fourth the larger, one worker in
        # two would get all of those.
        step = max(1, groups // parts)
        return [(file.path, start, start + step) for start in range(0, groups, step)]


class ReadPartDoFn(beam.DoFn):
    """The row groups of parts."""

    def __init__(
        self, columns: tuple[str, ...], named: bool, agreed: Agreed, counted: bool = False
    ) -> None:
        self._columns, self._named, self._agreed = [*columns], named, agreed
        self._counted = counted

    def process(self, parts: tuple[Part, ...]) -> Iterator[Any]:
        if self._named:
            yield from ((part[0], table) for part in parts for table in self._read(part))
            return
        rows = 0
        for table in _put_together(table for part in parts for table in self._read(part)):
            rows += table.num_rows
            yield table
        if self._counted:
            yield _count(rows, sum(start == 0 for _, start, _ in parts))

    def _read(self, part: Part) -> Iterator[pa.Table]:
        path, start, stop = part
        try:
            with opener(path, None)() as stream:
                groups = RowGroups(stream)
                for group in range(start, min(stop, groups.number)):
                    for table in groups.tables(group, self._columns):
                        yield self._agreed.read(table, self._columns)
        except DisagreeError as error:
            raise _unreadable(UnreadableError(path, PARQUET.name, str(error), False)) from None


class ReadFileDoFn(beam.DoFn):
    """All of a file; a counter says why one cannot be read, in words that quote nothing of it."""

    def __init__(
        self,
        columns: tuple[str, ...],
        reading: Reading,
        named: bool,
        agreed: Agreed,
        counted: bool = False,
    ) -> None:
        self._columns, self._reading, self._named = columns, reading, named
        self._agreed, self._counted = agreed, counted

    def process(self, paths: str | tuple[str, ...]) -> Iterator[Any]:
        for path in _files(paths):
            yield from self._read(path)

    def _read(self, path: str) -> Iterator[Any]:
        rows = 0
        try:
            for part in tables(path, self._columns, self._reading):
                table = self._agreed.read(part, self._columns)
                rows += table.num_rows
                if table.num_rows:
                    yield (path, table) if self._named else table
            if self._counted:
                yield _count(rows, 1)
        except DisagreeError as error:
            form = format_of(path).name
            raise _unreadable(UnreadableError(path, form, str(error), False)) from None
        except UnreadableError as error:
            raise _unreadable(error) from None


def _count(rows: int, files: int) -> pa.Table:
    """What says how many rows some files had."""
    return pa.table({}).replace_schema_metadata({READ: str(rows), FILES: str(files)})


def _unreadable(error: UnreadableError) -> UnreadableError:
    """Have the job's counters say it: what a step raises reaches nobody."""
    tally(f"{UNREADABLE}{error}", 1)
    return error

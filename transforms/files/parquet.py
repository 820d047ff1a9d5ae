"""Parquet and ORC: the footer tells rows and columns."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from transforms.files.format import FileFacts, Mangled, Opener
from transforms.files.reading import Reading

# Rows of a group up to which it is read as one; of a larger one, rows at a time. A few bytes may
# say that a value comes two billion times, and writers make groups of a million rows or so.
_WHOLE, _SOME = 1 << 23, 1 << 20
# Rows of a group from which on texts are read as a dictionary, where that takes fewer bytes a row
# than texts one by one: of these the length alone has four.
_CODED, _LENGTH = 1 << 14, 4
# Columns read together: Arrow holds the buffers of all of them, of 400 five times what they say.
_COLUMNS = 32


class Parquet:
    """Row group by row group."""

    name: ClassVar[str] = "Parquet"
    endings: ClassVar[tuple[str, ...]] = (".parquet", ".pq")
    text: ClassVar[bool] = False

    def look(self, open_file: Opener, reading: Reading) -> FileFacts:
        with open_file() as stream:
            file = pq.ParquetFile(stream, coerce_int96_timestamp_unit="us")
            about = file.metadata
            rows = [about.row_group(group).num_rows for group in range(about.num_row_groups)]
            # Some writers say 0 of the whole file; what is read are the groups.
            return FileFacts(sum(rows), file.schema_arrow)

    def tables(
        self, open_file: Opener, columns: Sequence[str], reading: Reading
    ) -> Iterator[pa.Table]:
        with open_file() as stream:
            groups = RowGroups(stream)
            for number in range(groups.number):
                yield from groups.tables(number, columns)


class RowGroups:
    """The row groups of a file.

    INT96, as Spark writes times by default, reaches beyond 64 bits. In nanoseconds, Arrow's choice,
    9999-12-31 comes round to 1816; it is read in microseconds, and a time beyond these is null.

    Attributes:
        number: how many there are.
    """

    def __init__(self, stream: Any) -> None:
        self._file = pq.ParquetFile(
            stream, coerce_int96_timestamp_unit="us", pre_buffer=not _is_on_disk(stream)
        )
        self._stream = stream
        self.number: int = self._file.num_row_groups

    @cached_property
    def _wide(self) -> set[str]:
        """The columns of INT96; its leaves took a small file as long as its rows do."""
        leaves = map(self._file.schema.column, range(len(self._file.schema)))
        return {leaf.path for leaf in leaves if leaf.physical_type == "INT96"}

    @cached_property
    def _coarse(self) -> pq.ParquetFile:
        """The same, times in milliseconds: no INT96 is beyond these."""
        return pq.ParquetFile(self._stream, coerce_int96_timestamp_unit="ms")

    @cached_property
    def _coded(self) -> pq.ParquetFile:
        """The same, texts as dictionaries."""
        texts = [field.name for field in self._file.schema_arrow if field.type == pa.string()]
        return pq.ParquetFile(
            self._stream, metadata=self._file.metadata, read_dictionary=texts,
            coerce_int96_timestamp_unit="us", pre_buffer=not _is_on_disk(self._stream),
        )  # fmt: skip

    def _repeats(self, number: int, columns: Sequence[str]) -> bool:
        """Whether a row group writes each text of these columns once, and for each row its number.

        To write out 10^7 texts, for somebody who looks for equal ones, took 0.6 of 0.8 CPU seconds.
        """
        group = self._file.metadata.row_group(number)
        if group.num_rows < _CODED:
            return False
        leaves = map(group.column, range(group.num_columns))
        texts = [
            leaf.total_uncompressed_size < _LENGTH * leaf.num_values
            and any("DICTIONARY" in encoding for encoding in leaf.encodings)
            for leaf in leaves
            if leaf.path_in_schema in columns and leaf.physical_type == "BYTE_ARRAY"
        ]
        return bool(texts) and all(texts)

    def tables(self, number: int, columns: Sequence[str]) -> Iterator[pa.Table]:
        """A row group; of a very large one some rows at a time.

        Texts are a dictionary where the group writes them so.
        """
        coarse: Iterator[pa.Table] | None = None
        file = self._coded if self._repeats(number, columns) else self._file
        for table in _tables(file, number, columns):
            times = [field.name for field in table.schema if pa.types.is_timestamp(field.type)]
            wide = [name for name in times if name in self._wide]
            if not wide:
                yield table
                continue
            coarse = coarse or _tables(self._coarse, number, wide)
            again = next(coarse)  # what differs in milliseconds was beyond microseconds
            for name in wide:
                place = table.schema.get_field_index(name)
                column = _reached(table.column(place), again.column(name))
                table = table.set_column(place, table.schema.field(place), column)
            yield table


def _is_on_disk(stream: Any) -> bool:
    """Whether a part is read faster alone than by the threads that fetch parts beforehand.

    Of 5,000 small files on a disk these threads took 0.17 of 0.26 CPU ms a file.
    """
    return isinstance(stream, pa.OSFile)


def _tables(file: pq.ParquetFile, number: int, columns: Sequence[str]) -> Iterator[pa.Table]:
    rows = file.metadata.row_group(number).num_rows
    if not columns:  # a table knows its rows by its columns
        yield pa.table({"": pa.nulls(rows)}).select([])
        return
    if rows <= _WHOLE:
        parts = [
            file.read_row_group(number, [*columns[at : at + _COLUMNS]], use_threads=False)
            for at in range(0, len(columns), _COLUMNS)
        ]
        if len(parts) == 1:
            yield parts[0].replace_schema_metadata()  # it tells of all columns of the file
            return
        fields = pa.schema([field for part in parts for field in part.schema])
        yield pa.Table.from_arrays(
            [part for table in parts for part in table.columns], schema=fields
        )
        return
    for batch in file.iter_batches(_SOME, [number], [*columns], use_threads=False):
        yield pa.Table.from_batches([batch])


def _reached(micros: pa.ChunkedArray, millis: pa.ChunkedArray) -> pa.Array:
    """Times; null where they came round."""
    fine = micros.combine_chunks()
    here, there = (
        np.asarray(column.cast(pa.int64()).fill_null(0).to_numpy()) for column in (micros, millis)
    )
    lost = pa.array(here // 1000 != there)
    return pc.if_else(lost, pa.scalar(None, fine.type), fine)


class Orc:
    """Stripe by stripe."""

    name: ClassVar[str] = "ORC"
    endings: ClassVar[tuple[str, ...]] = (".orc",)
    text: ClassVar[bool] = False

    def look(self, open_file: Opener, reading: Reading) -> FileFacts:
        from pyarrow.orc import ORCFile

        with open_file() as stream:
            file = ORCFile(stream)
            try:
                return FileFacts(file.nrows, file.schema)
            except pa.ArrowNotImplementedError as error:
                if "top-level struct" in str(error):
                    raise Mangled("its rows are no records, so that it has no columns") from None
                raise

    def tables(
        self, open_file: Opener, columns: Sequence[str], reading: Reading
    ) -> Iterator[pa.Table]:
        from pyarrow.orc import ORCFile

        with open_file() as stream:
            file = ORCFile(stream)
            for stripe in range(file.nstripes):
                yield pa.Table.from_batches([_stripe(file, stripe, [*columns])])


def _stripe(file: Any, stripe: int, columns: list[str]) -> pa.RecordBatch:
    try:
        return file.read_stripe(stripe, columns=columns)
    except pa.ArrowInvalid as error:
        if "out of range for nanosecond" not in str(error):
            raise
    far = next(name for name in columns if _is_far(file, stripe, name))
    raise Mangled(
        f"column {far!r} holds a time before 1677-09-21 or after 2262-04-11, and ORC's reader has "
        "nanoseconds alone, which do not reach there: write the log as Parquet, or null such times"
    )


def _is_far(file: Any, stripe: int, column: str) -> bool:
    """Whether it is this column that has a time beyond nanoseconds."""
    try:
        file.read_stripe(stripe, columns=[column])
    except pa.ArrowInvalid:
        return True
    return False

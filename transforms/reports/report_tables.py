"""Reports as Parquet: a column for each field, and rows dropped by reason on the way in.

Files of submitted reports are of format version 3: ids are the 8 bytes by which reports are told
apart, and rows stand in their order. Random words in order are told by their differences: 1,000,000
of them take 5.9 bytes each in the place of 16, of which log2(n!) / n bits, 2.3 bytes, are saved by
the order alone.
"""

from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from mechanisms.wire import fingerprint, screening
from mechanisms.wire.report import SEALED, VERSION, Form, Reports
from mechanisms.wire.screening import Expected, Screened, tallied

MAGIC = b"PAR1"

PACKED = 3  # the format version of ids that stand in order

_BLOCK = 1 << 16  # rows read at a time
# Of fields that are numbers by chance; all others are the same in every row of a plan and metric.
_BY_DIFFERENCES = ("report_id", "message")

# What packs harder makes gigabytes of a few kilobytes, and random words do not pack at all.
_CODECS = {"UNCOMPRESSED", "SNAPPY"}
# Ids and seals are random, and take their bytes in any file; a file may hold reports again.
_MOST_COPIES = 4


def schema(form: Form) -> pa.Schema:
    """The columns of a Parquet file of reports; a reader ignores all others."""
    fields = [
        ("version", pa.uint16()),
        ("fingerprint", pa.binary(fingerprint.SIZE)),
        ("metric", pa.uint16()),
    ]
    fields += [] if form.shuffled else [("report_id", pa.uint64())]
    fields += [("level", pa.uint16())] if form.slots and not form.wide else []
    fields += [("value", pa.uint64())] if form.crowd else []
    sealed = [("key_id", pa.binary(8)), ("sealed", pa.binary(SEALED * form.seals))]
    return pa.schema(fields + (sealed if form.sealed else [("message", pa.uint64())]))


def least_bytes(form: Form) -> int:
    """How many bytes of a row are random words, which nothing packs.

    Of an id in order 4: what is left of 8 where 2^31 of them are told by their differences.
    """
    return 4 * (not form.shuffled) + SEALED * form.sealed * form.seals


class TableWriter(pq.ParquetWriter):
    """Arrow's, which ends a file when it is closed and never when it is forgotten.

    An error in the midst closes the file first, and Arrow's own would complain on the error stream,
    with a traceback, that it cannot end what is half a file.
    """

    def __del__(self) -> None:
        """Nothing."""


def writer(file: BinaryIO, form: Form) -> TableWriter:
    """What writes tables of submitted reports, each in the order of its ids.

    Random words in order, and messages, take the bits of their differences; nothing packs them
    further, so no codec is asked for.
    """
    columns = schema(form)
    packed = [name for name in _BY_DIFFERENCES if name in columns.names]
    alike = [name for name in columns.names if name not in (*packed, "sealed")]
    encoding = dict.fromkeys(packed, "DELTA_BINARY_PACKED")
    return TableWriter(
        file, columns, compression="NONE", use_dictionary=alike, column_encoding=encoding
    )


def to_table(reports: Reports) -> pa.Table:
    """A block as a table of n rows."""
    size, form = len(reports), reports.form
    plan = np.frombuffer(reports.fingerprint * size, np.uint8)
    columns: dict[str, NDArray[Any]] = {
        "version": np.full(size, _version(form), np.uint16),
        "fingerprint": plan,
    }
    columns |= {name: reports.records[name] for name in form.dtype.names or ()}
    if not form.shuffled:
        columns["report_id"] = columns["report_id"][:, 0]
    wanted = schema(reports.form)
    return pa.table([_array(columns[field.name], field.type) for field in wanted], schema=wanted)


def from_table(table: pa.Table, expected: Expected) -> Screened:
    """What a table holds of reports that can be; each row is dropped for one reason at most.

    Args:
        table: n rows of any columns.
        expected: what the reader's plan makes of them.

    Returns:
        The reports that are left, in the order of their rows.
    """
    form = _fitted(table.schema, expected.form)
    wanted, version = schema(form), _version(form)
    if not all(_is_there(field, table.schema) for field in wanted):
        return expected.refused(screening.OTHER_COLUMNS, table.num_rows)
    counts: dict[str, int] = {}
    for reason, kept in (
        (screening.NULL, lambda rows: ~_any_null(rows.select(wanted.names))),
        (screening.OTHER_VERSION, lambda rows: pc.equal(rows["version"], version)),
        (screening.OTHER_PLAN, lambda rows: pc.equal(rows["fingerprint"], _plan(expected))),
    ):
        before = table.num_rows
        table = table.filter(kept(table))
        counts[reason] = before - table.num_rows
    records = form.empty(table.num_rows)
    for field in wanted.remove(1).remove(0):
        column = _numbers(table[field.name], records.dtype[field.name])
        place = records[field.name]
        (place if place.shape == column.shape else place[:, 0])[:] = column
    screened = expected.screen(Reports(expected.fingerprint, form, records))
    return Screened(screened.reports, tallied(counts, screened.dropped))


def read(file: BinaryIO, expected: Expected, rows: int = _BLOCK) -> Iterator[Screened]:
    """Reports of a Parquet file, block by block.

    Args:
        file: can be sought.
        expected: what the reader's plan makes of them.
        rows: read at a time.

    Yields:
        Blocks, with what was dropped from each by reason. Never an exception for what the bytes
        are; the file's own errors pass.
    """
    watched = _WatchedFile(file)
    reason = screening.NOT_REPORTS
    batches = _batches(watched, expected.form, rows)
    while True:
        try:
            batch = next(batches, None)
        except _RefusedError as refused:
            yield expected.refused(refused.reason, refused.size)
            return
        # Arrow, Thrift and the codecs have no common way to say that bytes are not what they
        # should be, and what they say may quote them.
        except Exception:
            if watched.failed:
                raise
            yield expected.refused(reason, 1)
            return
        if batch is None:
            return
        reason = screening.TRUNCATED
        yield from_table(pa.Table.from_batches([batch]), expected)


class _RefusedError(Exception):
    """A file that is read no further: the reason, and how much is counted under it."""

    def __init__(self, reason: str, size: int = 1) -> None:
        super().__init__(reason)
        self.reason, self.size = reason, size


def _batches(file: Any, form: Form, rows: int) -> Iterator[pa.RecordBatch]:
    """The rows of a Parquet file, or the exception that its reading raises."""
    parquet, names, size = pq.ParquetFile(file), schema(form).names, file.seek(0, 2)
    form = _fitted(parquet.schema_arrow, form)
    left = parquet.metadata.num_rows
    # Before a page is read: of another type, one long value can be that of all rows.
    if not all(_is_there(field, parquet.schema_arrow) for field in schema(form)):
        raise _RefusedError(screening.OTHER_COLUMNS, min(max(left, 0), size))
    _require_possible(parquet.metadata, size, least_bytes(form))
    for batch in parquet.iter_batches(rows, columns=names, use_threads=False):
        left -= batch.num_rows
        if left < 0:  # whatever the footer has told
            raise _RefusedError(screening.OVERFULL)
        yield batch


def _require_possible(footer: pq.FileMetaData, size: int, least: int) -> None:
    """Refuse a Parquet file that no writer makes of so many reports, by its footer."""
    groups = [footer.row_group(place) for place in range(footer.num_row_groups)]
    chunks = [group.column(place) for group in groups for place in range(group.num_columns)]
    possible = (
        0 <= footer.num_rows == sum(group.num_rows for group in groups)
        and footer.num_rows * least <= _MOST_COPIES * size
        # Pages that many groups point at would be unpacked as often.
        and sum(chunk.total_compressed_size for chunk in chunks) <= size
        and all(chunk.total_compressed_size >= 0 for chunk in chunks)
    )
    if not possible:
        raise _RefusedError(screening.OVERFULL)
    if not _CODECS.issuperset(chunk.compression for chunk in chunks):
        raise _RefusedError(screening.OTHER_CODEC)


class _WatchedFile:
    """A file that remembers whether it failed itself, or only what was read from it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self.failed, self.closed = file, False, False

    def _call(self, name: str, *args: int) -> Any:
        try:
            return getattr(self._file, name)(*args)
        except Exception:
            self.failed = True
            raise

    def read(self, size: int = -1) -> bytes:
        return self._call("read", size)

    def seek(self, offset: int, whence: int = 0) -> int:
        # Corrupt metadata points anywhere, and that is not the file's fault.
        if whence == 0 and offset < 0:
            raise ValueError("before the first byte")
        return self._call("seek", offset, whence)

    def tell(self) -> int:
        return self._call("tell")

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        self.closed = True


def _fitted(columns: pa.Schema, form: Form) -> Form:
    """The form with as many slots as a column has room for."""
    places = columns.get_all_field_indices("sealed") if form.slots else []
    kind = columns.field(places[0]).type if len(places) == 1 else None
    if kind is None or not pa.types.is_fixed_size_binary(kind):
        return form
    return form.fitted(kind.byte_width) or form


def _version(form: Form) -> int:
    """Of the format, by whether there are ids."""
    return VERSION if form.shuffled else PACKED


def _is_there(field: pa.Field, columns: pa.Schema) -> bool:
    """Whether exactly one column has this name, and it this type."""
    places = columns.get_all_field_indices(field.name)
    return len(places) == 1 and columns.field(places[0]).type == field.type


def _any_null(table: pa.Table) -> NDArray[np.bool_]:
    """(n,) the rows with a null in any column."""
    missing = np.zeros(table.num_rows, np.bool_)
    for column in table.columns:
        if column.null_count:
            missing |= column.is_null().to_numpy()
    return missing


def _plan(expected: Expected) -> pa.Scalar:
    """The fingerprint, as its column has it."""
    return pa.scalar(expected.fingerprint, pa.binary(fingerprint.SIZE))


def _array(values: NDArray[Any], kind: pa.DataType) -> pa.Array:
    """A field of all records as a column."""
    packed = np.ascontiguousarray(values)
    if not pa.types.is_fixed_size_binary(kind):
        return pa.array(packed, kind)
    size = packed.nbytes // kind.byte_width
    return pa.Array.from_buffers(kind, size, [None, pa.py_buffer(packed.tobytes())])


def _numbers(column: pa.ChunkedArray, kind: np.dtype[Any]) -> NDArray[Any]:
    """A column without nulls as a field of records."""
    if not pa.types.is_fixed_size_binary(column.type):
        return column.to_numpy()
    width, pieces = column.type.byte_width, []
    for chunk in column.chunks:
        data = chunk.buffers()[1]
        part = data[chunk.offset * width : (chunk.offset + len(chunk)) * width] if data else b""
        pieces.append(np.frombuffer(part, kind.base))
    return np.concatenate([np.empty(0, kind.base), *pieces]).reshape(-1, *kind.shape)

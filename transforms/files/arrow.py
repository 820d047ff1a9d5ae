"""Arrow's own files, which Feather's are too, and its streams."""

from collections.abc import Iterator, Sequence
from threading import Lock
from typing import Any, ClassVar

import pyarrow as pa

from transforms.files.format import FileFacts, Mangled, Opener
from transforms.files.reading import Reading

# Counting waits in Arrow's few threads for others of them: of a thousand files that many threads
# looked at, none ended.
_ONE_AT_A_TIME = Lock()
MAGIC = b"ARROW1"  # that a file begins with, and no stream does


class ArrowFile:
    """Batch by batch: the footer of a file tells where they are, and a stream has none."""

    name: ClassVar[str] = "Arrow"
    endings: ClassVar[tuple[str, ...]] = (".arrow", ".arrows", ".feather", ".ipc")
    text: ClassVar[bool] = False

    def look(self, open_file: Opener, reading: Reading) -> FileFacts:
        from pyarrow.dataset import IpcFileFormat

        with _ONE_AT_A_TIME, open_file() as stream:
            if not _has_footer(stream):
                with pa.ipc.open_stream(stream) as batches:
                    return FileFacts(
                        sum(batch.num_rows for batch in batches), _named(batches.schema)
                    )
            schema = _named(pa.ipc.open_file(stream).schema)
            if len({*schema.names}) < len(schema):  # a dataset has no two columns of a name
                stream.seek(0)
                file = pa.ipc.open_file(stream, options=_only([0]))
                batches = map(file.get_batch, range(file.num_record_batches))
                return FileFacts(sum(batch.num_rows for batch in batches), schema)
            # Of each batch its head alone is read.
            return FileFacts(IpcFileFormat().make_fragment(stream).count_rows(), schema)

    def tables(
        self, open_file: Opener, columns: Sequence[str], reading: Reading
    ) -> Iterator[pa.Table]:
        with open_file() as stream:
            for batch in _batches(stream, columns):
                table = _of_schema(pa.Table.from_batches([batch]))
                _require_sound(table)
                yield table


def _of_schema(table: pa.Table) -> pa.Table:
    """A table whose columns are of its file's schema: nulls in place of what has no name."""
    for place, field in enumerate(_named(table.schema)):
        if field.type != table.schema.types[place]:
            nothing = pa.nulls(table.num_rows, field.type)
            table = table.set_column(place, field.with_nullable(True), nothing)
    return table


def _named(schema: pa.Schema) -> pa.Schema:
    """The columns; of intervals that pyarrow reads and has no name for, so that no worker could be
    told of them, another kind stands for them: neither is of use here."""
    for place, field in enumerate(schema):
        if str(field.type) in ("month_interval", "day_time_interval"):
            schema = schema.set(place, field.with_type(pa.month_day_nano_interval()))
    return schema


def _require_sound(table: pa.Table) -> None:
    """Refuse what points outside of a column: it would be followed when it is read."""
    for name, column in zip(table.column_names, table.columns, strict=True):
        try:
            column.validate(full=True)
        except pa.ArrowInvalid:
            raise Mangled(
                f"column {name!r} contradicts itself: a value does not fit its type, or lies "
                "outside of it"
            ) from None


def _batches(stream: Any, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    if not _has_footer(stream):
        with pa.ipc.open_stream(stream) as batches:
            places = _places(batches.schema, columns)
        stream.seek(0)
        with pa.ipc.open_stream(stream, options=_only(places)) as batches:
            yield from batches
        return
    places = _places(pa.ipc.open_file(stream).schema, columns)
    file = pa.ipc.open_file(stream, options=_only(places))
    for number in range(file.num_record_batches):
        yield file.get_batch(number)


def _has_footer(stream: Any) -> bool:
    start = stream.read(len(MAGIC))
    stream.seek(0)
    return bool(start == MAGIC)


def _places(schema: pa.Schema, columns: Sequence[str]) -> list[int]:
    return [schema.get_field_index(column) for column in columns]


def _only(places: list[int]) -> pa.ipc.IpcReadOptions:
    return pa.ipc.IpcReadOptions(included_fields=places, use_threads=False)

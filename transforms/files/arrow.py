"""Arrow's own files, which Feather's are too, and its streams."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import pyarrow as pa

from transforms.files.format import Look, Opener
from transforms.files.reading import Reading

MAGIC = b"ARROW1"  # that a file begins with, and no stream does


class ArrowFile:
    """Batch by batch: the footer of a file tells where they are, and a stream has none."""

    name: ClassVar[str] = "Arrow"
    endings: ClassVar[tuple[str, ...]] = (".arrow", ".arrows", ".feather", ".ipc")
    text: ClassVar[bool] = False

    def look(self, open_file: Opener, reading: Reading) -> Look:
        from pyarrow.dataset import IpcFileFormat

        with open_file() as stream:
            if not _has_footer(stream):
                with pa.ipc.open_stream(stream) as batches:
                    return Look(sum(batch.num_rows for batch in batches), batches.schema)
            schema = pa.ipc.open_file(stream).schema
            # Of each batch its head alone is read.
            return Look(IpcFileFormat().make_fragment(stream).count_rows(), schema)

    def tables(
        self, open_file: Opener, columns: Sequence[str], reading: Reading
    ) -> Iterator[pa.Table]:
        with open_file() as stream:
            for batch in _batches(stream, columns):
                table = pa.Table.from_batches([batch])
                # Offsets that point outside of a column would be followed when it is read.
                table.validate(full=True)
                yield table


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

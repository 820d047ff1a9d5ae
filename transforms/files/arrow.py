"""Arrow's own files, which Feather's are too: the footer tells where batches are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import pyarrow as pa

from transforms.files.format import Look, Opener
from transforms.files.reading import Reading


class ArrowFile:
    """Batch by batch."""

    name: ClassVar[str] = "Arrow"
    endings: ClassVar[tuple[str, ...]] = (".arrow", ".feather", ".ipc")
    text: ClassVar[bool] = False

    def look(self, open_file: Opener, reading: Reading) -> Look:
        from pyarrow.dataset import IpcFileFormat

        with open_file() as stream:
            schema = pa.ipc.open_file(stream).schema
            # Of each batch its head alone is read.
            return Look(IpcFileFormat().make_fragment(stream).count_rows(), schema)

    def tables(
        self, open_file: Opener, columns: Sequence[str], reading: Reading
    ) -> Iterator[pa.Table]:
        with open_file() as stream:
            schema = pa.ipc.open_file(stream).schema
            places = [schema.get_field_index(column) for column in columns]
            chosen = pa.ipc.IpcReadOptions(included_fields=places, use_threads=False)
            file = pa.ipc.open_file(stream, options=chosen)
            for number in range(file.num_record_batches):
                table = pa.Table.from_batches([file.get_batch(number)])
                # Offsets that point outside of a column would be followed when it is read.
                table.validate(full=True)
                yield table

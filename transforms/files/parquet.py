"""Parquet: the footer tells rows and columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from transforms.files.format import Look, Opener
from transforms.files.reading import Reading


class Parquet:
    """Row group by row group."""

    name: ClassVar[str] = "Parquet"
    endings: ClassVar[tuple[str, ...]] = (".parquet", ".pq")
    text: ClassVar[bool] = False

    def look(self, open_file: Opener, reading: Reading) -> Look:
        with open_file() as stream:
            file = pq.ParquetFile(stream)
            return Look(file.metadata.num_rows, file.schema_arrow)

    def tables(
        self, open_file: Opener, columns: Sequence[str], reading: Reading
    ) -> Iterator[pa.Table]:
        with open_file() as stream:
            file = pq.ParquetFile(stream)
            for group in range(file.num_row_groups):
                yield file.read_row_group(group, list(columns), use_threads=False)

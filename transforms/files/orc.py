"""ORC: the footer tells rows and columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import pyarrow as pa

from transforms.files.format import Look, Opener
from transforms.files.reading import Reading


class Orc:
    """Stripe by stripe."""

    name: ClassVar[str] = "ORC"
    endings: ClassVar[tuple[str, ...]] = (".orc",)
    text: ClassVar[bool] = False

    def look(self, open_file: Opener, reading: Reading) -> Look:
        from pyarrow.orc import ORCFile

        with open_file() as stream:
            file = ORCFile(stream)
            return Look(file.nrows, file.schema)

    def tables(
        self, open_file: Opener, columns: Sequence[str], reading: Reading
    ) -> Iterator[pa.Table]:
        from pyarrow.orc import ORCFile

        with open_file() as stream:
            file = ORCFile(stream)
            for stripe in range(file.nstripes):
                batch = file.read_stripe(stripe, columns=list(columns))
                yield pa.Table.from_batches([batch])

"""ORC: the footer tells rows and columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import pyarrow as pa

from transforms.files.format import FileFacts, Mangled, Opener
from transforms.files.reading import Reading


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

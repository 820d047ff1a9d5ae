"""CSV: fields between delimiters, all of them text until the plan says what they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.csv as pv

from transforms.files.format import Look, Mangled, Opener
from transforms.files.reading import Reading

_BLOCK = 1 << 23  # bytes; no row may be longer


class Csv:
    """Fields as RFC 4180 writes them: quoted where they hold delimiters, quotes or ends of lines.

    A field without anything in it is null, and "" an empty string. A row with too few fields or too
    many is a row of nulls. Lines with nothing on them are no rows.
    """

    name: ClassVar[str] = "CSV"
    endings: ClassVar[tuple[str, ...]] = (".csv", ".tsv")
    text: ClassVar[bool] = True

    def __init__(self, delimiter: str = ",") -> None:
        self._delimiter = delimiter

    def look(self, open_file: Opener, reading: Reading) -> Look:
        names = self._names(open_file, reading)
        tables = self.tables(open_file, names[:1], reading)
        return Look(sum(table.num_rows for table in tables), reading.schema(names))

    def tables(
        self, open_file: Opener, columns: Sequence[str], reading: Reading
    ) -> Iterator[pa.Table]:
        ragged = 0

        def skip(_: Any) -> str:
            nonlocal ragged
            ragged += 1
            return "skip"

        schema = reading.schema(columns)
        # Bytes: one text that is no UTF-8 would end the reading of all.
        kinds = dict.fromkeys(columns, pa.binary())
        with self._opened(open_file, reading, skip, kinds) as batches:
            for batch in batches or ():
                parts = [reading.typed(batch.column(column), column) for column in columns]
                yield pa.table(parts, schema=schema)
        yield pa.table([pa.nulls(ragged, field.type) for field in schema], schema=schema)

    def _names(self, open_file: Opener, reading: Reading) -> list[str]:
        """The columns; of a file without a byte in it those that the plan names."""
        with self._opened(open_file, reading, lambda _: "skip", None) as batches:
            names = list(reading.header) if batches is None else list(batches.schema.names)
        if not names:
            raise Mangled("it has no first line that names its columns")
        return names

    @contextmanager
    def _opened(
        self, open_file: Opener, reading: Reading, skip: Any, kinds: dict[str, Any] | None
    ) -> Iterator[Any]:
        """The batches of some columns; None of a file without a byte in it."""
        with open_file() as stream, _explained():
            yield self._batches(stream, reading, skip, kinds)

    def _batches(
        self, stream: Any, reading: Reading, skip: Any, kinds: dict[str, Any] | None
    ) -> Any:
        try:
            return pv.open_csv(
                stream,
                read_options=pv.ReadOptions(
                    block_size=_BLOCK, use_threads=False, column_names=[*reading.header]
                ),
                parse_options=pv.ParseOptions(
                    delimiter=reading.delimiter or self._delimiter,
                    newlines_in_values=True,
                    invalid_row_handler=skip,
                ),
                convert_options=pv.ConvertOptions(
                    check_utf8=False,
                    column_types=kinds or {},
                    include_columns=[*(kinds or ())],
                    null_values=[""],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                ),
            )
        except pa.ArrowInvalid as error:
            if "Empty CSV file" in str(error):
                return None
            raise


@contextmanager
def _explained() -> Iterator[None]:
    """What people can do something about, in words of ours."""
    try:
        yield
    except UnicodeDecodeError:
        raise Mangled("the names of its columns are no UTF-8 text") from None
    except pa.ArrowInvalid as error:
        if "straddl" not in str(error):
            raise
        limit = f"{_BLOCK >> 20} MiB"
        raise Mangled(
            f"a row is longer than {limit}, or a quote is opened and not closed"
        ) from None

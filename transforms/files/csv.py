"""CSV: fields between delimiters, all of them text until the plan says what they are."""

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv

from transforms.files.format import (
    LONG,
    FileFacts,
    Mangled,
    Opener,
    Recoded,
    TextStart,
)
from transforms.files.reading import Reading, parsed

_BLOCK = 1 << 23  # bytes; no row may be longer
_HEADER = 1 << 16  # bytes that are parsed for the names of columns, if these are no longer
_MANY = 1 << 17  # delimiters in a row that no file has
_PIECE = 1 << 20  # bytes decoded at a time
_UNKNOWN = "\N{REPLACEMENT CHARACTER}"


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

    def look(self, open_file: Opener, reading: Reading) -> FileFacts:
        names = self.names(open_file, reading)
        tables = self.tables(open_file, names[:1], reading)
        return FileFacts(sum(table.num_rows for table in tables), reading.schema(names))

    def begin(self, open_file: Opener, reading: Reading) -> TextStart | None:
        """The beginning of a file; None if it is no longer than `LONG`."""
        with open_file() as stream:
            piece = stream.read(LONG)
        if len(piece) < LONG:
            return None
        schema = reading.schema(self.names(open_file, reading))
        return TextStart(piece.count(b"\n"), len(piece), schema)

    def names(self, open_file: Opener, reading: Reading) -> list[str]:
        """The columns; of a file without a byte in it those that the plan names.

        Args:
            open_file: opens it, at its start.
            reading: of text.

        Raises:
            Mangled: nothing names them, or no text of that encoding does.
        """
        try:
            names = self._names(open_file, reading, _HEADER)
        except Mangled:
            names = []
        names = names or self._names(open_file, reading, _BLOCK)
        if not names:
            raise Mangled("it has no first line that names its columns")
        if any(_UNKNOWN in name for name in names):
            raise Mangled(
                "the names of its columns are no UTF-8 text; name its encoding, as in cp1252"
            )
        return names

    def _names(self, open_file: Opener, reading: Reading, size: int) -> list[str]:
        with open_file() as stream, _explained():
            batches = self._batches(_Utf8(stream), reading, lambda _: "skip", None, size)
            return [*reading.header] if batches is None else [*batches.schema.names]

    def tables(
        self, open_file: Opener, columns: Sequence[str], reading: Reading
    ) -> Iterator[pa.Table]:
        ragged, schema = _Ragged(), reading.schema(columns)
        kinds, rows = dict.fromkeys(columns, pa.string()), 0
        with open_file() as stream, _explained():
            text = _Utf8(stream, reading.delimiter or self._delimiter)
            for batch in self._batches(text, reading, ragged, kinds, _BLOCK) or ():
                parts = [
                    parsed(_text(batch.column(column)), reading.kind(column)) for column in columns
                ]
                rows += batch.num_rows
                yield pa.table(parts, schema=schema)
        if text.guarded and not ragged.ended:
            raise Mangled(
                f"a quote is opened in row {max(rows + ragged.rows, 1):,} and not closed, so that "
                "all lines behind it are of that row: close it"
            )
        yield pa.table([pa.nulls(ragged.rows, field.type) for field in schema], schema=schema)

    def _batches(
        self, text: "_Utf8", reading: Reading, skip: Any, kinds: dict[str, Any] | None, size: int
    ) -> Any:
        """The batches of some columns; None of a file without a byte in it."""
        try:
            return pv.open_csv(
                io.BufferedReader(text, _PIECE),
                read_options=pv.ReadOptions(
                    block_size=size, use_threads=False, column_names=[*reading.header]
                ),
                parse_options=pv.ParseOptions(
                    delimiter=reading.delimiter or self._delimiter,
                    newlines_in_values=True,
                    invalid_row_handler=skip,
                ),
                convert_options=pv.ConvertOptions(
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


class _Ragged:
    """What is called for rows of too few or too many fields: they are counted, and skipped.

    Attributes:
        rows: how many there were.
        ended: whether the last of all was one that `_Utf8` has added.
    """

    def __init__(self) -> None:
        self.rows, self.ended = 0, False

    def __call__(self, row: Any) -> str:
        self.ended = row.actual_columns == _MANY + 1
        self.rows += not self.ended
        return "skip"


class _Utf8(Recoded):
    """A stream in which a sign that says so stands for each byte that is no UTF-8.

    Of a ragged row with such a byte pyarrow fails to tell, and the row would be lost.

    A quote that is not closed takes all that is behind it into its field, and the parser says
    nothing of it. Behind quotes stands a row that no file has: where the parser sees none, it was
    within such a field. Their number tells nothing, for quotes may be within fields without any.

    Attributes:
        guarded: whether such a row was added.
    """

    def __init__(self, stream: Any, delimiter: str = "") -> None:
        super().__init__(stream, "utf-8", "replace")
        self._last, self._delimiter, self._quotes = b"", delimiter, False
        self.guarded = False

    def _encoded(self, text: str, piece: bytes) -> bytes:
        self._quotes |= b'"' in piece
        end = b""
        if not piece:
            # A header that nothing follows is taken for no line.
            end = b"\n" if self._last not in b"\r\n" else b""
            self.guarded = bool(self._quotes and self._delimiter)
            if self.guarded:
                end += self._delimiter.encode() * _MANY + b"\n"
        self._last = piece[-1:]
        return text.encode() + end


def _text(column: pa.Array) -> pa.Array:
    """Fields; null where one held bytes that are no UTF-8."""
    unknown = pc.match_substring(column, _UNKNOWN)
    return pc.if_else(unknown, None, column)


@contextmanager
def _explained() -> Iterator[None]:
    """What people can do something about, in words of ours."""
    try:
        yield
    except pa.ArrowInvalid as error:
        if "straddl" not in str(error):
            raise
        limit = f"{_BLOCK >> 20} MiB"
        raise Mangled(
            f"a row is longer than {limit}, or a quote is opened and not closed"
        ) from None

"""JSON lines: an object a line, whose members are columns."""

import codecs
import json
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import pyarrow as pa

from transforms.files.format import FileFacts, Mangled, Opener
from transforms.files.reading import Reading, parsed

_BLOCK = 1 << 22  # bytes that become a table
_LARGEST_LINE = 1 << 24  # bytes
_MOST_COLUMNS = 100_000  # as of Avro: each is kept in memory, and lines may name others without end

# Numbers stay as they are written; made once, for that takes longer than reading a line does.
_DECODER = json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=str)


class JsonLines:
    """A line that is no object is a row of nulls; lines of blanks are no rows.

    Each scalar is taken as it is written there, and for what its column holds. Python reads the
    lines: Arrow's reader is faster and ends the process at some of the lines that are no objects
    (a segmentation fault in Arrow 25, found by fuzzing).
    """

    name: ClassVar[str] = "JSON lines"
    endings: ClassVar[tuple[str, ...]] = (".jsonl", ".ndjson", ".json")
    text: ClassVar[bool] = True

    def look(self, open_file: Opener, reading: Reading) -> FileFacts:
        rows, names = 0, dict.fromkeys(column for column, _ in reading.types)
        first: list[bytes] = []
        for lines in _blocks(open_file):
            first += lines[: 2 - len(first)]
            rows += len(lines)
            for line in lines:
                names |= dict.fromkeys(_object(line))
                if len(names) > _MOST_COLUMNS:
                    raise Mangled(f"its lines have more than {_MOST_COLUMNS:,} members")
        _require_lines(first)
        return FileFacts(rows, reading.schema(name for name in names if _written(name) is not None))

    def tables(
        self, open_file: Opener, columns: Sequence[str], reading: Reading
    ) -> Iterator[pa.Table]:
        for lines in _blocks(open_file):
            rows = [_object(line) for line in lines]
            parts = [
                parsed(
                    pa.array([_written(row.get(name)) for row in rows], pa.string()),
                    reading.kind(name),
                )
                for name in columns
            ]
            yield pa.table(parts, schema=reading.schema(columns))


def _blocks(open_file: Opener) -> Iterator[list[bytes]]:
    """The lines of a file that are more than blanks, some at a time."""
    with open_file() as stream:
        left = stream.read(len(codecs.BOM_UTF8)).removeprefix(codecs.BOM_UTF8)
        while block := stream.read(_BLOCK):
            left += block
            whole, end, left = left.rpartition(b"\n")
            if len(left) > _LARGEST_LINE:
                raise Mangled(f"a line is longer than {_LARGEST_LINE >> 20} MiB")
            if end:
                yield _lines(whole)
        yield _lines(left)


def _require_lines(lines: list[bytes]) -> None:
    first = lines[0].strip() if lines else b""
    if not first.startswith((b"[", b"{")):
        return
    try:
        value = json.loads(first)
    except json.JSONDecodeError as error:
        # Whatever is wrong within a line is one row's fault; that it goes on is the whole file's.
        goes_on = error.pos >= len(error.doc) and (
            first[:1] == b"[" or not any(map(_object, lines[1:2]))
        )
    except (ValueError, RecursionError):
        return
    else:
        goes_on = type(value) is list and any(type(row) is dict for row in value)
    if goes_on:
        raise Mangled(
            "it is one JSON value, an array or one over many lines: write an object a line, as "
            "`jq -c '.[]'` does"
        )


def _lines(block: bytes) -> list[bytes]:
    return [line for line in block.split(b"\n") if line.strip()]


def _object(line: bytes) -> dict[str, Any]:
    """A line's members; none if it is no object."""
    try:
        row = _DECODER.decode(line.decode())
    except (ValueError, RecursionError):
        return {}
    return row if type(row) is dict else {}


def _written(value: Any) -> str | None:
    """A scalar as it is written; None of what is none, or is no text that UTF-8 has."""
    if type(value) is bool:
        return "true" if value else "false"
    if type(value) is not str:
        return None
    try:
        return value if value.isascii() else value.encode().decode()
    except UnicodeEncodeError:  # half of a pair of surrogates
        return None

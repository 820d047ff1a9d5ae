"""JSON lines: an object a line, whose members are columns."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.json as pj

from transforms.files.format import Look, Mangled, Opener
from transforms.files.reading import Reading, parsed

_BLOCK = 1 << 22  # bytes that become a table
_LARGEST_LINE = 1 << 26  # bytes

# What Arrow reads out of JSON itself; all else is text there, or is made text.
_NATIVE = (pa.int64(), pa.float64(), pa.bool_())


class JsonLines:
    """A line that is no object is a row of nulls; lines of blanks are no rows.

    Arrow reads whole blocks. Where a line of a block is not what the columns' types say, the block
    is read line by line, and each scalar that was written there is taken for what it says.
    """

    name: ClassVar[str] = "JSON lines"
    endings: ClassVar[tuple[str, ...]] = (".jsonl", ".ndjson", ".json")
    text: ClassVar[bool] = True

    def look(self, open_file: Opener, reading: Reading) -> Look:
        rows, names = 0, dict.fromkeys(column for column, _ in reading.types)
        for lines in _blocks(open_file):
            rows += len(lines)
            names |= dict.fromkeys(_names(lines))
        return Look(rows, reading.schema(names))

    def tables(
        self, open_file: Opener, columns: Sequence[str], reading: Reading
    ) -> Iterator[pa.Table]:
        for lines in _blocks(open_file):
            yield _at_once(lines, columns, reading) or _one_by_one(lines, columns, reading)


def _blocks(open_file: Opener) -> Iterator[list[bytes]]:
    """The lines of a file that are more than blanks, some at a time."""
    with open_file() as stream:
        left = b""
        while block := stream.read(_BLOCK):
            left += block
            whole, end, left = left.rpartition(b"\n")
            if len(left) > _LARGEST_LINE:
                raise Mangled(f"a line is longer than {_LARGEST_LINE >> 20} MiB")
            if end:
                yield _lines(whole)
        yield _lines(left)


def _lines(block: bytes) -> list[bytes]:
    return [line for line in block.split(b"\n") if line.strip()]


def _at_once(lines: Sequence[bytes], columns: Sequence[str], reading: Reading) -> pa.Table | None:
    """All lines by Arrow; None if one is not what it should be."""
    kinds = {name: reading.kind(name) for name in columns}
    written = [(name, kind if kind in _NATIVE else pa.string()) for name, kind in kinds.items()]
    table = _read(
        lines,
        pj.ParseOptions(explicit_schema=pa.schema(written), unexpected_field_behavior="ignore"),
    )
    if table is None:
        return None
    parts = [
        table.column(name).combine_chunks()
        if kind in _NATIVE
        else parsed(table.column(name).combine_chunks(), kind)
        for name, kind in kinds.items()
    ]
    return pa.table(parts, schema=reading.schema(columns))


def _one_by_one(lines: Sequence[bytes], columns: Sequence[str], reading: Reading) -> pa.Table:
    """Each line by itself, its scalars as they are written."""
    rows = [_object(line) for line in lines]
    parts = [
        parsed(pa.array([_written(row.get(name)) for row in rows], pa.string()), reading.kind(name))
        for name in columns
    ]
    return pa.table(parts, schema=reading.schema(columns))


def _names(lines: Sequence[bytes]) -> Iterator[str]:
    """The members of some objects."""
    table = _read(lines, pj.ParseOptions())
    if table is not None:
        yield from table.schema.names
        return
    for line in lines:
        yield from (name for name in _object(line) if _written(name) is not None)


def _read(lines: Sequence[bytes], options: pj.ParseOptions) -> pa.Table | None:
    """Lines by Arrow, if it takes them all, and each for a row."""
    if not lines:
        return None
    block = b"\n".join(lines)
    whole = pj.ReadOptions(use_threads=False, block_size=len(block) + 1)
    try:
        table = pj.read_json(io.BytesIO(block), read_options=whole, parse_options=options)
        table.validate(full=True)
    except (pa.ArrowException, UnicodeDecodeError):  # its text quotes the line
        return None
    return table if table.num_rows == len(lines) else None


def _object(line: bytes) -> dict[str, Any]:
    """A line's members; none if it is no object."""
    try:
        row = json.loads(line, parse_float=str, parse_int=str, parse_constant=str)
    except (ValueError, RecursionError):
        return {}
    return row if type(row) is dict else {}


def _written(value: Any) -> str | None:
    """A scalar as it is written; None of what is none, or is no text that UTF-8 has."""
    if type(value) is bool:
        return "true" if value else "false"
    if type(value) is not str:
        return None
    return None if any("\ud800" <= sign <= "\udfff" for sign in value) else value

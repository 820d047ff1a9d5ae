"""JSON lines: an object a line, whose members are columns."""

import codecs
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from operator import itemgetter
from typing import Any, ClassVar

import orjson
import pyarrow as pa

from transforms.files.format import LONG, FileFacts, Mangled, Opener, TextStart
from transforms.files.reading import Reading, parsed

_BLOCK = 1 << 20  # bytes that become a table; of 4 MiB its objects leave the caches
_BETWEEN = (1 << 53) + 1  # that stands between lines: no double is the same number
_LARGEST_LINE = 1 << 24  # bytes
_MOST_COLUMNS = 100_000  # as of Avro: each is kept in memory, and lines may name others without end

# Numbers stay as they are written; made once, for that takes longer than reading a line does.
_MINUS_ZERO = re.compile(rb"-0(?![0-9.eE])")
_EXACT = json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=str)


class JsonLines:
    """A line that is no object is a row of nulls; lines of blanks are no rows.

    Each scalar is taken as it is written there, and for what its column holds. orjson reads the
    lines, and Python's `json` those that it refuses (NaN, half of a pair of surrogates). Arrow's
    reader fails a block for one odd line, takes a record over several lines, and makes a double of
    2^64 - 1.
    """

    name: ClassVar[str] = "JSON lines"
    endings: ClassVar[tuple[str, ...]] = (".jsonl", ".ndjson", ".json")
    text: ClassVar[bool] = True

    def look(self, open_file: Opener, reading: Reading) -> FileFacts:
        return FileFacts(*_seen(_blocks(open_file), reading))

    def begin(self, open_file: Opener, reading: Reading) -> TextStart | None:
        """The beginning of a file; None if it is no longer than `LONG`, or one line is."""
        with open_file() as stream:
            piece = stream.read(LONG)
        block = piece.removeprefix(codecs.BOM_UTF8).rpartition(b"\n")[0]
        if len(piece) < LONG or len(_lines(block)) < 2:
            return None
        rows, schema = _seen([block], reading)
        return TextStart(rows, len(piece), schema)

    def tables(
        self, open_file: Opener, columns: Sequence[str], reading: Reading
    ) -> Iterator[pa.Table]:
        for block in _blocks(open_file):
            rows = _objects(block)
            parts = [_column(block, rows, name, reading.kind(name)) for name in columns]
            yield pa.table(parts, schema=reading.schema(columns))


def _blocks(open_file: Opener) -> Iterator[bytes]:
    """The lines of a file, some at a time."""
    with open_file() as stream:
        left = stream.read(len(codecs.BOM_UTF8)).removeprefix(codecs.BOM_UTF8)
        while block := stream.read(_BLOCK):
            left += block
            whole, end, left = left.rpartition(b"\n")
            if len(left) > _LARGEST_LINE:
                raise Mangled(f"a line is longer than {_LARGEST_LINE >> 20} MiB")
            if end:
                yield whole
        yield left


def _seen(blocks: Iterable[bytes], reading: Reading) -> tuple[int, pa.Schema]:
    """How many lines there are, and their members."""
    rows, names = 0, dict.fromkeys(column for column, _ in reading.types)
    first: list[bytes] = []
    for block in blocks:
        if len(first) < 2:
            first += _lines(block)[: 2 - len(first)]
        for row in _objects(block):
            rows += 1
            names |= row
            if len(names) > _MOST_COLUMNS:
                raise Mangled(f"its lines have more than {_MOST_COLUMNS:,} members")
    _require_lines(first)
    return rows, reading.schema(name for name in names if _text(name) is not None)


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
    """Those that are more than blanks."""
    return [*filter(bytes.strip, block.split(b"\n"))]


def _objects(block: bytes) -> list[dict[str, Any]]:
    """Each line's members; none of one that is no object."""
    rows = _together(block)
    if rows is None:
        rows = [*map(_object, _lines(block))]
    return rows if {*map(type, rows)} <= {dict} else [_members(row) for row in rows]


def _together(block: bytes) -> list[Any] | None:
    """Each line's value, of all lines at once; None unless each of them is one value.

    As an array, a million lines take 0.83 CPU s to a column, and 0.92 one by one. A line that opens
    a bracket which another one closes hides the number between them, and no line has that number.
    """
    between, lines = b",%d," % _BETWEEN, block.count(b"\n") + 1
    if between[1:-1] in block:
        return None
    try:
        values = orjson.loads(b"[%b]" % block.replace(b"\n", between))
    except ValueError:
        return None
    apart = values[1::2]
    whole = len(values) == 2 * lines - 1 and apart.count(_BETWEEN) == len(apart)
    return values[::2] if whole else None


def _object(line: bytes) -> dict[str, Any]:
    try:
        return _members(orjson.loads(line))
    except ValueError:
        return _exact(line)


def _exact(line: bytes) -> dict[str, Any]:
    """A line's members, numbers as texts."""
    try:
        return _members(_EXACT.decode(line.decode()))
    except (ValueError, RecursionError):
        return {}


def _members(row: Any) -> dict[str, Any]:
    return row if type(row) is dict else {}


def _column(block: bytes, rows: list[dict[str, Any]], name: str, kind: pa.DataType) -> pa.Array:
    try:
        values = [*map(itemgetter(name), rows)]  # half the time of `get`
    except KeyError:
        values = [row.get(name) for row in rows]
    types = {*map(type, values)} - {type(None)}
    # Doubles are the nearest either way; what int64 does not hold is null, as are its texts.
    if types == {float} and pa.types.is_floating(kind):
        return pa.array(values, kind)
    if types == {int} and pa.types.is_integer(kind):
        with suppress(OverflowError, pa.ArrowInvalid):
            return pa.array(values, kind)
    if types - {str}:
        said = partial(_written, name=name, exact=pa.types.is_string(kind))
        values = [*map(said, values, _lines(block))]
    try:
        texts = pa.array(values, pa.string())
    except UnicodeEncodeError:  # half of a pair of surrogates
        texts = pa.array(map(_text, values), pa.string())
    return parsed(texts, kind)


def _written(value: Any, line: bytes, name: str, exact: bool) -> str | None:
    """A scalar as it is written, or as a text of the same value; None of what is none."""
    kind = type(value)
    if kind is str or value is None:
        return value
    if kind is bool:
        return "true" if value else "false"
    if kind is int and (value or not _MINUS_ZERO.search(line)):
        return str(value)
    if kind is float and not exact:
        return repr(value)
    # Of -0, 1.50, 1e3 and whole numbers beyond 64 bits another text would come back.
    written = _exact(line).get(name) if kind in (int, float) else None
    return written if type(written) is str else None


def _text(value: str | None) -> str | None:
    """What UTF-8 has; None of what it has not."""
    try:
        (value or "").encode()
        return value
    except UnicodeEncodeError:
        return None

"""Avro, by the reader that Beam's own connector stands on, of files that cannot grow in it.

Avro's container: a head that says what rows are, and blocks of rows that may be packed.

The blocks are unpacked here, for the reader of rows unpacks two of the codecs that Avro names only
where more is installed, and has no bound for what comes out.
"""

from __future__ import annotations

import bz2
import io
import json
import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, ClassVar, NamedTuple, cast

import pyarrow as pa

from transforms.files.avro_columns import columns_of
from transforms.files.avro_kinds import OTHER, Kind, Names, unsaid
from transforms.files.format import FileFacts, Mangled, Opener
from transforms.files.reading import Reading

_ROWS = 1 << 16  # that become a table, where they are read one by one
# Blocks read together: bytes of more leave the caches, and rows are kept as the places of values.
_TOGETHER, _MOST_ROWS = 1 << 24, 1 << 20
_IN_STEP = 16  # blocks, by their rows: in step, rows of fewer take longer than one by one


class Avro:
    """Row by row, as Avro is laid out.

    A schema may say of a few bytes that they are any number of values. It is looked at before a row
    is read, and a file whose rows nothing bounds is refused.
    """

    name: ClassVar[str] = "Avro"
    endings: ClassVar[tuple[str, ...]] = (".avro",)
    text: ClassVar[bool] = False

    def look(self, open_file: Opener, reading: Reading) -> FileFacts:
        with open_file() as stream:
            file = _File(stream)
            # Each block says how many rows it has, and how long it is.
            rows = sum(block.rows for block in file.container.blocks())
        return FileFacts(rows, pa.schema([(name, kind.type) for name, kind in file.kinds.items()]))

    def tables(
        self, open_file: Opener, columns: Sequence[str], reading: Reading
    ) -> Iterator[pa.Table]:
        with open_file() as stream:
            file = _File(stream)
            yield from file.tables({name: file.kinds[name] for name in columns})


class _File:
    """A file of which the head was read."""

    def __init__(self, stream: Any) -> None:
        from fastavro import parse_schema

        self.container = Container(stream)
        self._schema: Any = parse_schema(unsaid(self.container.written))
        if not isinstance(self._schema, dict) or self._schema["type"] != "record":
            raise Mangled("its rows are no records, so that it has no columns")
        fields, self._names = self._schema["fields"], Names(self._schema)
        for field in fields:
            self._names.require_bounded(field["name"], field["type"])
        if not any(self._names.takes_bytes(field["type"]) for field in fields):
            raise Mangled("its rows take no bytes, so that nothing bounds how many it says it has")
        self.kinds = {field["name"]: self._names.kind(field["type"]) for field in fields}

    def tables(self, kinds: dict[str, Kind]) -> Iterator[pa.Table]:
        """All rows of some columns."""
        in_step = columns_of(self._names, self._schema["fields"], kinds)
        for blocks in _together(self.container.unpacked()):
            rows = [block.rows for block in blocks]
            if in_step is not None and sum(rows) >= _IN_STEP * max(rows):
                yield in_step.read(blocks)
            else:
                yield from self._one_by_one(blocks, kinds)

    def _one_by_one(
        self, blocks: Sequence[AvroBlock], kinds: dict[str, Kind]
    ) -> Iterator[pa.Table]:
        schema = pa.schema([(name, kind.type) for name, kind in kinds.items()])
        rows = self._rows(blocks, {name for name, kind in kinds.items() if kind.type != OTHER})
        while some := [*islice(rows, _ROWS)]:
            yield pa.table([_array(some, *kind) for kind in kinds.items()], schema=schema)

    def _rows(self, blocks: Sequence[AvroBlock], columns: set[str]) -> Iterator[dict[str, Any]]:
        """All rows, with some columns at the least."""
        from fastavro import parse_schema, schemaless_reader

        # Reading to a schema of fewer columns takes longer than reading all that are short.
        some = any(self.kinds[name].broad for name in self.kinds.keys() - columns)
        chosen: Any = parse_schema(self._names.chosen(self._schema, columns)) if some else None
        read = partial(schemaless_reader, handle_unicode_errors="surrogateescape")
        for rows, content in blocks:
            stream = io.BytesIO(content)
            for _ in range(rows):
                yield cast(dict[str, Any], read(stream, self._schema, chosen))


def _together(blocks: Iterable[AvroBlock]) -> Iterator[list[AvroBlock]]:
    """Blocks with rows, some at a time."""
    some: list[AvroBlock] = []
    size = rows = 0
    for block in blocks:
        if some and (size + len(block.content) > _TOGETHER or rows + block.rows > _MOST_ROWS):
            yield some
            some, size, rows = [], 0, 0
        some += [block] * bool(block.rows)
        size, rows = size + len(block.content), rows + block.rows
    if some:
        yield some


def _array(rows: list[dict[str, Any]], name: str, kind: Kind) -> pa.Array:
    if kind.type == OTHER:
        return pa.nulls(len(rows), OTHER)
    values = [row[name] for row in rows]
    if (made := kind.made) is not None:
        values = [None if value is None else made(value) for value in values]
    try:
        return pa.array(values, kind.type)
    except UnicodeEncodeError:  # some are no UTF-8
        return pa.array([_text(value) for value in values], kind.type)


def _text(value: Any) -> Any:
    """A text, or texts; None of what is no UTF-8."""
    if isinstance(value, list):
        return [_text(item) for item in value]
    try:
        (value or "").encode()
        return value
    except UnicodeEncodeError:
        return None


LARGEST_BLOCK = 1 << 26
"""Bytes of a block, unpacked too; writers end one after 16 KiB to a few MiB."""

_MAGIC, _SYNC = b"Obj\x01", 16
_LONGEST = 10  # bytes of a whole number
_HEAD = {
    "type": "record",
    "name": "org.apache.avro.file.Header",
    "fields": [
        {"name": "magic", "type": {"type": "fixed", "name": "magic", "size": len(_MAGIC)}},
        {"name": "meta", "type": {"type": "map", "values": "bytes"}},
        {"name": "sync", "type": {"type": "fixed", "name": "sync", "size": _SYNC}},
    ],
}


class AvroBlock(NamedTuple):
    """A block.

    Attributes:
        rows: how many it says it has.
        content: their bytes, as they are written or unpacked.
    """

    rows: int
    content: bytes


class Container:
    """A file whose head was read.

    Attributes:
        written: the schema of its rows, as the file has it.
    """

    def __init__(self, stream: Any) -> None:
        from fastavro import schemaless_reader

        self._stream = _Careful(stream)
        head: Any = schemaless_reader(cast(Any, self._stream), _HEAD, None)
        if head["magic"] != _MAGIC:
            raise ValueError("no Avro")
        self._sync, meta = head["sync"], head["meta"]
        self.written: Any = json.loads(meta["avro.schema"])
        codec = meta.get("avro.codec", b"null").decode("ascii")
        if codec not in _CODECS:
            known = ", ".join(_CODECS)
            raise Mangled(f"its blocks are packed by another codec than {known}")
        self._unpack = _CODECS[codec]

    def blocks(self) -> Iterator[AvroBlock]:
        """All blocks, one after another."""
        while (rows := self._number()) is not None:
            size = self._number()
            if size is None or not (rows >= 0 and 0 <= size <= LARGEST_BLOCK):
                raise _too_large() if (size or 0) > LARGEST_BLOCK else ValueError("no block")
            packed = self._stream.read(size)
            if len(packed) < size or self._stream.read(_SYNC) != self._sync:
                raise EOFError
            yield AvroBlock(rows, packed)

    def unpacked(self) -> Iterator[AvroBlock]:
        """The same, their bytes unpacked."""
        for rows, packed in self.blocks():
            content = self._unpack(packed)
            # A row takes a byte at the least: else a short file could say that it has any number.
            if not rows <= len(content) <= LARGEST_BLOCK:
                raise _too_large() if len(content) > LARGEST_BLOCK else EOFError
            yield AvroBlock(rows, content)

    def _number(self) -> int | None:
        """A whole number as Avro writes it; None where the file ends."""
        code = shift = 0
        while byte := self._stream.read(1):
            code |= (byte[0] & 0x7F) << shift
            shift += 7
            if not byte[0] & 0x80:
                return (code >> 1) ^ -(code & 1)
            if shift >= 7 * _LONGEST:
                raise ValueError("no number")
        if shift:
            raise EOFError
        return None


class _Careful:
    """A stream of which nobody asks for more than a block may hold: lengths are the file's word."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def read(self, size: int) -> bytes:
        if not 0 <= size <= LARGEST_BLOCK:
            raise EOFError
        return self._stream.read(size)


def _too_large() -> Mangled:
    return Mangled(f"a block of its rows is larger than {LARGEST_BLOCK >> 20} MiB")


def _whole(packer: Any, content: bytes) -> bytes:
    """What a packer of Python's makes of a block, and one byte more than may come of it."""
    if not packer.eof:
        raise _too_large() if len(content) > LARGEST_BLOCK else EOFError
    return content


def _deflate(packed: bytes) -> bytes:
    packer = zlib.decompressobj(-zlib.MAX_WBITS)
    return _whole(packer, packer.decompress(packed, LARGEST_BLOCK + 1))


def _bzip2(packed: bytes) -> bytes:
    packer = bz2.BZ2Decompressor()
    return _whole(packer, packer.decompress(packed, LARGEST_BLOCK + 1))


def _xz(packed: bytes) -> bytes:
    packer = lzma.LZMADecompressor()
    return _whole(packer, packer.decompress(packed, LARGEST_BLOCK + 1))


def _zstandard(packed: bytes) -> bytes:
    with pa.input_stream(pa.py_buffer(packed), compression="zstd") as stream:
        return bytes(stream.read(LARGEST_BLOCK + 1))


def _snappy(packed: bytes) -> bytes:
    """Snappy's own form says its length first; behind it Avro has a checksum of what comes out."""
    code = shift = 0
    for byte in packed[:5]:
        code |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            break
    if code > LARGEST_BLOCK:
        raise _too_large()
    content: bytes = pa.Codec("snappy").decompress(packed[:-4], code, asbytes=True)
    if zlib.crc32(content) != int.from_bytes(packed[-4:], "big"):
        raise ValueError("another checksum")
    return content


_CODECS: dict[str, Callable[[bytes], bytes]] = {
    "null": bytes,
    "deflate": _deflate,
    "snappy": _snappy,
    "zstandard": _zstandard,
    "bzip2": _bzip2,
    "xz": _xz,
}
